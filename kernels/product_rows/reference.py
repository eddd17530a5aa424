"""product_rows in torch, in the formulation that a CPU runs fastest.

The BLAS behind F.linear packs both operands anew at each call, which for few rows costs as much as the product. oneDNN
packs less, but takes some microseconds to begin. Measured in fp32 on 2 cores (x86-64 with AVX-512), against F.linear:
its linear layer is 1.1 to 2 times as fast from about 50 rows on; with fewer it is faster still to compute the
transposed product, the weight being the larger operand (1.3 to 1.8 times); with thousands its 1x1 convolution is the
fastest by a tenth.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.registry import register

# Fewer values in a weight, over fewer rows: oneDNN takes longer to begin than BLAS to finish.
_SMALL_WEIGHT, _SMALL_ROWS = 50_000, 256
# So few rows, and so deep a product, that the transposed one pays for putting its result in order.
_FEW_ROWS, _DEEP = 40, 512
_MANY_ROWS = 1024


@register("product_rows", "torch")
def product_rows(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    width, depth = weight.shape
    count = rows.numel() // depth
    if not _suits_onednn(rows) or (weight.numel() < _SMALL_WEIGHT and count < _SMALL_ROWS):
        return F.linear(rows, weight, bias)
    flat = rows.reshape(count, depth)
    if count <= _FEW_ROWS and depth >= _DEEP:
        out = _linear(weight, flat, None).t().contiguous()
        if bias is not None:
            out.add_(bias)
    elif count < _MANY_ROWS:
        out = _linear(flat, weight, bias)
    else:
        image = flat.contiguous().view(1, count, 1, depth).permute(0, 3, 1, 2)  # channels-last view of the rows
        out = F.conv2d(image, weight.reshape(width, depth, 1, 1), bias).permute(0, 2, 3, 1)
    return out.reshape(*rows.shape[:-1], width)


def _suits_onednn(rows: Tensor) -> bool:
    return rows.numel() > 0 and rows.device.type == "cpu" and rows.dtype == torch.float32 and _ONEDNN


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """oneDNN's linear layer on ordinary tensors: the operator that torch.compile calls on a CPU."""
    return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")


_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
