from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.product import multiply, tiled_product
from msd.gpu.kernels.tile import Tile
from msd.gpu.operations import Matrices, Product
from msd.gpu.value import Value
from tests.webgpu.convolutions import snr
from tests.webgpu_device import run

RNG = np.random.default_rng(5)


def _matrices(name: str, shape: tuple[int, int, int], order: str, offset: int) -> tuple[Matrices, np.ndarray]:
    """Return matrices of random numbers that lie batch first (nij, nji) or interleaved (inj, jni)."""
    sizes = dict(zip("nij", shape, strict=True))
    strides, step = {}, 1
    for axis in reversed(order):
        strides[axis], step = step, step * sizes[axis]
    memory = RNG.standard_normal(offset + step).astype(np.float32)
    view = memory[offset:].reshape([sizes[axis] for axis in order])
    logical = view.transpose([order.index(axis) for axis in "nij"])
    where = Matrices(Value(name, "f32", memory.size), offset, strides["n"], strides["i"], strides["j"])
    return where, logical if name != "y" else memory


def _made(batch: int, rows: int, columns: int, depth: int, orders: tuple[str, str, str], offset: int = 0):
    a, left = _matrices("a", (batch, rows, depth), orders[0], offset)
    b, right = _matrices("b", (batch, depth, columns), orders[1], offset)
    y, _ = _matrices("y", (batch, rows, columns), orders[2], offset)
    return Product(a, b, y, batch, rows, columns, depth, 0.25), left, right


def _flat(memory_of: Matrices, logical: np.ndarray, order: str) -> np.ndarray:
    flat = np.ascontiguousarray(logical.transpose(["nij".index(axis) for axis in order])).reshape(-1)
    return np.concatenate([np.zeros(memory_of.offset, flat.dtype), flat])


def _snr(
    op: Product, left: np.ndarray, right: np.ndarray, orders: tuple[str, str, str], tile: Tile | None = None
) -> float:
    inputs = {
        op.a.value: _flat(op.a, left, orders[0]),
        op.b.value: _flat(op.b, right, orders[1]),
    }
    expected = left.astype(np.float64) @ right.astype(np.float64) * op.scale
    if op.stats:
        maximum = left.max(axis=2).astype(np.float64)
        sums = np.exp(left - maximum[..., None]).sum(axis=2)
        inputs[op.stats] = np.stack([maximum, sums], axis=-1).astype(np.float32)
        shares = np.exp(left - maximum[..., None]) / sums[..., None]
        expected = shares @ right.astype(np.float64) * op.scale
    dispatches = tiled_product(op, Gpu(), tile) if tile else multiply(op, Gpu())
    (got,) = run(dispatches, inputs, [op.y.value])
    wanted = _flat(op.y, expected, orders[2])
    return snr(wanted[op.y.offset :], got[op.y.offset :])


@pytest.mark.parametrize("orders", [("nij", "nij", "nij"), ("inj", "jni", "inj"), ("nji", "nji", "nji")])
@pytest.mark.parametrize("size", [(3, 33, 20, 24), (2, 17, 40, 64), (1, 5, 3, 7), (2, 37, 41, 77)])
@pytest.mark.parametrize("offset", [0, 4, 3])
def test_products(orders: tuple[str, str, str], size: tuple[int, int, int, int], offset: int) -> None:
    op, left, right = _made(*size, orders, offset)
    assert _snr(op, left, right, orders) > 100


@pytest.mark.parametrize("size", [(2, 33, 40, 48), (1, 7, 5, 77)])
def test_probabilities_from_statistics(size: tuple[int, int, int, int]) -> None:
    orders = ("nij", "inj", "inj")
    op, left, right = _made(*size, orders)
    op = replace(op, stats=Value("stats", "f32", 2 * size[0] * size[1]), scale=1.0)
    assert _snr(op, left * 5, right, orders) > 100


@pytest.mark.parametrize(
    "tile", [Tile(128, 128, 8, 8), Tile(64, 64, 8, 8, 32), Tile(64, 32, 4, 4, 8)], ids=str
)
@pytest.mark.parametrize("order", ["nij", "nji"])
def test_tiles(tile: Tile, order: str) -> None:
    orders = ("nij", order, "nij")
    op, left, right = _made(2, 70, 36, 40, orders)
    assert _snr(op, left, right, orders, tile) > 100


@settings(max_examples=20, deadline=None)
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)),
    orders=st.tuples(*[st.sampled_from(["nij", "nji", "inj", "jni"])] * 3),
    offset=st.sampled_from([0, 1, 8]),
)
def test_any_product(size: tuple[int, int, int, int], orders: tuple[str, str, str], offset: int) -> None:
    op, left, right = _made(*size, orders, offset)
    assert _snr(op, left, right, orders) > 100


def test_a_large_batch_is_several_dispatches() -> None:
    orders = ("nij", "nij", "nij")
    op, left, right = _made(5, 3, 4, 4, orders)
    dispatches = multiply(op, Gpu(workgroups=2))
    assert [d.groups for d in dispatches] == [(1, 1, 2), (1, 1, 2), (1, 1, 1)]
    inputs = {op.a.value: left, op.b.value: right}
    (got,) = run(dispatches, inputs, [op.y.value])
    assert snr(left.astype(np.float64) @ right * 0.25, got) > 100
