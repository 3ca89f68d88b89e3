"""int4 and int2, several to a byte: what is read, what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Op, Quant, Tensor
from msd.graph.ir.weights import Array, Weights
from msd.graph.tflite.packed import BITS, pack, packed_bytes, unpack
from tests import on_cpu
from tests.harness import build


@given(dtype=st.sampled_from(["INT4", "INT2"]), values=st.lists(st.integers(0, 15), max_size=40))
def test_what_is_packed_is_unpacked(dtype: str, values: list[int]) -> None:
    half = 1 << BITS[dtype] - 1
    numbers = (np.array(values, np.int64) % (2 * half) - half).astype(np.int8)
    packed = pack(numbers, dtype)
    assert packed.dtype == np.uint8
    assert packed.size == packed_bytes(numbers.size, dtype) == -(-numbers.size * BITS[dtype] // 8)
    assert np.array_equal(unpack(packed, dtype, numbers.shape), numbers)


def test_the_first_is_in_the_lowest_bits() -> None:
    assert unpack(np.array([0x2F, 0x87], np.uint8), "INT4", (3,)).tolist() == [-1, 2, 7]
    assert unpack(np.array([0b11_10_01_00], np.uint8), "INT2", (2, 2)).tolist() == [[0, 1], [-2, -1]]


def layer(dtype: str, numbers: Array) -> Graph:
    """Return FULLY_CONNECTED with these weights, through a DEQUANTIZE."""
    scale = np.linspace(0.1, 0.4, len(numbers)).astype(np.float32)
    quant = Quant(scale, np.zeros(len(numbers), np.int64))
    weights = Tensor("w", numbers.shape, dtype, Weights.of(numbers), quant)

    def spell(new: Build, x: Tensor) -> Tensor:
        return new.FULLY_CONNECTED(x, new.DEQUANTIZE(weights, version=6), None)

    return build(spell, x=(2, numbers.shape[1]))


@pytest.mark.parametrize("dtype", ["INT4", "INT2"])
@pytest.mark.parametrize("inner", [1, 5, 8])
def test_litert_reads_what_is_written(dtype: str, inner: int, tmp_path: Path) -> None:
    half = 1 << BITS[dtype] - 1
    numbers = np.random.default_rng(inner).integers(-half, half, (7, inner)).astype(np.int8)
    path, x = tmp_path / "layer.tflite", on_cpu.normal(2, inner)
    tflite.write(Model([layer(dtype, numbers)]), path)
    (weights,) = [t for t in tflite.read(path).main.tensors() if t.dtype == dtype]
    assert np.array_equal(weights.weights.load(), numbers)
    scale = np.linspace(0.1, 0.4, 7).astype(np.float32)
    np.testing.assert_allclose(on_cpu.run(path, x)[0], x @ (numbers * scale[:, None]).T, rtol=0, atol=1e-5)


def test_equal_numbers_of_two_types_have_buffers_of_their_own(tmp_path: Path) -> None:
    """Small constants of equal values share one, but not those of two types."""
    numbers = Weights.of(np.array([[1, -2, 0]], np.int8))
    quant = Quant(np.ones(1, np.float32), np.zeros(1, np.int64))
    tables = [
        Tensor(f"t{i}", (1, 3), dtype, numbers, quant) for i, dtype in enumerate(("INT4", "INT8", "INT2"))
    ]
    ids = Tensor("ids", (2,), "INT32")
    ops = [Op("EMBEDDING_LOOKUP", [ids, t], [Tensor(f"y{t.name}", (2, 3))], version=4) for t in tables]
    path = tmp_path / "tables.tflite"
    tflite.write(Model([Graph([ids], [op.outputs[0] for op in ops], ops)]), path)
    read = [op.operands[1] for op in tflite.read(path).main.ops]
    assert [t.dtype for t in read] == ["INT4", "INT8", "INT2"]
    assert [t.weights.load().tolist() for t in read] == [[[1, -2, 0]]] * 3


def test_a_constant_of_too_few_bytes_is_refused(tmp_path: Path) -> None:
    graph = layer("INT4", np.zeros((3, 5), np.int8))
    weights = graph.ops[0].operands[0]
    weights.data = Weights.of(np.zeros(7, np.uint8))
    path = tmp_path / "short.tflite"
    tflite.write(Model([graph]), path)
    with pytest.raises(BadModelFile, match=r"constant w \(3, 5\) holds 7 bytes instead of 8"):
        tflite.read(path)
