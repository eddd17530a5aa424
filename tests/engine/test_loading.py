"""Loading: every supported kind edits end to end; what is not supported, or unsafe, is refused by name."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import load_file

from diffusion_engine import EditableDiffusionEngine, SparseDecoder, SparseUNet, UnsupportedModel, UserError
from tests.engine.conftest import save_pipeline, square
from tests.engine.small_models import relative_rms, small_unet, small_vae


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl"])
def test_every_kind_generates_edits_and_edits_again(folders: dict[str, Path], kind: str) -> None:
    engine = EditableDiffusionEngine.from_pretrained(str(folders[kind]), offline=True)
    size = (128, 192)
    base = engine.generate("a cat", size=size, steps=3, seed=1)
    mask = square(size, 30, 60, 40)
    passes = engine.dense_passes
    edits = engine.edit(base.id, mask, "a dog", seed=2, variations=2, mode="sparse")
    child = engine.commit(edits[1])
    again = engine.edit(child.id, square(size, 0, 0, 50), "a tree", mode="sparse")[0]
    assert engine.dense_passes == passes
    assert again.report.sparse_steps == 3
    referee = engine.edit(base.id, mask, "a dog", seed=2, mode="dense")[0]
    sparse, dense = np.asarray(edits[0].image).astype(int), np.asarray(referee.image).astype(int)
    assert np.abs(sparse - dense)[mask > 0].mean() < 25, (
        "random weights, and rows outside do not react: near, not equal"
    )
    engine.close()


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl"])
def test_E4_same_edit_by_rows_and_densely_agree_when_everything_is_masked(folders: dict[str, Path], kind: str) -> None:
    """With every row active nothing is approximated, so both ways give the same picture (to a level of 255)."""
    engine = EditableDiffusionEngine.from_pretrained(str(folders[kind]), offline=True)
    size = (128, 128)
    base = engine.generate("a cat", size=size, steps=3, seed=1)
    everything = np.full((128, 128), 255, np.uint8)
    pictures = [
        np.asarray(engine.edit(base.id, everything, "a dog", seed=2, mode=mode)[0].image).astype(int)
        for mode in ("sparse", "dense")
    ]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1
    engine.close()


def test_H1_a_folder_is_loaded_without_looking_for_a_network(folders: dict[str, Path], monkeypatch: Any) -> None:
    asked: list[Any] = []

    def refuse(*arguments: Any, **_: Any) -> None:
        asked.append(arguments)
        raise OSError("there is no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for model in ("starter", str(folders["sdxl"])):
        EditableDiffusionEngine.from_pretrained(model).close()
    assert asked == []


def _without_index(folder: Path) -> None:
    (folder / "model_index.json").unlink()


def _pickled_weights(folder: Path) -> None:
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    torch.save(load_file(weights), folder / "unet" / "diffusion_pytorch_model.bin")
    weights.unlink()


def _truncated_weights(folder: Path) -> None:
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


@pytest.mark.parametrize("spoil", [_without_index, _pickled_weights, _truncated_weights], ids=lambda f: f.__name__)
def test_unreadable_folders_are_refused_in_one_sentence(folders: dict[str, Path], tmp_path: Path, spoil: Any) -> None:
    folder = Path(shutil.copytree(folders["sd1"], tmp_path / "model"))
    spoil(folder)
    with pytest.raises(UserError) as refused:
        EditableDiffusionEngine.from_pretrained(str(folder), offline=True)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["weights.ckpt", "weights.pt", "weights.bin"])
def test_files_that_may_run_code_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(UserError, match="safetensors"):
        EditableDiffusionEngine.from_pretrained(str(tmp_path / name))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"model": "no/such-model"}, "no/such-model"),
        ({"device": "cuda:7"}, "cuda:7"),
        ({"device": "toaster"}, "toaster"),
        ({"dtype": "int3"}, "int3"),
        ({"cache_dtype": "int3"}, "int3"),
        ({"cache_memory_bytes": -1}, "memory"),
        ({"cache_host_bytes": -1}, "main memory"),
        ({"cache_disk_bytes": -1}, "disk space"),
    ],
    ids=lambda value: next(iter(value.items())).__str__() if isinstance(value, dict) else "",
)
def test_bad_options_are_refused(options: dict[str, Any], part: str) -> None:
    with pytest.raises(UserError, match=part):
        EditableDiffusionEngine.from_pretrained(**{"offline": True, **options})


def test_inpainting_checkpoints_are_refused_by_name(tmp_path: Path) -> None:
    folder = save_pipeline("sd1", tmp_path / "inpaint", in_channels=9)
    with pytest.raises(UnsupportedModel, match="9 input channels"):
        EditableDiffusionEngine.from_pretrained(str(folder), offline=True)


def _freeu(unet: Any) -> None:
    unet.enable_freeu(0.9, 0.2, 1.2, 1.4)


def _custom_processor(unet: Any) -> None:
    class PagProcessor:
        def __call__(self, attn: Any, hidden_states: Any, **_: Any) -> Any:
            return hidden_states

    name = next(iter(unet.attn_processors))
    unet.set_attn_processor({**unet.attn_processors, name: PagProcessor()})


def _fused(unet: Any) -> None:
    unet.fuse_qkv_projections()


def _image_prompt(unet: Any) -> None:
    unet.encoder_hid_proj = torch.nn.Linear(4, 4)


def _training(unet: Any) -> None:
    unet.train()


def _grouped(unet: Any) -> None:
    old = unet.mid_block.resnets[0].conv1
    unet.mid_block.resnets[0].conv1 = torch.nn.Conv2d(old.in_channels, old.out_channels, 3, padding=1, groups=2)


def _unfused_lora(unet: Any) -> None:
    from peft import LoraConfig

    unet.add_adapter(LoraConfig(r=2, target_modules=["conv1"]))


CHANGES = {
    "FreeU": (_freeu, "FreeU"),
    "a foreign attention processor": (_custom_processor, "PagProcessor"),
    "fused projections": (_fused, "fused|FusedAttn"),
    "an image prompt adapter": (_image_prompt, "IP-Adapter"),
    "training mode": (_training, "training"),
    "a grouped convolution": (_grouped, "mid_block.resnets.0.conv1"),
    "an adapter on a convolution": (_unfused_lora, "fuse"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_breaks_locality_is_refused_by_name_whenever_it_comes(change: str) -> None:
    """Before the executor is made, and after, at the next dense pass."""
    spoil, named = CHANGES[change]
    before, after = small_unet("sd1"), small_unet("sd1")
    spoil(before)
    with pytest.raises(UnsupportedModel, match=named):
        SparseUNet(before)
    sparse = SparseUNet(after)
    spoil(after)
    with pytest.raises(UnsupportedModel, match=named):
        sparse.record(torch.randn(1, 4, 32, 32), 5, torch.randn(1, 7, 32))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"class_embed_type": "timestep"}, "class_embed_type"),
        ({"time_cond_proj_dim": 16}, "time_cond_proj_dim"),
        ({"resnet_time_scale_shift": "scale_shift"}, "resnet_time_scale_shift"),
        ({"act_fn": "gelu"}, "SiLU"),
        ({"conv_in_kernel": 5}, "conv_in_kernel"),
        ({"down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("ResnetDownsampleBlock2D",)}, "ResnetDownsampleBlock2D"),
        ({"up_block_types": ("ResnetUpsampleBlock2D",) + ("CrossAttnUpBlock2D",) * 3}, "ResnetUpsampleBlock2D"),
        ({"down_block_types": ("SimpleCrossAttnDownBlock2D",) * 3 + ("DownBlock2D",)}, "SimpleCrossAttnDownBlock2D"),
        ({"attention_type": "gated"}, "attention_type"),
        ({"addition_embed_type": "text", "addition_embed_type_num_heads": 4}, "addition_embed_type"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unknown_parts_are_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        SparseUNet(small_unet("sd1", **changes))


def test_other_networks_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="Linear"):
        SparseUNet(torch.nn.Linear(1, 1))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnsupportedModel, match="AttnUpDecoderBlock2D"):
        SparseDecoder(small_vae(up_block_types=("UpDecoderBlock2D",) * 3 + ("AttnUpDecoderBlock2D",)))


def test_lora_on_linear_layers_is_seen_without_fusing() -> None:
    """peft's wrappers around linear layers are called, not bypassed."""
    from peft import LoraConfig

    unet: UNet2DConditionModel = small_unet("sd1")
    unet.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    unet.eval()
    sparse = SparseUNet(unet)
    latents, text = torch.randn(2, 4, 32, 32), torch.randn(2, 7, 32)
    noise, cache = sparse.record(latents, 50, text)
    result = sparse(latents, 50, text, cache, sparse.plan(torch.ones(32, 32, dtype=torch.bool)))
    assert relative_rms(result, noise) < 1e-5
    with torch.inference_mode():
        assert relative_rms(small_unet("sd1")(latents, 50, text).sample, noise) > 1e-3
