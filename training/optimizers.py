"""Muon for matrices, AdamW for the rest.

Muon orthogonalises the momentum of a weight matrix (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon); on
this small UNet it needs about half of AdamW's steps. It takes matrices only, so convolutions are shown to it as
[out, in * 3 * 3] views of the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from training.starter import computes_bf16

ADAMW_SHARE = 0.05  # AdamW's learning rate as a share of Muon's


class Muon(torch.optim.Muon):
    """torch's Muon, which orthogonalises in bf16, but in fp32 on a processor that has no bf16: there that is a third of
    a second instead of ten."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Moves the matrices by their gradients."""
        for group in self.param_groups:
            for matrix in group["params"]:
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                momentum: Tensor = state["momentum_buffer"].lerp_(matrix.grad, 1 - group["momentum"])
                update = matrix.grad.lerp(momentum, group["momentum"])  # Nesterov's
                wide = max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(orthogonal(update, *group["ns_coefficients"]), alpha=-group["lr"] * wide)


def orthogonal(matrix: Tensor, a: float, b: float, c: float, iterations: int = 5) -> Tensor:
    """About U V^T of a matrix U S V^T, by Newton-Schulz iterations x <- a x + (b g + c g^2) x with g = x x^T."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.to(torch.bfloat16 if computes_bf16(matrix.device) else torch.float32)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)


class MuonAndAdamW:
    """One optimizer for whole models. Inner weights (matrices, convolutions) go to Muon; embeddings, the first and the
    last layer, biases and norms to AdamW."""

    def __init__(self, modules: Iterable[nn.Module], learning_rate: float) -> None:
        inner: list[nn.Parameter] = []
        outer: list[nn.Parameter] = []
        for module in modules:
            for name, parameter in module.named_parameters():
                edge = parameter.ndim < 2 or any(part in name for part in ("embedding", "conv_in", "conv_out"))
                if parameter.requires_grad:
                    (outer if edge else inner).append(parameter)
        self._views = [(parameter, nn.Parameter(_matrix(parameter.data))) for parameter in inner]
        self._muon = Muon([view for _, view in self._views], lr=learning_rate, weight_decay=0.01)
        self._adamw = torch.optim.AdamW(outer, lr=learning_rate * ADAMW_SHARE, betas=(0.9, 0.99), weight_decay=0.0)
        self._outer = outer
        self._learning_rate = learning_rate

    def step(self, share: float) -> None:
        """Moves all parameters by their gradients, at `share` (0..1) of the learning rate, and clears the gradients."""
        for parameter, view in self._views:
            assert parameter.grad is not None
            view.grad = _matrix(parameter.grad)
        for optimizer, rate in ((self._muon, self._learning_rate), (self._adamw, self._learning_rate * ADAMW_SHARE)):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.step()
        for parameter in [*(parameter for parameter, _ in self._views), *self._outer]:
            parameter.grad = None

    def state(self) -> dict[str, torch.Tensor]:
        """Everything it remembers, by name."""
        return {
            f"{name}.{i}.{key}": value
            for name, optimizer in self._named()
            for i, entry in optimizer.state_dict()["state"].items()
            for key, value in entry.items()
        }

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        """Takes back what `state` gave."""
        for name, optimizer in self._named():
            entries: dict[int, dict[str, torch.Tensor]] = {}
            for path, value in state.items():
                owner, i, key = path.split(".")
                if owner == name:
                    entries.setdefault(int(i), {})[key] = value
            optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})

    def _named(self) -> tuple[tuple[str, torch.optim.Optimizer], ...]:
        return ("muon", self._muon), ("adamw", self._adamw)


def _matrix(tensor: torch.Tensor) -> torch.Tensor:
    """[out, ...] as [out, all else]; a view for contiguous and for channels-last memory."""
    if tensor.ndim == 4:
        tensor = tensor.permute(0, 2, 3, 1) if tensor.is_contiguous(memory_format=torch.channels_last) else tensor
    return tensor.view(len(tensor), -1)
