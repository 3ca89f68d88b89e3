"""The estimate: by hand on small graphs, and what holds of every graph."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from msd.graph.ir import Build, Graph, Tensor
from msd.graph.prediction.device import Device, find_device
from msd.graph.prediction.memory import GpuMemory, Placed, estimate
from tests.test_prediction_stored_constants import ADRENO, conv

PLAIN = replace(ADRENO, winograd_tiles=1000, litert_winograd_tiles=1000)


def test_a_chain_shares_two_places() -> None:
    """x, a, b, y of 3 slices each: at any time two of them."""
    new = Build()
    x = Tensor("x", (1, 5, 7, 10))
    a = new.TANH(x)
    b = new.EXP(a)
    found = estimate(Graph([x], [new.NEG(b)], new.ops), PLAIN, "fp16")
    size = 5 * 7 * 12 * 2
    assert [p.offset for p in found.activations] == [0, size, 0, size]
    assert found.timeline == (2 * size, 2 * size, 2 * size)
    assert (found.activations_bytes, max(found.timeline), found.peak) == (2 * size, 2 * size, 0)
    assert found.weights == ()
    assert estimate(Graph([x], [b], new.ops), PLAIN, "fp32").bytes == 2 * size * 2


def test_inputs_live_from_the_start_and_outputs_to_the_end() -> None:
    new = Build()
    x, late = Tensor("x", (1, 1, 1, 4)), Tensor("late", (1, 1, 1, 4))
    early = new.TANH(x)
    y = new.ADD(new.EXP(early), late)
    found = estimate(Graph([x, late], [early, y], new.ops), PLAIN, "fp32")
    spans = {p.tensor: (p.first, p.last) for p in found.activations}
    assert spans == {"x": (0, 0), "late": (0, 2), "t0": (0, 2), "t1": (1, 2), "t2": (2, 2)}
    assert found.peak == 2


def test_the_weights_of_a_convolution_count_and_its_constants_do_not_move() -> None:
    found = estimate(conv(stride_w=2), PLAIN, "fp16")
    assert [p.tensor for p in found.activations] == ["x", "t0"]
    assert found.weights_bytes == 3 * 3 * 16 * 9 * 2 + 24
    assert found.bytes == found.weights_bytes + 8 * (7 + 4) * 12 * 2


def test_winograd_needs_its_tiles_too() -> None:
    """36 numbers for each of 2x2 tiles, of the input and of the result; never all of it at once."""
    found = estimate(conv(), ADRENO, "fp16")
    image, tiles = 8 * 7 * 12 * 2, 36 * 4 * 12 * 2
    sizes = {p.tensor: (p.bytes, p.first, p.last) for p in found.activations}
    assert sizes == {
        "x": (image, 0, 0),
        "t0/winograd input": (tiles, 0, 0),
        "t0/winograd result": (tiles, 0, 0),
        "t0": (image, 0, 0),
    }
    assert (found.timeline, found.activations_bytes) == ((2 * tiles,), 2 * tiles)


def test_a_dequantised_constant_is_no_result() -> None:
    graph = conv(dtype="FLOAT16", dequantize=3)
    assert [p.tensor for p in estimate(graph, PLAIN).activations] == ["x", "t1"]


def test_int32_is_not_halved() -> None:
    new = Build()
    ids = Tensor("ids", (6,), "INT32")
    found = estimate(Graph([ids], [new.CAST(ids, out_data_type="FLOAT32")], new.ops), PLAIN, "fp16")
    assert [p.bytes for p in found.activations] == [6 * 4 * 4, 6 * 4 * 2]


def test_a_graph_without_operators() -> None:
    x = Tensor("x", (1, 2))
    assert estimate(Graph([x], [x]), Device()) == GpuMemory((), (), ())
    assert estimate(Graph([x], [x]), Device()).peak is None


def test_int8_saves_what_litert_keeps() -> None:
    """A 1x1 convolution of 9 to 10 channels: 184 bytes for 288."""
    graph, device = conv(kernel=1, dtype="INT8"), find_device("adreno-740")
    sizes = [estimate(graph, device.under(d)).weights_bytes for d in ("tflite-gpu", "litert-gpu")]
    assert sizes == [288 + 24, 184 + 24]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9)), max_size=30))
def test_what_holds_of_every_graph(steps: list[tuple[int, int, int]]) -> None:
    """Random graphs of sums and slices: tensors that live together do not overlap."""
    new = Build()
    x = Tensor("x", (1, 1, 1, 9))
    made = [x]
    for left, right, channels in steps:
        both = new.ADD(made[left % len(made)], made[right % len(made)])
        made.append(both if channels % 2 else new.SLICE(both, [0, 0, 0, 0], [1, 1, 1, 1]))
    graph = Graph([x], [t for t in made[1:] if not t.uses], new.ops)
    found = estimate(graph, PLAIN)
    assert found == estimate(graph, PLAIN)
    assert all(_apart(a, b) for a, b in combinations(found.activations, 2))
    assert max(found.timeline, default=0) <= found.activations_bytes
    assert found.activations_bytes <= sum(p.bytes for p in found.activations)
    assert len(found.timeline) == len(graph.ops)


def _apart(a: Placed, b: Placed) -> bool:
    in_time = a.last < b.first or b.last < a.first
    return in_time or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
