"""Rows as a recording keeps them: as they were computed, or in a smaller number format."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.scatter_rows import swap_rows

_FP16_MAX = 65504.0
_INT8_MAX = 127.0


@dataclass(frozen=True)
class StoredRows:
    """Kept rows [B, N, C]. Whoever reads gets only the rows asked for, in the number format of the computation.

    data: [B, N, C]: floats, or int8 in steps of each row's own scale
    scale: fp32 [B, N, 1] beside int8 data, else None
    is_file: memory of a mapped file, which a pass does not write, not even to restore it
    """

    data: Tensor
    scale: Tensor | None = None
    is_file: bool = False

    @property
    def branches(self) -> int:
        return self.data.shape[0]

    @property
    def count(self) -> int:
        """N, the rows of each branch."""
        return self.data.shape[1]

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + (0 if self.scale is None else self.scale.nbytes)

    def gather(self, index: Tensor, dtype: torch.dtype) -> Tensor:
        """The listed rows of every branch: int64 [M] -> [B, M, C]."""
        rows = self.data.index_select(1, index)
        if self.scale is not None:
            rows = rows * self.scale.index_select(1, index)
        return rows.to(dtype)

    def gather_into(self, out: Tensor, index: Tensor, branch_of: tuple[int, ...]) -> None:
        """The listed rows of each segment's branch: int64 [M] -> out [S, M, C], contiguous within a segment."""
        for segment, branch in enumerate(branch_of):
            data, target = self.data[branch], out[segment]
            if data.dtype == out.dtype:
                torch.index_select(data, 0, index, out=target)
            elif self.scale is None or out.dtype != torch.float32:
                target.copy_(self.gather_branch(branch, index))
            else:
                torch.mul(data.index_select(0, index), self.scale[branch].index_select(0, index), out=target)

    def gather_branch(self, branch: int, index: Tensor) -> Tensor:
        """The listed rows of one branch, [M, C] in whatever float format is nearest."""
        rows = self.data[branch].index_select(0, index)
        return rows if self.scale is None else rows * self.scale[branch].index_select(0, index)

    def whole(self, dtype: torch.dtype) -> Tensor:
        """All rows [B, N, C]: the kept memory itself where it has the format and may be written, else a copy."""
        if self.scale is not None:
            return (self.data * self.scale).to(dtype)
        return self.data.to(dtype, copy=self.is_file)

    def write(self, rows: Tensor) -> None:
        """Keeps rows [B, N, C] in place of all that were kept; too large ones saturate."""
        if self.scale is not None:
            scale = (rows.abs().amax(-1, keepdim=True).float() / _INT8_MAX).clamp_(min=torch.finfo(torch.float32).tiny)
            self.scale.copy_(scale)
            self.data.copy_((rows / scale).round_())
        elif self.data.dtype == torch.float16 and rows.dtype != torch.float16:
            self.data.copy_(rows.clamp(-_FP16_MAX, _FP16_MAX))
        else:
            self.data.copy_(rows)

    def swap(self, stacked: Tensor, rows: StoredRows) -> None:
        """Exchanges listed rows with `rows` [B, M, C] kept alike, byte for byte on both sides; they may be on another
        device.

        stacked: int64 [B * M], rows of all branches, one branch after the other
        """
        for mine, theirs in ((self.data, rows.data), (self.scale, rows.scale)):
            if mine is not None and theirs is not None:
                here = theirs.to(mine.device)
                swap_rows(mine.flatten(0, 1), stacked, here.flatten(0, 1))
                if here is not theirs:
                    theirs.copy_(here)


def as_stored(rows: Tensor | StoredRows) -> StoredRows:
    """Plain rows [B, N, C] are rows kept as they are."""
    return rows if isinstance(rows, StoredRows) else StoredRows(rows)
