"""The autoencoder: its shape, resuming, improving the decoder alone, and the scale of its latents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from diffusers import AutoencoderKL

from training import vae as training_vae
from training.judge import Judge
from training.run import Plan
from training.vae import Crops, VaeRun, difference, finish, new_vae, reconstruction_db


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SIDES": (64, 96), "CROP": 32, "SCENES_AT_ONCE": 2, "CROPS_PER_SCENE": 2}.items():
        monkeypatch.setattr(training_vae, name, value)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each batch of crops that is drawn."""
    batches: list[int] = []
    draw = Crops.draw

    def counted(self: Crops) -> torch.Tensor:
        crops = draw(self)
        batches.append(len(crops))
        return crops

    monkeypatch.setattr(Crops, "draw", counted)
    return batches


def fresh(seed: int = 0) -> AutoencoderKL:
    torch.manual_seed(seed)
    return new_vae()


def weights(vae: AutoencoderKL) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in vae.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], part: str = "") -> bool:
    return all(torch.equal(weight, other[name]) for name, weight in one.items() if name.startswith(part))


def trained(
    vae: AutoencoderKL, steps: int, folder: Path, decoder_only: bool = False, judge: Judge | None = None
) -> AutoencoderKL:
    """The averaged one."""
    run = VaeRun(vae, Plan(steps, 0.01, 3), folder, decoder_only=decoder_only, judge=judge)
    run.train()
    return run.averaged["vae"]  # type: ignore[return-value]


def test_eight_pixels_are_one_latent_of_four_channels() -> None:
    vae = fresh()
    assert 2.5e6 < sum(weight.numel() for weight in vae.parameters()) < 2.7e6
    latents = vae.encode(torch.zeros(1, 3, 64, 96)).latent_dist.mode()
    assert latents.shape == (1, 4, 8, 12)
    assert vae.decode(latents).sample.shape == (1, 3, 64, 96)


def test_crops_are_pieces_of_scenes() -> None:
    crops = Crops(1)
    first, second = crops.draw(), crops.draw()
    assert first.shape == (4, 3, 32, 32) and 0 <= first.min() <= first.max() <= 1
    assert not torch.equal(first, second)
    again = Crops(1)
    assert torch.equal(again.draw(), first) and torch.equal(again.draw(), second)
    assert len({crop.numpy().tobytes() for _ in range(6) for crop in crops.draw()}) == 24


@pytest.mark.parametrize(
    "spoil",
    [
        lambda wanted: wanted + 0.1,
        lambda wanted: wanted.flip(-1),
        lambda wanted: torch.nn.functional.avg_pool2d(wanted, 5, 1, 2),
        lambda wanted: wanted + 0.1 * torch.randn_like(wanted),
    ],
    ids=["brighter", "mirrored", "blurred", "noisy"],
)
@pytest.mark.parametrize("judged", [False, True], ids=["pixels", "and outlines"])
def test_the_loss_sees_every_defect(spoil: Callable[[torch.Tensor], torch.Tensor], judged: bool) -> None:
    torch.manual_seed(0)
    judge = Judge().eval() if judged else None
    wanted = Crops(2).draw() * 2 - 1
    with torch.no_grad():
        assert difference(wanted, wanted, judge) == 0
        spoiled, nearly = spoil(wanted), wanted + 0.1 * (spoil(wanted) - wanted)
        assert difference(spoiled, wanted, judge) > max(0.02, float(difference(nearly, wanted, judge)))


def test_it_goes_on_from_the_saved_step(tmp_path: Path, drawn: list[int]) -> None:
    start = weights(fresh())
    first = weights(trained(fresh(), 2, tmp_path))
    assert len(drawn) == 2 and not same(first, start)
    second = weights(trained(fresh(seed=9), 4, tmp_path))
    assert len(drawn) == 4, "two steps were done already"
    assert not same(second, first)
    third = weights(trained(fresh(seed=7), 4, tmp_path))
    assert len(drawn) == 4, "all were done already"
    assert same(third, second)


def test_the_encoder_stays_bit_by_bit_when_the_decoder_is_improved(tmp_path: Path) -> None:
    vae = fresh()
    before = weights(vae)
    after = weights(trained(vae, 2, tmp_path, decoder_only=True, judge=Judge().eval().requires_grad_(False)))
    for one in (after, weights(vae)):
        assert same(before, one, "encoder.") and same(before, one, "quant_conv.")
        assert not same(before, one, "decoder.") and not same(before, one, "post_quant_conv.")


def test_the_whole_learns_when_it_begins_anew(tmp_path: Path) -> None:
    vae = fresh()
    before = weights(vae)
    after = weights(trained(vae, 1, tmp_path))
    for part in ("encoder.conv_in.", "encoder.conv_out.", "quant_conv.", "post_quant_conv.", "decoder.conv_out."):
        assert not same(before, after, part), part


def test_training_lowers_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crops = Crops(1).draw()
    monkeypatch.setattr(Crops, "draw", lambda self: crops)
    run = VaeRun(fresh(), Plan(14, 0.01), tmp_path, decoder_only=False, judge=None)
    with torch.no_grad():
        before = float(run.loss())
    run.train()
    with torch.no_grad():
        assert run.loss() < 0.8 * before


def test_finished_latents_have_a_spread_of_one_and_no_doubt() -> None:
    vae = fresh()
    finish(vae, 5)
    scenes = Crops(5).scenes(64, 64) * 2 - 1
    with torch.no_grad():
        posterior = vae.encode(scenes).latent_dist
        latents = posterior.mode() * vae.config["scaling_factor"]
        assert abs(float(latents.std()) - 1) < 1e-3
        assert posterior.std.max() < 1e-6
        assert torch.allclose(posterior.sample(), posterior.mode(), atol=1e-5)


@pytest.mark.parametrize(("noise", "right"), [(0.1, 20), (0.01, 40)])
def test_decibels(monkeypatch: pytest.MonkeyPatch, noise: float, right: float) -> None:
    monkeypatch.setattr(training_vae, "encoded", lambda _, images: images)
    monkeypatch.setattr(training_vae, "decoded", lambda _, latents: latents + 2 * noise * latents.sign() * -1)
    assert abs(reconstruction_db(fresh(), 4, 64) - right) < 1


def test_the_decoder_can_be_improved_right_after_the_whole(
    tmp_path: Path, drawn: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two commands of training/README.md one after the other, with their default folders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_vae, "load_judge", lambda: Judge().eval())
    monkeypatch.setattr(training_vae, "reconstruction_db", lambda _: 30.0)
    training_vae.main(["--steps", "2"])
    whole = AutoencoderKL.from_pretrained(tmp_path / "outputs" / "starter-vae").float()
    assert len(drawn) == 2 and whole.config["scaling_factor"] != 0.18215
    monkeypatch.setattr(training_vae, "load", lambda _: SimpleNamespace(vae=whole))
    before = weights(whole)
    training_vae.main(["--steps", "2", "--decoder-only", "--output", "better"])
    better = AutoencoderKL.from_pretrained(tmp_path / "better").float()
    assert len(drawn) == 4, "the first run's checkpoint is not the second's"
    assert same(before, weights(better), "encoder.") and not same(before, weights(better), "decoder.")
    assert better.config["scaling_factor"] == whole.config["scaling_factor"]
