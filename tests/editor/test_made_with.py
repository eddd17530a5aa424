"""How a picture was made, as files say it: what programs write is read, and nothing is believed unchecked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, PngImagePlugin

from editor.images import open_picture
from editor.metadata import MAX_PROMPT_CHARACTERS, MAX_TAG_CHARACTERS, read_made_with
from tests.editor import picture_files as files

PICTURE = files.noise(96, 64)
OURS = files.MADE_WITH


def with_texts(**texts: str) -> bytes:
    chunks = PngImagePlugin.PngInfo()
    for key, text in texts.items():
        chunks.add_text(key, text)
    return files.encoded(PICTURE, "PNG", pnginfo=chunks)


def with_comment(comment: bytes, file_format: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.UserComment] = comment
    return files.encoded(PICTURE, file_format, exif=exif.tobytes())


A1111 = """a cat, (masterpiece:1.2)
Negative prompt: dog
Steps: 28, Sampler: DPM++ 2M, CFG scale: 7, Seed: 42, Size: 512x512, Model: v1-5, Version: v1.10.1"""
READ = {
    "prompt": "a cat, (masterpiece:1.2)",
    "negative_prompt": "dog",
    "steps": 28,
    "sampler": "DPM++ 2M",
    "guidance": 7.0,
    "seed": 42,
    "source": "A1111",
}
INVOKE = {
    "positive_prompt": "a cat",
    "negative_prompt": "dog",
    "seed": 1,
    "steps": 9,
    "cfg_scale": 7,
    "scheduler": "euler",
}
GRAPH = {
    "1": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["9", 1]}},
    "2": {"class_type": "KSampler", "inputs": {"seed": 5, "steps": 20, "cfg": 8.0, "positive": ["1", 0]}},
}


@pytest.mark.parametrize(
    ("data", "made"),
    [
        (with_texts(parameters=A1111), READ),
        (with_texts(parameters=A1111.replace("cat", "猫")), READ | {"prompt": "a 猫, (masterpiece:1.2)"}),
        (with_comment(b"UNICODE\0" + A1111.encode("utf-16-be")), READ),
        (with_comment(b"UNICODE\0" + A1111.encode("utf-16-le"), "WEBP"), READ),
        (with_comment(b"UNICODE\0" + A1111.encode("utf-16")), READ),
        (with_comment(b"ASCII\0\0\0" + A1111.encode() + b"\0"), READ),
        (with_comment(bytes(8) + A1111.encode(), "PNG"), READ),
        (
            with_texts(prompt=json.dumps(GRAPH), workflow="{}"),
            {"prompt": "a cat", "seed": 5, "steps": 20, "guidance": 8.0, "source": "ComfyUI"},
        ),
        (with_texts(prompt=json.dumps(GRAPH), parameters=A1111), READ),
        (
            with_texts(invokeai_metadata=json.dumps(INVOKE), invokeai_graph="{}"),
            {
                "prompt": "a cat",
                "negative_prompt": "dog",
                "seed": 1,
                "steps": 9,
                "guidance": 7,
                "sampler": "euler",
                "source": "InvokeAI",
            },
        ),
        (
            with_texts(deltabrush=json.dumps(OURS | {"model": "starter", "kind": "edited"}), parameters=A1111),
            OURS | {"source": "Deltabrush"},
        ),
        (with_texts(deltabrush="{", parameters=A1111), READ),
    ],
    ids=[
        "a1111",
        "a1111-unicode",
        "a1111-jpeg",
        "little-endian-webp",
        "byte-order-mark",
        "ascii",
        "undefined-png",
        "comfyui",
        "comfyui-and-infotext",
        "invokeai",
        "ours-first",
        "ours-broken",
    ],
)
def test_what_programs_write_is_read(data: bytes, made: dict[str, Any]) -> None:
    assert open_picture(data).made == made


@pytest.mark.parametrize(
    "comment",
    [
        b"ASCII\0\0\0Our holiday: day 2, at the sea, happy",
        b"UNICODE\0" + "Screenshot".encode("utf-16-le"),
        b"JIS\0\0\0\0\0" + A1111.encode(),
        b"UNICODE\0",
        b"short",
        b"",
        b"UNICODE\0" + "Steps: 1, Seed: 2, Sampler: a, ".encode("utf-16-be") * 5000,
    ],
    ids=["holiday", "screenshot", "other-code", "empty", "short", "nothing", "endless"],
)
def test_a_comment_that_is_no_infotext_is_not_taken_for_a_prompt(comment: bytes) -> None:
    assert open_picture(with_comment(comment, "WEBP")).made == {}  # where comments may be of any length


@pytest.mark.parametrize(
    ("name", "value", "believed"),
    [
        ("prompt", "x" * 20_000, "x" * MAX_PROMPT_CHARACTERS),
        ("prompt", "a\0b\x1b[2J\u202ec\ud800\td\r\ne", "ab[2Jc\td\ne"),
        ("prompt", "<script>", "<script>"),
        ("prompt", ["a"], None),
        ("prompt", None, None),
        ("negative_prompt", 5, None),
        ("sampler", "s" * 20_000, "s" * MAX_TAG_CHARACTERS),
        ("sampler", {}, None),
        ("seed", -1, None),
        ("seed", 2**63 - 1, 2**63 - 1),
        ("seed", 2**63, None),
        ("seed", 1.5, None),
        ("seed", True, None),
        ("seed", "7", None),
        ("steps", 0, None),
        ("steps", 200, 200),
        ("steps", 10**400, None),
        ("guidance", 51, None),
        ("guidance", float("nan"), None),
        ("guidance", float("inf"), None),
        ("guidance", 0, 0),
    ],
    ids=lambda value: str(value)[:12] if not isinstance(value, str) or value.isidentifier() else "text",
)
def test_nothing_in_a_file_is_believed_unchecked(name: str, value: Any, believed: Any) -> None:
    made = read_made_with({"deltabrush": json.dumps(OURS | {name: value})})
    assert made.get(name) == believed
    assert made == {
        key: believed if key == name else other
        for key, other in (OURS | {"source": "Deltabrush"}).items()
        if key != name or believed is not None
    }


HOSTILE = [
    A1111 + "9" * 2**15,
    "x" * 2**15 + A1111,
    json.dumps(OURS | {"more": "x" * 2**17}),
    "[" * 100_000,
    '{"a":' * 20_000,
    "9" * 5000,
    "null",
    "[]",
    "0",
    '"a"',
    "",
    "{",
    "NaN",
    '{"prompt": 1}',
    "x" * 10**6,
]
KEYS = ("deltabrush", "parameters", "prompt", "invokeai_metadata", "exif")


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:8] or "empty")
def test_hostile_texts_give_nothing(text: str) -> None:
    for value in (text, text.encode(), [text], 5, None):
        assert read_made_with(dict.fromkeys(KEYS, value)) == {}


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["1", "2", "inputs", "class_type", "positive", "seed", "text", "prompt", "steps"]),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=30,
)


@given(
    st.dictionaries(st.sampled_from(KEYS), st.one_of(json_values.map(json.dumps), st.text(), st.binary(max_size=200)))
)
@settings(deadline=None, max_examples=300)
def test_no_content_raises(info: dict[str, Any]) -> None:
    made = read_made_with(info)
    kinds = {"prompt": str, "negative_prompt": str, "sampler": str, "source": str, "seed": int, "steps": int}
    assert all(isinstance(value, kinds.get(name, int | float)) for name, value in made.items())
