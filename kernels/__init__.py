"""Row operations of the sparse pass. Tensors only: nothing here knows models, pictures or versions.

A feature map is a matrix of rows [N, C]; a sparse pass holds the M active ones of each segment, [S, M, C].
Every operation has one signature, a plain torch reference and, from the registry, faster backends for some devices.
"""

from kernels.attend_rows import attend_rows
from kernels.conv_rows import Taps, conv_rows
from kernels.norm_sums import norm_sums, norm_sums_per_row
from kernels.product_rows import product_rows
from kernels.registry import available_backends, use_backend
from kernels.scatter_rows import swap_rows
from kernels.stored_rows import StoredRows

__all__ = [
    "StoredRows",
    "Taps",
    "attend_rows",
    "available_backends",
    "conv_rows",
    "norm_sums",
    "norm_sums_per_row",
    "product_rows",
    "swap_rows",
    "use_backend",
]
