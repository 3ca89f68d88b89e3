"""Convolutions: the kernel for each, by its shape and the GPU."""

from __future__ import annotations

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.few_columns import few_columns, fits_few_columns
from msd.gpu.kernels.few_rows import few_rows, fits_few_rows
from msd.gpu.kernels.tile_choice import choose_tile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.widening import fits_half, is_bounded
from msd.gpu.operations import Conv2D
from msd.gpu.value import Dispatch


def convolve(op: Conv2D, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the dispatches of a convolution: few rows, few columns, or tiles with split sums where few.

    Raises ValueError for an epilogue that `epilogue.finish` refuses.
    """
    if fits_few_rows(op):
        return [few_rows(op, gpu, step)]
    if fits_few_columns(op):
        return [few_columns(op, gpu, step)]
    columns, depth = op.filter.columns, op.filter.rows
    choice = choose_tile(
        op.pixels,
        columns,
        depth,
        gpu,
        gate=bool(op.epilogue.gate),
        bounded=is_bounded(op.filter),
        halves=op.x.element == "f16" and fits_half(op.filter),
        taps=op.kernel != (1, 1),
    )
    return tiled_convolution(op, gpu, choice.tile, choice.splits, step)
