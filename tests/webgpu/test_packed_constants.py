"""Constants of INT4 and INT2 in a file, two and four to a byte: the kernels compute with their real numbers.

The reference is LiteRT's, on the CPU, with the same numbers in float32.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.errors import DelegateFailed
from msd.gpu.compile import compile_file, compile_model
from msd.gpu.program import Program
from msd.gpu.session import Session
from msd.graph import tflite
from msd.graph.ir import Build, Model, Op, Quant, Tensor
from msd.graph.ir.weights import Array, Weights
from msd.graph.parity import psnr
from tests.harness import Ints, Spell, build, evaluate, feeds_for, normal
from tests.webgpu_device import device

RANGES = {"INT2": (-2, 2), "INT4": (-8, 8), "INT8": (-128, 128), "UINT8": (0, 256), "INT16": (-999, 999)}
VERSIONS = {"INT8": 2, "UINT8": 2, "INT4": 6, "INT2": 6, "INT16": 3}
LEAST = 100.0
"""Decibels to LiteRT on the CPU, in float32."""


def integers(
    dtype: str, *shape: int, axis: int = 0, one: bool = False, zero: int = 0, seed: int = 0
) -> tuple[Tensor, Array]:
    """Return a constant with a scale for each slice of `axis`, or with `one`, and its real numbers."""
    numbers = np.random.default_rng(seed)
    low, high = RANGES[dtype]
    stored = numbers.integers(low, high, shape).astype("uint8" if dtype == "UINT8" else "int8")
    if dtype == "INT16":
        stored = numbers.integers(low, high, shape).astype("int16")
    count = 1 if one else shape[axis]
    scale = (numbers.uniform(0.5, 1.5, count) / high).astype(np.float32)
    along = [-1 if i == axis else 1 for i in range(len(shape))] if count > 1 else [1] * len(shape)
    real = (stored.astype(np.float32) - zero) * scale.reshape(along)
    quant = Quant(scale, np.full(count, zero, np.int64), axis)
    return Tensor("w", shape, dtype, Weights.of(stored), quant), real.astype(np.float32)


def compiled(spell: Spell, folder: Path, **inputs: tuple[int, ...] | Ints) -> Program:
    """Return the program of a graph that was written to a file."""
    path = folder / "graph.tflite"
    tflite.write(Model([build(spell, **inputs)]), path)
    return compile_file(path, device().gpu)


def check(
    layer: Spell,
    constants: tuple[tuple[Tensor, Array], ...],
    folder: Path,
    explicit: bool = False,
    **inputs: tuple[int, ...] | Ints,
) -> Program:
    """`layer(new, *inputs, *constants)` in a file computes what it does with the real numbers."""

    def packed(new: Build, **tensors: Tensor) -> Tensor:
        read = [
            new.DEQUANTIZE(stored, version=VERSIONS[stored.dtype]) if explicit else stored
            for stored, _ in constants
        ]
        return layer(new, *tensors.values(), *read)  # type: ignore[return-value]

    def real(new: Build, **tensors: Tensor) -> Tensor:
        return layer(new, *tensors.values(), *(new.const(array) for _, array in constants))  # type: ignore[return-value]

    wanted = build(real, **inputs)
    fed = feeds_for(wanted, scale=1.0)
    program = compiled(packed, folder, **inputs)
    with Session(program, device()) as session:
        found = session.run(fed)["out"]
    (expected,) = evaluate(wanted, fed)
    assert found.shape == expected.shape
    assert psnr(expected, found) >= LEAST
    return program


def convolved(new: Build, x: Tensor, w: Tensor) -> Tensor:
    return new.CONV_2D(x, w, new.const(normal(w.shape[0])), stride_h=1, stride_w=1)


def strided(new: Build, x: Tensor, w: Tensor) -> Tensor:
    return new.CONV_2D(x, w, new.const(normal(w.shape[0])), stride_h=2, stride_w=2, padding="SAME")


def connected(new: Build, x: Tensor, w: Tensor) -> Tensor:
    return new.FULLY_CONNECTED(x, w, None)


def looked_up(new: Build, ids: Tensor, table: Tensor) -> Tensor:
    rows = Tensor("rows", (*ids.shape, *table.shape[1:]))
    new.ops.append(Op("EMBEDDING_LOOKUP", [ids, table], [rows], version=4))
    return rows


@pytest.mark.parametrize("dtype", ["INT4", "INT2"])
@pytest.mark.parametrize("one", [False, True], ids=["per_channel", "one_scale"])
@pytest.mark.parametrize(
    ("filters", "image"),
    [
        ((5, 1, 1, 7), (2, 3, 5)),
        ((9, 3, 3, 3), (1, 6, 5)),
        ((12, 3, 3, 16), (1, 16, 17)),
        ((3, 3, 3, 8), (1, 64, 33)),
        ((13, 1, 1, 21), (1, 1, 1)),
    ],
    ids=["odd", "odd_3x3", "winograd", "few_columns", "few_rows"],
)
def test_filters(
    dtype: str, one: bool, filters: tuple[int, ...], image: tuple[int, ...], tmp_path: Path
) -> None:
    constant = integers(dtype, *filters, one=one)
    check(convolved, (constant,), tmp_path, x=(*image, filters[3]))


def test_a_strided_filter(tmp_path: Path) -> None:
    check(strided, (integers("INT4", 6, 3, 3, 5),), tmp_path, x=(1, 7, 6, 5))


@settings(max_examples=12, deadline=None)
@given(
    dtype=st.sampled_from(["INT4", "INT2"]),
    outputs=st.integers(1, 19),
    inner=st.integers(1, 19),
    rows=st.integers(1, 9),
    one=st.booleans(),
    explicit=st.booleans(),
)
def test_fully_connected_layers(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    outputs: int,
    inner: int,
    rows: int,
    one: bool,
    explicit: bool,
) -> None:
    constant = integers(dtype, outputs, inner, one=one, seed=outputs * inner)
    check(connected, (constant,), tmp_path_factory.mktemp("f"), explicit, x=(rows, inner))


@pytest.mark.parametrize("dtype", ["INT4", "INT2"])
@pytest.mark.parametrize("columns", [1, 3, 7, 8, 20])
@pytest.mark.parametrize("one", [False, True])
def test_tables(dtype: str, columns: int, one: bool, tmp_path: Path) -> None:
    """Rows of odd length too, which LiteRT's CPU reads from wrong places."""
    check(looked_up, (integers(dtype, 9, columns, one=one),), tmp_path, ids=Ints((7,)))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["INT4", "INT8"])
