"""Encoded prompts across requests: made once, each branch on its own, never those of other weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffusion_engine import EditableDiffusionEngine
from diffusion_engine.fingerprint import WeightKeys
from diffusion_engine.model import Model, load_model
from diffusion_engine.text_cache import TextCache
from diffusion_engine.text_context import TextContext
from tests.engine.conftest import square


@pytest.fixture(params=["sd1", "sdxl"])
def model(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Model:
    return load_model(str(folders[request.param]), device="cpu")


@pytest.fixture
def asked(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The pairs of prompts that went through the text encoder."""
    seen, encode = list[tuple[str, str]](), Model.encode_text

    def counted(self: Model, prompt: str, negative: str, branches: int) -> TextContext:
        seen.append((prompt, negative))
        return encode(self, prompt, negative, branches)

    monkeypatch.setattr(Model, "encode_text", counted)
    return seen


def attention_of(model: Model) -> tuple[str, Any]:
    modules = model.pipeline.unet.named_modules()
    return next((name, module) for name, module in modules if name.endswith("attn2"))


def test_a_prompt_is_encoded_once_and_as_the_pipeline_does(model: Model, asked: list[tuple[str, str]]) -> None:
    cache, weights = TextCache(model), WeightKeys.of(model)
    fresh = model.encode_text("a cat", "fog", 2)
    asked.clear()
    first, again = (cache.encoded("a cat", "fog", 2, weights) for _ in range(2))
    assert asked == [("a cat", "fog")]
    assert torch.equal(first.states, fresh.states) and torch.equal(again.states, fresh.states)
    assert (first.pooled is None) == (fresh.pooled is None)
    if first.pooled is not None and fresh.pooled is not None:
        assert torch.equal(first.pooled, fresh.pooled)
    assert again.words == ("a cat", "fog") and all(a is b for a, b in zip(first.parts, again.parts, strict=True))


def test_the_other_branch_survives_a_new_prompt_with_its_keys_and_values(model: Model) -> None:
    cache, weights = TextCache(model), WeightKeys.of(model)
    name, attention = attention_of(model)
    first = cache.encoded("a cat", "", 2, weights)
    first.keys_values(attention, name)
    second = cache.encoded("a dog", "", 2, weights)
    assert second.parts[0] is first.parts[0] and second.parts[1] is not first.parts[1]
    key, value = second.keys_values(attention, name)
    expected = model.encode_text("a dog", "", 2).states
    torch.testing.assert_close(key, attention.to_k(expected))
    torch.testing.assert_close(value, attention.to_v(expected))


def test_the_same_words_as_prompt_and_as_negative_prompt_are_two_entries(model: Model) -> None:
    """SDXL encodes an empty negative prompt as zeros, but not an empty prompt."""
    cache, weights = TextCache(model), WeightKeys.of(model)
    context = cache.encoded("", "", 2, weights)
    assert torch.equal(context.states, model.encode_text("", "", 2).states)


@pytest.mark.parametrize(
    ("model", "part"),
    [("sd1", "text_encoder"), ("sd1", "unet"), ("sdxl", "text_encoder"), ("sdxl", "text_encoder_2"), ("sdxl", "unet")],
    indirect=["model"],
)
def test_other_weights_are_other_entries(model: Model, asked: list[tuple[str, str]], part: str) -> None:
    changed = getattr(model.pipeline, part)
    cache = TextCache(model)
    cache.encoded("a cat", "", 2, WeightKeys.of(model))
    weight = next(changed.parameters()).data
    weight[(0,) * weight.ndim] += 1
    context = cache.encoded("a cat", "", 2, WeightKeys.of(model))
    assert len(asked) == 2
    assert torch.equal(context.states, model.encode_text("a cat", "", 2).states)


def test_it_keeps_what_was_used_last_within_its_bound(model: Model, asked: list[tuple[str, str]]) -> None:
    weights = WeightKeys.of(model)
    one = TextCache(model)
    one.encoded("a cat", "", 2, weights)
    cache = TextCache(model, most_bytes=2 * one.nbytes)  # four texts
    for prompt in ("a cat", "a dog", "a cow", "a cat", "a pig"):
        cache.encoded(prompt, "", 2, weights)
        assert cache.nbytes <= 2 * one.nbytes
    asked.clear()
    cache.encoded("a cat", "", 2, weights)
    assert asked == [], "asked for again, so the dog went first"
    cache.encoded("a dog", "", 2, weights)
    assert asked == [("a dog", "")]


def test_an_edit_with_a_known_prompt_encodes_nothing_and_paints_the_same(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EditableDiffusionEngine.from_pretrained(str(folders["sd1"]), device="cpu")
    base = engine.generate("a cat", size=(64, 64), steps=2)
    mask = square((64, 64), 16, 16, 24)
    first = engine.edit(base.id, mask, "a dog", seed=1)[0]
    monkeypatch.setattr(Model, "encode_text", None)  # a call would fail
    again = engine.edit(base.id, mask, "a dog", seed=1)[0]
    assert np.array_equal(np.asarray(first.image), np.asarray(again.image))
    engine.close()


def test_rows_of_an_edit_that_was_made_with_other_weights_are_not_read(folders: dict[str, Path]) -> None:
    """Weights that change between an edit and its commit: the rows carry the key of those that made them."""
    engine = EditableDiffusionEngine.from_pretrained(str(folders["sd1"]), device="cpu")
    base = engine.generate("a cat", size=(64, 64), steps=2)
    mask = square((64, 64), 16, 16, 24)
    [candidate] = engine.edit(base.id, mask, "a dog", seed=1, mode="sparse")
    weight = engine._bench.model.pipeline.unet.conv_in.weight  # pyright: ignore[reportPrivateUsage]
    weight.data[0, 0, 0, 0] += 0.1
    tip = engine.commit(candidate)
    again = engine.edit(tip.id, mask, "a cow", seed=2, mode="sparse")[0]
    assert engine.cache_faults >= 2 and again.report.sparse_steps == 0
    engine.close()
