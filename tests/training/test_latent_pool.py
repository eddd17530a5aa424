"""The pool of latents: filled, renewed at its pace, and every caption belongs to its picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL

from tests.engine.small_models import small_vae
from tests.training.conftest import put, whole
from training import latent_pool
from training.backgrounds import Background
from training.compositor import Pictures
from training.latent_pool import ENCODED_AT_ONCE, LatentPool, encode
from training.layouts import Arranger, Layout

FRAME = 4


@pytest.fixture(autouse=True)
def few_backgrounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_pool, "BACKGROUNDS", 6)


@pytest.fixture(scope="module")
def vae() -> AutoencoderKL:
    return small_vae()


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pictures each call of `encode` was given."""
    counts: list[int] = []

    def counted(vae: AutoencoderKL, images: torch.Tensor) -> torch.Tensor:
        counts.append(len(images))
        return encode(vae, images)

    monkeypatch.setattr(latent_pool, "encode", counted)
    return counts


@pytest.mark.parametrize("size", [32, 96], ids=["one renewal", "three renewals"])
def test_every_entry_is_filled_once(vae: AutoencoderKL, encoded: list[int], size: int) -> None:
    pool = LatentPool(vae, FRAME, 1, size, reuse=1000)
    assert sum(encoded) == size
    batch = pool.draw(size)
    assert batch.latents.shape == (size, 4, FRAME, FRAME) and batch.objects.shape == (size, FRAME, FRAME)
    assert batch.latents.dtype == batch.objects.dtype == torch.float32
    assert len(batch.captions) == size and all(batch.captions)
    assert (batch.latents.flatten(1).std(1) > 0).all()
    different = len({latent.numpy().tobytes() for latent in batch.latents})
    assert different > 0.9 * size, "each is drawn once; the same empty background may be in it twice"


@pytest.mark.parametrize(
    ("batch", "reuse", "draws"), [(16, 4, 40), (48, 4, 9), (8, 0.5, 6), (5, 3, 60)], ids=lambda value: str(value)
)
def test_a_draw_renews_its_share(vae: AutoencoderKL, encoded: list[int], batch: int, reuse: float, draws: int) -> None:
    pool = LatentPool(vae, FRAME, 1, 64, reuse)
    encoded.clear()
    for _ in range(draws):
        pool.draw(batch)
    assert abs(sum(encoded) - draws * batch / reuse) < ENCODED_AT_ONCE


def test_the_same_seed_gives_the_same_batches(vae: AutoencoderKL) -> None:
    first, again, other = (LatentPool(vae, FRAME, seed, 32) for seed in (1, 1, 2))
    for _ in range(3):
        one, two, three = (pool.draw(16) for pool in (first, again, other))
        assert torch.equal(one.latents, two.latents) and one.captions == two.captions
        assert one.captions != three.captions


def test_objects_are_marked_where_they_are(vae: AutoencoderKL) -> None:
    class Corner(Arranger):
        def arrange(self, random: np.random.Generator, place: object, horizon: float | None) -> Layout:
            return whole(put("balloon", x=0.25, y=0.25, size=0.3)) if random.random() < 0.5 else whole()

    batch = LatentPool(vae, 8, 1, 64, things=Corner()).draw(64)
    shown = batch.objects.amax((1, 2)) > 0
    assert 10 < shown.sum() < 54
    marked = batch.objects[shown]
    assert marked.min() == 0 and marked.max() == 1
    assert (marked[:, 1:3, 2] == 1).all(), "the middle of the balloon"
    assert (marked[:, 5:] == 0).all() and (marked[:, :, 5:] == 0).all()
    named = ["balloon" in words for words in batch.captions]
    assert named == shown.tolist()


def test_latents_are_scaled(vae: AutoencoderKL) -> None:
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        wanted = vae.encode(images * 2 - 1).latent_dist.mean * vae.config["scaling_factor"]
    assert (encode(vae, images) - wanted).norm() < 0.03 * wanted.norm(), "bfloat16"


class Numbered:
    """Stands in for everything that draws: each layout and each background has a number, and its picture shows both."""

    def __init__(self) -> None:
        self.layouts = self.backgrounds = 0

    def background(self, random: np.random.Generator, size: int) -> Background:
        self.backgrounds += 1
        image = np.full((size, size, 3), self.backgrounds, np.float32)
        return Background(image, (str(self.backgrounds),), (), "plain", None, np.ones(3, np.float32))

    def arrange(self, random: np.random.Generator, place: object, horizon: float | None) -> Layout:
        self.layouts += 1
        return Layout(self.layouts, 0, 1, ())

    def compositor(self, backgrounds: Sequence[Background], device: object) -> FakeCompositor:
        return FakeCompositor(backgrounds)


class FakeCompositor:
    def __init__(self, backgrounds: Sequence[Background]) -> None:
        self._numbers = [float(background.image[0, 0, 0]) for background in backgrounds]

    def replace(self, index: int, background: Background) -> None:
        self._numbers[index] = float(background.image[0, 0, 0])

    def compose(self, chosen: Sequence[int], layouts: Sequence[Layout], side: int) -> Pictures:
        images = torch.zeros(len(layouts), 3, side, side)
        for i, (index, layout) in enumerate(zip(chosen, layouts, strict=True)):
            images[i, 0], images[i, 1] = layout.left, self._numbers[index]
        return Pictures(images, torch.zeros(len(layouts), 1, side, side))


def test_captions_belong_to_their_pictures(vae: AutoencoderKL, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = Numbered()
    replacements: dict[str, Callable[..., object]] = {
        "draw_background": numbered.background,
        "Compositor": numbered.compositor,
        "encode": lambda _, images: images[:, [0, 1, 0, 1], ::8, ::8],
        "caption": lambda _, layout, background: f"{layout.left} {background.phrases[0]}",
    }
    for name, replacement in replacements.items():
        monkeypatch.setattr(latent_pool, name, replacement)
    pool = LatentPool(vae, FRAME, 1, 64, reuse=1, things=numbered)  # type: ignore[arg-type]
    seen: set[str] = set()
    for _ in range(20):
        batch = pool.draw(32)
        for latent, words in zip(batch.latents, batch.captions, strict=True):
            layout, background = (float(number) for number in words.split())
            assert (latent[0] == layout).all() and (latent[1] == background).all()
        seen |= set(batch.captions)
    assert len(seen) > 300 and numbered.backgrounds > 60
    newest = max(float(words.split()[0]) for words in batch.captions)
    oldest = min(float(words.split()[0]) for words in batch.captions)
    assert newest > numbered.layouts - 64 and oldest > numbered.layouts - 64, "the oldest ones are replaced"
