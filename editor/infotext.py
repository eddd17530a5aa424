"""Infotext: how a picture was made, as text that people read and many programs exchange.

    a cactus in the desert
    Negative prompt: fog
    Steps: 20, Sampler: ddim, CFG scale: 5.0, Seed: 7, Size: 512x512, Version: Deltabrush 0.1.0

The prompts are free text, so one that itself looks like infotext would be torn apart. Such prompts are written once
more, in JSON, into the last line. Other programs skip keys that they do not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def _size(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


_WHOLE = (re.compile(r"[+-]?\d{1,19}", re.ASCII), int)
_NUMBER = (re.compile(r"[+-]?(\d{1,20}\.?\d{0,20}|\.\d{1,20})(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE), float)
_SIZE = (re.compile(r"\d{1,6}x\d{1,6}", re.ASCII), _size)
_TEXT = (re.compile(r".*", re.DOTALL), str)

# name here -> (key in the text, (what its values look like, what reads them))
_FIELDS = {
    "steps": ("Steps", _WHOLE),
    "sampler": ("Sampler", _TEXT),
    "guidance": ("CFG scale", _NUMBER),
    "seed": ("Seed", _WHOLE),
    "size": ("Size", _SIZE),
    "model": ("Model", _TEXT),
    "strength": ("Denoising strength", _NUMBER),
    "feather_px": ("Mask blur", _WHOLE),
    "grow_px": ("Grow", _WHOLE),
    "parent": ("Edit parent", _TEXT),
    "id": ("Edit version", _TEXT),
}
_PROGRAM = "Deltabrush"
_NEGATIVE = "\nNegative prompt:"
_EXACT = {"prompt": "Exact prompt", "negative_prompt": "Exact negative prompt"}
_FEWEST_PAIRS = 3  # fewer in the last line are part of a prompt

# A key, then after a colon its value: in quotes, where it may hold commas, or up to the next comma. Possessive
# throughout, so that no character is looked at again and again, whatever the text.
_PAIR = re.compile(r'([^:,]*+)(?::[ ]*+("(?:[^"\\]|\\.)*+"(?=[ ]*+(?:,|$))|[^,]*+))?[ ]*+,?')


def write_infotext(made: Mapping[str, Any]) -> str:
    """The text for what `made` holds of prompt, negative_prompt, version and the names of the table above.

    `size` is (width, height). `read_infotext` gives all of it back; prompts that are absent come back empty.
    """
    prompts = {name: made.get(name) or "" for name in _EXACT}
    pairs = [f"{key}: {_written(made[name])}" for name, (key, _) in _FIELDS.items() if made.get(name) is not None]
    version = made.get("version")
    pairs.append(f"Version: {_PROGRAM if version is None else _written(f'{_PROGRAM} {version}')}")
    text = _joined(prompts, pairs)
    read = read_infotext(text)
    if any(read.get(name) != prompt for name, prompt in prompts.items()):
        pairs += [f"{_EXACT[name]}: {_quoted(prompt)}" for name, prompt in prompts.items()]
        text = _joined(prompts, pairs)
    return text


def read_infotext(text: str) -> dict[str, Any]:
    """What the text says, by the names that `write_infotext` takes; {} for blank text. Never raises.

    The last line counts only if it holds three pairs or more; else all is prompt. Pairs that are unknown, or whose
    number is none, are left out; ranges are not checked. "version" is there only for a text written by Deltabrush.
    """
    text = text.strip()
    if not text:
        return {}
    body, _, last_line = text.rpartition("\n")
    pairs = _pairs(last_line)
    if len(pairs) < _FEWEST_PAIRS:
        body, pairs = text, {}
    prompt, _, negative = f"\n{body}".partition(_NEGATIVE)
    made: dict[str, Any] = {"prompt": prompt.strip(), "negative_prompt": negative.strip()}
    made |= {name: pairs[key.lower()] for name, key in _EXACT.items() if key.lower() in pairs}
    for name, (key, (form, convert)) in _FIELDS.items():
        value = pairs.get(key.lower())
        if value is not None and form.fullmatch(value):
            made[name] = convert(value)
    program, space, version = pairs.get("version", "").partition(" ")
    return made | {"version": version} if space and program == _PROGRAM else made


def _joined(prompts: Mapping[str, str], pairs: list[str]) -> str:
    negative = prompts["negative_prompt"]
    return f"{prompts['prompt']}{f'{_NEGATIVE} {negative}' if negative else ''}\n{', '.join(pairs)}".lstrip("\n")


def _written(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "x".join(map(str, value))
    text = str(value)
    return _quoted(text) if text != text.strip() or any(mark in text for mark in ',:\n"') else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _pairs(line: str) -> dict[str, str]:
    """Key, in small letters, to value."""
    found = (match.groups() for match in _PAIR.finditer(line))
    pairs = {key.strip().lower(): value.strip() for key, value in found if value is not None}
    return {key: _unquoted(value) for key, value in pairs.items()}


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:  # a quote that only happens to stand there
        return value
