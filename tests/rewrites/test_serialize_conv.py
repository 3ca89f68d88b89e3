"""Convolutions in slices."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graph_rewrites.serialize_conv import serialize_conv
from msd.graph.ir import Build, Tensor
from msd.graph.ir.weights import Array, Weights
from msd.graph.prediction.device import ConvSize, Device
from msd.graph.rewrite import Target, apply
from tests.harness import Spell, build, check_no_rewrite, check_rewrite, conv, normal, quantised

SMALL = Device("small", image2d_width=100, image2d_height=36, winograd_tiles=1000)
"""3x3 filters over up to 16 channels fit: 4 slices of 9 rows."""


def big(inputs: int, outputs: int) -> Spell:
    """A 3x3 convolution whose weights nobody may load."""

    def load() -> Array:
        raise AssertionError("weights are for write time")

    weights = Weights((outputs, 3, 3, inputs), np.dtype("float32"), load, "checkpoint")
    return lambda new, x: new.CONV_2D(
        x, new.const(weights), new.const(normal(outputs)), padding="SAME", stride_h=1, stride_w=1
    )


def test_the_papers_convolution_on_its_phone() -> None:
    """1x32x32x1920 -> 640, 3x3, takes 2 slices of the input, or 8 of the output (arXiv 2307.01193, 3.1)."""
    size = ConvSize(1920, 640, 32, 32, (3, 3))
    assert Target().splits(size) == (2, 8)
    graph = build(big(1920, 640), x=(1, 32, 32, 1920))
    apply(graph, [serialize_conv], Target(Device()))
    assert Counter(o.kind for o in graph.ops) == {"SLICE": 2, "CONV_2D": 2, "ADD": 1}
    assert [o.operands[1].shape for o in graph.ops if o.kind == "CONV_2D"] == [(640, 3, 3, 960)] * 2


def test_the_papers_neighbour_fits_its_phone() -> None:
    check_no_rewrite(
        [serialize_conv],
        big(1280, 640),
        because="its weights fit adreno-740",
        target=Target(Device()),
        x=(1, 32, 32, 1280),
    )


def over_inputs(
    new: Build, x: Tensor, outputs: int, parts: int, activation: str = "NONE", **attrs: Any
) -> Tensor:
    step = x.shape[3] // parts
    results = []
    for start in range(0, x.shape[3], step):
        piece = new.SLICE(x, [0, 0, 0, start], [*x.shape[:3], step])
        results.append(conv(new, piece, outputs, (3, 3), **attrs))
    total = results[0]
    for i, result in enumerate(results[1:], 2):
        last = {"fused_activation_function": activation} if i == parts else {}
        total = new.ADD(total, result, **last)
    return total


@pytest.mark.parametrize(("inputs", "parts"), [(32, 2), (24, 2), (60, 5), (80, 5)])
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_over_the_input(inputs: int, parts: int, activation: str) -> None:
    """The activation comes after the last sum, and not before. Sums reach 200, and RELU6 leaves 6 of them."""
    check_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 7, (3, 3), fused_activation_function=activation),
        lambda new, x: over_inputs(new, x, 7, parts, activation),
        tolerance=1e-4,
        target=Target(SMALL),
        x=(2, 5, 4, inputs),
    )


@pytest.mark.parametrize(
    "attrs",
    [
        {"stride_h": 2, "stride_w": 1},
        {"dilation_h_factor": 2, "dilation_w_factor": 3},
        {"padding": "VALID", "stride_w": 3},
    ],
)
def test_attributes_are_kept(attrs: dict[str, Any]) -> None:
    check_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 7, (3, 3), **attrs),
        lambda new, x: over_inputs(new, x, 7, 2, **attrs),
        target=Target(SMALL),
        x=(2, 9, 8, 32),
    )


@pytest.mark.parametrize(
    "attrs", [{"fused_activation_function": "RELU6"}, {"stride_h": 2, "padding": "VALID"}]
)
def test_over_the_output(attrs: dict[str, Any]) -> None:
    """Where the output is too wide, or the input cannot be cut."""

    def after(new: Build, x: Tensor) -> Tensor:
        return new.CONCATENATION(*(conv(new, x, 8, (3, 3), **attrs) for _ in range(3)), axis=3)

    check_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 24, (3, 3), **attrs),
        after,
        target=Target(replace(SMALL, image2d_width=2)),
        x=(2, 5, 4, 6),
    )


def test_the_fewer_slices_win() -> None:
    """Of the input 5 are needed; 2 of the output have too few channels for Winograd, and then fit."""
    device = Device(
        "winograd",
        image2d_height=36 * 4,
        winograd_input_slices=4,
        winograd_output_slices=6,
        winograd_tiles=1,
    )
    check_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 24, (3, 3)),
        lambda new, x: new.CONCATENATION(*(conv(new, x, 12, (3, 3)) for _ in range(2)), axis=3),
        target=Target(device),
        x=(1, 8, 8, 60),
    )


def test_not_what_fits() -> None:
    check_no_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 7, (3, 3)),
        because="its weights fit small",
        target=Target(SMALL),
        x=(1, 5, 4, 16),
    )


def test_not_where_weights_lie_in_buffers() -> None:
    device = replace(SMALL, weights_storage="buffer")
    check_no_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 7, (3, 3)),
        because="its weights fit small",
        target=Target(device),
        x=(1, 5, 4, 64),
    )


@pytest.mark.parametrize("inputs", [30, 34])
def test_not_uneven_channels(inputs: int) -> None:
    check_no_rewrite(
        [serialize_conv],
        lambda new, x: conv(new, x, 7, (3, 3)),
        because="no slicing makes it fit small",
        target=Target(SMALL),
        x=(1, 5, 4, inputs),
    )


def grouped(new: Build, x: Tensor) -> Tensor:
    return new.CONV_2D(x, new.const(normal(8, 3, 3, 32)), new.const(normal(8)), stride_h=1, stride_w=1)


def hybrid(new: Build, x: Tensor) -> Tensor:
    return new.CONV_2D(x, quantised(8, 3, 3, 64), new.const(normal(8)), stride_h=1, stride_w=1)


@pytest.mark.parametrize("before", [grouped, hybrid])
def test_not_grouped_or_quantised(before: Spell) -> None:
    because = "it is grouped or quantised"
    check_no_rewrite([serialize_conv], before, because=because, target=Target(SMALL), x=(1, 5, 4, 64))
