"""STRIDED_SLICE as a program: strides of both signs, ends left out, axes singled out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msd.errors import DelegateFailed
from msd.gpu.compile import compile_model
from msd.gpu.gpu import Gpu
from msd.graph.ir import Build, Model, Op, Tensor
from tests.harness import build, normal
from tests.webgpu_programs import check_program

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def sliced(new: Build, x: Tensor, shape: tuple[int, ...], bounds: list[list[int]], **masks: Any) -> Tensor:
    y = Tensor(f"{x.name}/sliced", shape)
    attrs = {**dict.fromkeys(MASKS, 0), "offset": False, **masks}
    new.ops.append(Op("STRIDED_SLICE", [x, *(new.const(np.int32(each)) for each in bounds)], [y], attrs))
    return y


CASES: list[tuple[tuple[int, ...], list[list[int]], dict[str, Any]]] = [
    ((2, 2, 5, 6), [[0, 1, 0, 0], [2, 3, 5, 6], [1, 1, 1, 1]], {}),
    ((2, 2, 2, 2), [[0, 0, 1, 1], [2, 3, 5, 6], [1, 2, 2, 3]], {}),
    ((1, 3, 5, 2), [[-1, 0, 0, -4], [2, 9, 9, -2], [1, 1, 1, 1]], {}),
    ((2, 3, 5, 3), [[7, 7, 7, 3], [7, 7, 7, 7], [1, 1, 1, 1]], {"begin_mask": 7, "end_mask": 7}),
    ((2, 5, 6), [[0, 1, 0, 0], [2, 2, 5, 6], [1, 1, 1, 1]], {"shrink_axis_mask": 2}),
    ((3, 6), [[-1, 0, -2, 0], [0, 3, 0, 6], [1, 1, 1, 1]], {"shrink_axis_mask": 5}),
    ((2, 3, 3, 6), [[0, 0, 4, 5], [2, 3, -6, -7], [1, 1, -2, -1]], {}),
]


@pytest.mark.parametrize(("shape", "bounds", "masks"), CASES, ids=str)
def test_what_is_taken(shape: tuple[int, ...], bounds: list[list[int]], masks: dict[str, Any]) -> None:
    check_program(lambda new, x: sliced(new, x, shape, bounds, **masks), x=(2, 3, 5, 6), least=np.inf)


def test_a_number_that_scales_an_image() -> None:
    """As a ControlNet has them: one of several for each residual."""

    def spell(new: Build, x: Tensor, scales: Tensor) -> Tensor:
        one = sliced(new, scales, (2, 1), [[0, 2], [2, 3], [1, 1]], begin_mask=1, end_mask=1)
        filters = new.const(normal(8, 1, 1, 6))
        image = new.CONV_2D(x, filters, new.const(normal(8)), padding="SAME", stride_h=1, stride_w=1)
        return new.MUL(image, new.RESHAPE(one, [2, 1, 1, 1]))

    check_program(spell, x=(2, 3, 5, 6), scales=(2, 13))


@pytest.mark.parametrize("mask", ["ellipsis_mask", "new_axis_mask"])
def test_other_forms_are_refused(mask: str) -> None:
    bounds = [[0, 0], [2, 3], [1, 1]]
    graph = build(lambda new, x: sliced(new, x, (2, 3), bounds, **{mask: 1}), x=(2, 3))
    with pytest.raises(DelegateFailed, match=r"STRIDED_SLICE, operator 0 .* has an ellipsis or a new axis"):
        compile_model(Model([graph]), Gpu())
