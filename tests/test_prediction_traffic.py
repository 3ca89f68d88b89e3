"""Bytes and arithmetic of operators, counted by hand, and the rooflines of the devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.prediction.arithmetic import arithmetic
from msd.graph.prediction.device import find_device, shipped
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.gpu_nodes import unfused
from msd.graph.prediction.registry import find_delegate
from msd.graph.prediction.roofline import Roofline, is_known
from msd.graph.prediction.storage import MOST
from msd.graph.prediction.traffic import Traffic, by_kind, traffic
from tests.harness import build

ADRENO = find_device("adreno-740").under("litert-gpu")
X = (1, 5, 3, 8)

COUNTS: dict[str, tuple[Callable[..., Tensor], int]] = {
    "a 3x2 convolution": (
        lambda new, x: new.CONV_2D(
            x, new.const([[[[0.5] * 8] * 2] * 3] * 7), new.const([0.0] * 7), stride_w=1, stride_h=1
        ),
        2 * 5 * 3 * 7 * 3 * 2 * 8,
    ),
    "a product of matrices": (
        lambda new, x: new.BATCH_MATMUL(x, new.SOFTMAX(x), adj_y=True),
        2 * 5 * 3 * 3 * 8,
    ),
    "a product, first transposed": (
        lambda new, x: new.BATCH_MATMUL(x, new.SOFTMAX(x), adj_x=True),
        2 * 5 * 8 * 8 * 3,
    ),
    "a mean": (lambda new, x: new.MEAN(x, [1, 2], keep_dims=True), 120),
    "a softmax": (lambda new, x: new.SOFTMAX(x), 480),
    "a sum that grows": (lambda new, x: new.ADD(x, new.MEAN(x, [3], keep_dims=True)), 120),
    "a transpose": (lambda new, x: new.TRANSPOSE(x, [0, 3, 1, 2]), 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_additions_and_multiplications(name: str) -> None:
    net, expected = COUNTS[name]
    graph = build(net, x=X)
    assert arithmetic(graph.ops[-1]) == expected


@pytest.mark.parametrize(
    ("kind", "shapes", "result", "attrs", "expected"),
    [
        ("DEPTHWISE_CONV_2D", [X, (1, 3, 2, 8)], X, {}, 2 * 120 * 3 * 2),
        ("TRANSPOSE_CONV", [(4,), (7, 3, 2, 8), X], (1, 10, 6, 7), {}, 2 * 120 * 7 * 3 * 2),
        ("FULLY_CONNECTED", [(15, 8), (7, 8)], (15, 7), {}, 2 * 15 * 7 * 8),
        ("AVERAGE_POOL_2D", [X], X, {"filter_height": 3, "filter_width": 2}, 120 * 6),
        ("RESIZE_BILINEAR", [X, (2,)], (1, 10, 6, 8), {}, 480 * 7),
        ("SUM", [X, (1,)], (1, 5, 3, 1), {}, 120),
        ("CONV_2D", [X], X, {}, 120),
    ],
)
def test_arithmetic_by_shapes(
    kind: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], attrs: dict[str, int], expected: int
) -> None:
    """The last is senseless, as a file may be: without filters each result is one step."""
    operands = [Tensor(f"t{i}", shape) for i, shape in enumerate(shapes)]
    assert arithmetic(Op(kind, operands, [Tensor("y", result)], attrs)) == expected


def test_a_convolution_reads_its_operand_and_its_filters() -> None:
    def net(new: Build, x: Tensor) -> Tensor:
        return new.CONV_2D(x, new.const([[[[0.5] * 8]]] * 7), new.const([0.0] * 7), stride_w=1, stride_h=1)

    graph = build(net, x=X)
    (half,) = traffic(unfused(graph), graph, ADRENO)
    (whole,) = traffic(unfused(graph), graph, ADRENO, "fp32")
    assert (half.read, half.written) == (2 * 120, 2 * 105)
    assert half.weights == 2 * (2 * 2 * 16 + 8)
    assert (half.activations, half.bytes) == (450, 450 + half.weights)
    assert (whole.read, whole.written, whole.weights) == (480, 420, 2 * half.weights)


def test_what_is_read_twice_counts_once() -> None:
    graph = build(lambda new, x: new.MUL(x, x), x=X)
    (square,) = traffic(unfused(graph), graph, ADRENO)
    assert (square.read, square.written) == (240, 240)


def test_a_slice_reads_what_it_writes() -> None:
    graph = build(lambda new, x: new.SLICE(x, [0, 1, 0, 0], [1, 2, 3, 8]), x=X)
    (part,) = traffic(unfused(graph), graph, ADRENO)
    assert (part.read, part.written, part.arithmetic) == (96, 96, 0)


def test_whole_numbers_are_not_halved() -> None:
    new = Build()
    ids = Tensor("ids", (6,), "INT32")
    graph = Graph([ids], [new.CAST(ids, out_data_type="FLOAT32")], new.ops)
    (cast,) = traffic(unfused(graph), graph, ADRENO)
    assert (cast.read, cast.written) == (24, 12)


def test_joining_saves_the_results_between_and_no_arithmetic() -> None:
    def net(new: Build, x: Tensor) -> Tensor:
        return new.MUL(y := new.SOFTMAX(x), new.LOGISTIC(y))

    graph = build(net, x=X)
    apart = traffic(unfused(graph), graph, ADRENO)
    joined = traffic(fused(graph, find_delegate("litert-gpu")), graph, ADRENO)
    assert [one.activations // 240 for one in apart] == [2, 2, 3]
    assert [one.activations // 240 for one in joined] == [2]
    assert sum(one.arithmetic for one in apart) == joined[0].arithmetic == 480 + 120 + 120
    assert list(by_kind(apart)) == ["MUL", "SOFTMAX", "LOGISTIC"]
    assert by_kind([*apart, *apart])["MUL"] == Traffic(
        "MUL", read=960, written=480, weights=0, arithmetic=240
    )


def test_senseless_shapes_are_bounded() -> None:
    x = Tensor("x", (2**31 - 1,) * 50)
    new = Build()
    graph = Graph([x], [new.EXP(x)], new.ops)
    (huge,) = traffic(unfused(graph), graph, ADRENO)
    assert (huge.read, huge.written, huge.arithmetic) == (MOST, MOST, MOST)
    assert Roofline.of(ADRENO).seconds([huge]) == pytest.approx(2 * MOST / 67.2e9)


def test_devices_with_a_roofline() -> None:
    known = {name for name in shipped() if is_known(find_device(name))}
    assert known == {"adreno-6xx", "adreno-740", "apple", "desktop-vulkan", "mali-bifrost", "mali-valhall"}
    for name in known:
        roofline = Roofline.of(find_device(name))
        assert 20e9 < roofline.bandwidth < 5e12
        assert 0.5e12 < roofline.float_flops <= roofline.half_flops <= 2 * roofline.float_flops