def test_filters_with_scales_along_any_axis(axis: int, dtype: str, tmp_path: Path) -> None:
    check(convolved, (integers(dtype, 5, 3, 3, 7, axis=axis),), tmp_path, True, x=(1, 5, 4, 7))


@pytest.mark.parametrize(("dtype", "zero"), [("INT4", 3), ("INT8", -5), ("UINT8", 131), ("INT16", 0)])
def test_filters_that_kernels_read_as_floats(dtype: str, zero: int, tmp_path: Path) -> None:
    """Zero points, and integers of other types."""
    constant = integers(dtype, 6, 3, zero=zero)
    check(connected, (constant,), tmp_path, True, x=(4, 3))


@pytest.mark.parametrize("dtype", ["INT4", "INT2", "INT8"])
def test_constants_of_elementwise_operators(dtype: str, tmp_path: Path) -> None:
    """A factor for each channel, a whole image, and one number, through DEQUANTIZE."""

    def layer(new: Build, x: Tensor, factor: Tensor, image: Tensor, number: Tensor) -> Tensor:
        return new.MUL(new.ADD(new.MUL(x, factor), image), number)

    constants = (
        integers(dtype, 5),
        integers(dtype, 1, 3, 3, 5, axis=3, seed=1),
        integers(dtype, 1, seed=2),
    )
    check(layer, constants, tmp_path, True, x=(2, 3, 3, 5))


def test_a_bias(tmp_path: Path) -> None:
    def layer(new: Build, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return new.FULLY_CONNECTED(x, w, b)

    check(layer, (integers("INT4", 7, 5), integers("INT4", 7, one=True)), tmp_path, True, x=(3, 5))


def test_a_gathered_table(tmp_path: Path) -> None:
    def layer(new: Build, ids: Tensor, table: Tensor) -> Tensor:
        return new.GATHER(table, ids, axis=0)

    check(layer, (integers("INT4", 9, 5),), tmp_path, True, ids=Ints((6,)))


@pytest.mark.parametrize("second", ["INT4", "INT8", "zero point"])
def test_a_gate(second: str, tmp_path: Path) -> None:
    """Two filters become one, in float32 where only one of them is read as it is stored."""

    def layer(new: Build, x: Tensor, value: Tensor, gate: Tensor) -> Tensor:
        gated = new.GELU(convolved(new, x, gate), approximate=True)
        return new.MUL(convolved(new, x, value), gated)

    zero = 2 if second == "zero point" else 0
    gates = integers("INT4" if zero else second, 8, 1, 1, 7, zero=zero, seed=3)
    check(layer, (integers("INT4", 8, 1, 1, 7), gates), tmp_path, True, x=(1, 4, 5, 7))


def test_projections_of_one_vector(tmp_path: Path) -> None:
    """Filters of odd size are joined as numbers, not as bytes."""

    def layer(new: Build, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return new.CONCATENATION(convolved(new, x, a), convolved(new, x, b), axis=3)

    constants = (integers("INT4", 5, 1, 1, 3), integers("INT4", 3, 1, 1, 3, seed=1))
    check(layer, constants, tmp_path, x=(1, 1, 1, 3))


def test_int4_takes_half_a_byte_on_the_gpu(tmp_path: Path) -> None:
    sizes = {
        dtype: check(connected, (integers(dtype, 64, 128),), tmp_path, x=(9, 128)).weight_bytes
        for dtype in ("INT4", "INT8")
    }
    assert sizes["INT8"] - sizes["INT4"] == 64 * 128 // 2


BLOCKS = SimpleNamespace(blockSize=32)


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"quant": None}, "has int4 numbers without a scale, w; kernels do not read it"),
        ({"quant": Quant(np.ones(3, np.float32), np.zeros(3, np.int64))}, "has 3 scales and 3 zero points"),
        (
            {"quant": Quant(np.zeros(0, np.float32), np.zeros(0, np.int64), rest={"details": BLOCKS})},
            "with a scale for each block of 32 numbers, w",
        ),
        ({"dtype": "UINT4"}, "has a constant of type uint4, w"),
    ],
)
def test_what_no_kernel_reads_is_refused_by_name(change: dict[str, object], clause: str) -> None:
    weights, _ = integers("INT4", 6, 4)
    for name, value in change.items():
        setattr(weights, name, value)
    graph = build(lambda new, x: connected(new, x, weights), x=(2, 4))
    with pytest.raises(DelegateFailed) as refusal:
        compile_model(Model([graph]), device().gpu)
    assert str(refusal.value).startswith("CONVOLUTION, operator 0 (")
    assert clause in str(refusal.value)
