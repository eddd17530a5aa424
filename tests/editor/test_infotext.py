"""Infotext: what is written is read back whatever the prompt looks like, and nothing that is read does harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editor.infotext import read_infotext, write_infotext

MADE = {
    "prompt": "a cactus",
    "negative_prompt": "fog",
    "steps": 20,
    "sampler": "dpm++ 2m karras",
    "guidance": 5.5,
    "seed": 2**63 - 1,
    "size": (512, 768),
    "model": "starter",
    "strength": 0.75,
    "feather_px": 4,
    "grow_px": -8,
    "parent": "a1b2",
    "id": "c3d4",
    "version": "0.1.0",
}
TEXT = """a cactus
Negative prompt: fog
Steps: 20, Sampler: dpm++ 2m karras, CFG scale: 5.5, Seed: 9223372036854775807, Size: 512x768, Model: starter, \
Denoising strength: 0.75, Mask blur: 4, Grow: -8, Edit parent: a1b2, Edit version: c3d4, Version: Deltabrush 0.1.0"""


def test_the_text_is_the_one_that_other_programs_read() -> None:
    assert write_infotext(MADE) == TEXT
    assert read_infotext(TEXT) == MADE


LOOK_LIKE_INFOTEXT = {
    "newline-in-prompt": "one\ntwo\n\nthree",
    "steps": "Steps: 3",
    "last-line": "a\nSteps: 3, Seed: 4, Sampler: x",
    "only-a-last-line": "Steps: 3, Seed: 4, Sampler: x, Version: Deltabrush 9",
    "negative": "a\nNegative prompt: b",
    "negative-first": "Negative prompt: b",
    "negative-twice": "Negative prompt: a\nNegative prompt: b",
    "exact": 'Exact prompt: "x", Exact negative prompt: "y", Seed: 1',
    "quotes": '"a", "b": \'c\' \\ \\" ,',
    "colons-and-commas": "a: b, c: d, e: f",
    "spaces-around": "  a \t",
    "newlines-around": "\n\na\n",
    "empty": "",
    "blank": "\n \n",
    "carriage-return": "a\r\nb\rc",
    "other-line-ends": "a\u2028b\x85c\x0bd",
    "control": "\0\x1b[2J\x7f",
    "emoji": "a 🎈 and 👩‍🚀",
    "right-to-left": "\u202egnp.",
}


@pytest.mark.parametrize("prompt", LOOK_LIKE_INFOTEXT.values(), ids=[f"D9-{name}" for name in LOOK_LIKE_INFOTEXT])
def test_prompts_that_look_like_infotext_come_back(prompt: str) -> None:
    for made in (MADE | {"prompt": prompt}, MADE | {"negative_prompt": prompt}):
        assert read_infotext(write_infotext(made)) == made
    both = {"prompt": prompt, "negative_prompt": prompt}
    assert read_infotext(write_infotext(both)) == both


@pytest.mark.parametrize(
    "value",
    ["a, b", "a: b", "a\nb", 'a "b" c', '"', '"a"', '"a', " a ", "", "\\", "\\,", "Steps: 1, Seed: 2", "a\tb", "é🎈"],
    ids=lambda value: f"D9-{value!r}",
)
def test_values_with_marks_come_back(value: str) -> None:
    made = MADE | {"model": value, "sampler": value, "version": value}
    text = write_infotext(made)
    assert read_infotext(text) == made
    assert len(text.split("\n")) == 3


whole = st.integers(-(2**63) + 1, 2**63 - 1)
pieces = st.sampled_from(
    ["Negative prompt:", "Steps: 3", "Seed: 1", "\n", ", ", ": ", '"', "\\", "Exact prompt: ", "a"]
)
tricky = st.one_of(st.text(max_size=60), st.lists(pieces, max_size=12).map("".join))
fields: dict[str, st.SearchStrategy[Any]] = {
    "steps": whole,
    "sampler": tricky,
    "guidance": st.floats(allow_nan=False, allow_infinity=False),
    "seed": whole,
    "size": st.tuples(st.integers(1, 999_999), st.integers(1, 999_999)),
    "model": tricky,
    "strength": st.floats(0, 1),
    "feather_px": whole,
    "grow_px": whole,
    "parent": tricky,
    "id": tricky,
    "version": tricky,
}


@given(st.fixed_dictionaries({"prompt": tricky, "negative_prompt": tricky}, optional=fields))
@settings(deadline=None, max_examples=500)
def test_D9_reading_gives_back_all_that_was_written(made: dict[str, Any]) -> None:
    assert read_infotext(write_infotext(made)) == made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", {}),
        (" \n\t", {}),
        ("a cat", {"prompt": "a cat", "negative_prompt": ""}),
        ("a cat\nNegative prompt: dogs\nand fog", {"prompt": "a cat", "negative_prompt": "dogs\nand fog"}),
        ("Dune: a novel\nSteps: 1, Seed: 2", {"prompt": "Dune: a novel\nSteps: 1, Seed: 2", "negative_prompt": ""}),
        (
            "a cat, (masterpiece:1.2)\nNegative prompt: dog\n"
            "Steps: 28, Sampler: DPM++ 2M Karras, CFG scale: 7, Seed: 42, Size: 512x512, Model hash: 6ce0161689, "
            'Lora hashes: "one: 1a2b, two: 3c4d", Version: v1.10.1',
            {
                "prompt": "a cat, (masterpiece:1.2)",
                "negative_prompt": "dog",
                "steps": 28,
                "sampler": "DPM++ 2M Karras",
                "guidance": 7.0,
                "seed": 42,
                "size": (512, 512),
            },
        ),
        ("Steps: 1, Seed: 2, Size: 3x4", {"prompt": "", "negative_prompt": "", "steps": 1, "seed": 2, "size": (3, 4)}),
        (
            "x\nsteps:1,SEED:2,  cfg Scale :  3",
            {"prompt": "x", "negative_prompt": "", "steps": 1, "seed": 2, "guidance": 3.0},
        ),
        (
            "x\nSteps: many, Seed: 1e3, CFG scale: nan, Size: 5, Denoising strength: 0.5.1, Mask blur: 4.5, Grow: ٣",
            {"prompt": "x", "negative_prompt": ""},
        ),
        (
            f"x\nSteps: {'9' * 5000}, Seed: 1, CFG scale: 1e999",
            {"prompt": "x", "negative_prompt": "", "seed": 1, "guidance": float("inf")},
        ),
        (
            'x\nModel: "open, Sampler: a" b, Seed: 3, Steps: "4"',
            {"prompt": "x", "negative_prompt": "", "model": '"open', "sampler": 'a" b', "seed": 3, "steps": 4},
        ),
        ('x\nA: 1, B: 2, Model: "\\ud800\\x"', {"prompt": "x", "negative_prompt": "", "model": '"\\ud800\\x"'}),
        ("x\n::, , no pair, Steps: 5, :, Seed: 6", {"prompt": "x", "negative_prompt": "", "steps": 5, "seed": 6}),
    ],
    ids=[
        "empty",
        "blank",
        "prompt-alone",
        "no-last-line",
        "two-pairs-are-prompt",
        "a1111",
        "no-prompt",
        "odd-spelling",
        "no-numbers",
        "endless-numbers",
        "stray-quotes",
        "broken-json",
        "not-pairs",
    ],
)
def test_texts_of_other_programs(text: str, made: dict[str, Any]) -> None:
    assert read_infotext(text) == made


@given(st.one_of(st.text(), tricky, st.lists(pieces, min_size=5, max_size=60).map("".join)))
@settings(deadline=None, max_examples=500)
def test_no_text_raises(text: str) -> None:
    assert set(read_infotext(text)) <= set(MADE)


@pytest.mark.parametrize(
    "piece",
    [
        'a: "',
        'a: "b',
        'a: "b" c,',
        "a: \\",
        'a:"\\",',
        "a:",
        ",",
        ":",
        " ",
        '"',
        "\\",
        '\\"',
        "Negative prompt: ",
        "\n",
        "9",
        "Steps: 9",
    ],
    ids=repr,
)
def test_a_long_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    """Were the time quadratic, this would take hours."""
    for text in (piece * 200_000, f'a: 1, b: 2, c: "{piece * 200_000}', f"Seed: {piece * 200_000}"):
        read_infotext(text)
