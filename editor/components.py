"""Connected areas of a mask, found from its horizontal runs: numpy only, and fast where runs are few."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)


def peak_of_component(inside: NDArray[np.bool_], values: NDArray[Number]) -> NDArray[Number]:
    """For each pixel inside, the largest of `values` [H, W] over its connected area; 0 outside. Pixels that touch at a
    corner are connected."""
    peaks = np.zeros_like(values)
    edges = np.diff(inside.astype(np.int8), axis=1, prepend=0, append=0)
    row, start = np.nonzero(edges == 1)
    stop = np.nonzero(edges == -1)[1]  # exclusive
    if len(row) == 0:
        return peaks
    area = _areas_of_runs(row, start, stop, inside.shape[1])
    length = stop - start
    run_peaks = np.maximum.reduceat(values[inside], np.cumsum(length) - length)
    area_peaks = np.zeros(len(row), values.dtype)
    np.maximum.at(area_peaks, area, run_peaks)
    peaks[inside] = np.repeat(area_peaks[area], length)
    return peaks


def _areas_of_runs(
    row: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """For each run, in reading order, the number of the first run of its connected area."""
    upper, lower = _touching_runs(row, start, stop, width)
    area = np.arange(len(row))
    while True:  # each turn hooks areas that touch onto the lowest one; their number at least halves
        a, b = area[upper], area[lower]
        apart = a != b
        if not apart.any():
            return area
        np.minimum.at(area, np.maximum(a, b)[apart], np.minimum(a, b)[apart])
        while True:
            root = area[area]
            if np.array_equal(root, area):
                break
            area = root


def _touching_runs(
    row: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs (run, run of the next row that touches it, also at a corner)."""
    stride = width + 2  # keys of one row never reach the next row's
    next_row = (row + 1) * stride
    first = np.searchsorted(row * stride + stop, next_row + start, side="left")
    last = np.searchsorted(row * stride + start, next_row + stop, side="right")
    count = np.maximum(last - first, 0)
    before = np.cumsum(count) - count
    lower = np.arange(count.sum()) + np.repeat(first - before, count)
    return np.repeat(np.arange(len(row)), count), lower
