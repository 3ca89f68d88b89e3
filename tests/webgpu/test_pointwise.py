"""Pointwise kernels and copies, with NumPy as the judge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.kernels.pointwise import BINARY, IDENTITY, UNARY, Strided, collapse, compute
from msd.gpu.operations import Activation
from msd.gpu.value import Value
from msd.gpu.views import contiguous_strides
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from tests.webgpu_device import constant, device, run

NUMPY = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "PRELU": lambda a, b: np.where(a < 0, a * b, a),
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2,
    "ABS": np.abs,
    "EXP": np.exp,
    "LOG": np.log,
    "NEG": np.negative,
    "RSQRT": lambda a: 1 / np.sqrt(a),
    "SQRT": np.sqrt,
    "SQUARE": np.square,
}


def sigmoid(v: Array) -> Array:
    return 1 / (1 + np.exp(-v))


ACTIVATIONS: dict[Activation, Array] = {
    "NONE": lambda v: v,
    "RELU": lambda v: np.maximum(v, 0),
    "RELU6": lambda v: np.clip(v, 0, 6),
    "RELU_N1_TO_1": lambda v: np.clip(v, -1, 1),
    "TANH": np.tanh,
    "LOGISTIC": sigmoid,
    "SILU": lambda v: v * sigmoid(v),
    "QUICK_GELU": lambda v: v * sigmoid(1.702 * v),
    "GELU": lambda v: v * (1 + np.vectorize(math.erf)(v / math.sqrt(2))) / 2,
    "TANH_GELU": lambda v: v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))) / 2,
}


def strides_of(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    full = (1,) * (len(shape) - len(own)) + own
    return tuple(0 if n == 1 else s for n, s in zip(full, contiguous_strides(full), strict=True))


def broadcast(kind: str, a: Array, b: Array, activation: Activation = "NONE") -> Array:
    shape = np.broadcast_shapes(a.shape, b.shape)
    x, y = Value("x", "f32", a.size), Value("y", "f32", int(np.prod(shape)))
    operands = [
        Strided(x, strides_of(a.shape, shape)),
        Strided(constant("b", b), strides_of(b.shape, shape)),
    ]
    result = Strided(y, contiguous_strides(shape))
    dispatches = compute(BINARY[kind], operands, result, shape, device().gpu, activation)
    return run(dispatches, {x: a}, [y])[0].reshape(shape)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)


@pytest.mark.parametrize("kind", sorted(BINARY))
def test_each_function_of_two(kind: str) -> None:
    a, b = normal(2, 3, 5, 8), normal(2, 3, 5, 8, seed=1)
    assert psnr(NUMPY[kind](a.astype(np.float64), b), broadcast(kind, a, b)) >= 120


@pytest.mark.parametrize("kind", sorted(UNARY))
def test_each_function_of_one(kind: str) -> None:
    a = np.abs(normal(3, 7)) + 0.1
    x, y = Value("x", "f32", a.size), Value("y", "f32", a.size)
    dispatches = compute(UNARY[kind], [Strided(x, (1,))], Strided(y, (1,)), (a.size,), device().gpu)
    (result,) = run(dispatches, {x: a}, [y])
    assert psnr(NUMPY[kind](a.astype(np.float64)), result) >= 100


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("channels", [7, 8])
def test_activations_at_and_beyond_their_thresholds(activation: Activation, channels: int) -> None:
    a = np.linspace(-120, 120, 30 * channels, dtype=np.float32).reshape(30, channels)
    result = broadcast("ADD", a, np.zeros((1,), np.float32), activation)
    with np.errstate(over="ignore"):
        assert psnr(ACTIVATIONS[activation](a.astype(np.float64)), result) >= 120


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("channels", [7, 8])
def test_activations_are_exact_where_they_bend(activation: Activation, channels: int) -> None:
    """The two forms of GELU differ by up to 4.7e-4 there, and QUICK_GELU from both by up to 0.02."""
    a = np.linspace(-8, 8, 500 * channels, dtype=np.float32).reshape(500, channels)
    result = broadcast("ADD", a, np.zeros((1,), np.float32), activation)
    np.testing.assert_allclose(result, ACTIVATIONS[activation](a.astype(np.float64)), rtol=5e-7, atol=5e-7)


@pytest.mark.parametrize("activation", ["GELU", "TANH_GELU"])
def test_gelu_of_the_largest_numbers(activation: Activation) -> None:
    a = np.array([[1e30, -1e30, 1e20, -1e20, 88, -88, 0]], np.float32)
    result = broadcast("ADD", a, np.zeros((1,), np.float32), activation)
    np.testing.assert_allclose(result, np.maximum(a, 0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 5, 8), (8,)),
        ((2, 3, 5, 7), (7,)),
        ((2, 3, 5, 8), (2, 3, 5, 1)),
        ((2, 3, 5, 8), (2, 1, 1, 8)),
        ((2, 1, 5, 4), (1, 3, 1, 4)),
        ((5, 1), (1, 6)),
        ((1,), (1,)),
        ((3, 4), ()),
    ],
)
def test_operands_are_repeated_as_numpy_repeats_them(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    np.testing.assert_array_equal(broadcast("SUB", a, b), a - b)


def test_more_elements_than_one_dimension_of_workgroups_holds() -> None:
    """A dimension has 65,535 workgroups at most; here it may have two."""
    import dataclasses

    gpu = dataclasses.replace(device().gpu, workgroups=2)
    a = normal(5000)
    x, y = Value("x", "f32", a.size), Value("y", "f32", a.size)
    dispatches = compute("-$a", [Strided(x, (1,))], Strided(y, (1,)), a.shape, gpu)
    assert max(dispatches[0].groups) <= 3
    assert dispatches[0].groups[1] > 1
    np.testing.assert_array_equal(run(dispatches, {x: a}, [y])[0], -a)


@settings(max_examples=12, deadline=None)
@given(st.permutations(range(4)), st.sampled_from([(2, 3, 4, 8), (3, 1, 5, 7), (1, 6, 2, 4)]))
def test_copies_transpose(order: list[int], shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    x, y = Value("x", "f32", a.size), Value("y", "f32", a.size)
    source = contiguous_strides(shape)
    turned = tuple(shape[i] for i in order)
    operand = Strided(x, tuple(source[i] for i in order))
    result = Strided(y, contiguous_strides(turned))
    dispatches = compute(IDENTITY, [operand], result, turned, device().gpu)
    np.testing.assert_array_equal(run(dispatches, {x: a}, [y])[0].reshape(turned), a.transpose(order))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.randoms())
def test_collapsed_axes_address_the_same_elements(shape: list[int], random: object) -> None:
    sizes = tuple(shape)
    strides = [
        contiguous_strides(sizes),
        tuple(0 if i % 2 else s for i, s in enumerate(contiguous_strides(sizes))),
    ]
    fewer, collapsed = collapse(sizes, strides)
    assert len(fewer) <= len(sizes)
    for before, after in zip(strides, collapsed, strict=True):
        wanted = [int(np.dot(index, before)) for index in np.ndindex(*sizes)]
        assert [int(np.dot(index, after)) for index in np.ndindex(*fewer)] == wanted
