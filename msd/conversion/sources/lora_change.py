"""What an adapter changes a layer's weight by, in NumPy: each kind is a formula of its tensors.

A weight of a linear layer is (out, in), of a convolution (out, in, height, width); a change is computed as a
matrix of `out` rows. `·` is a product of matrices, `*` one of elements.

    LoRA     up · down                                          Hu et al., arXiv:2106.09685
    Tucker   the core `mid` (rank, rank, height, width), multiplied along its first two axes by up and down
    LoHa     (w1_a · w1_b) * (w2_a · w2_b)                      Hyeon-Woo et al., arXiv:2108.06098
    LoKr     kron(w1, w2), each one matrix or the product of two Yeh et al., arXiv:2309.14859
    (IA)^3   W times a number for each row, or column           Liu et al., arXiv:2205.05638
    diff     the difference itself

LoHa and LoKr may have Tucker's form too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from msd.graph.ir.weights import Array

Shapes = Mapping[str, tuple[int, ...]]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Kind:
    """A kind of adapter: the parts that it needs and may have, and its formula.

    `shape` returns the (out, …) of the change from its parts' shapes, None where these do not fit each other.
    `rank` returns the divisor of alpha, None where alpha does not count.
    """

    title: str
    needs: tuple[tuple[str, ...], ...]
    """Alternatives, one of which of each must be there; a name with a + stands for two parts."""
    may_have: tuple[str, ...]
    shape: Callable[[Shapes], tuple[int, ...] | None]
    delta: Callable[[Arrays], Array]
    rank: Callable[[Shapes], int | None]

    @property
    def parts(self) -> frozenset[str]:
        """The names of all its parts."""
        return self.needed | {*self.may_have}

    @property
    def needed(self) -> frozenset[str]:
        """The names of the parts by which it is known."""
        return frozenset(name for choice in self.needs for each in choice for name in each.split("+"))

    def lacking(self, parts: Mapping[str, object]) -> list[str]:
        """Return the parts that are missing."""
        return [
            choice[0].replace("+", " and ")
            for choice in self.needs
            if not any(all(name in parts for name in each.split("+")) for each in choice)
        ]


def _product_shape(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of (out, rank) · (rank, …), whose axes beyond the second are 1 in the first."""
    fits = len(one) >= 2 and len(other) >= 2 and one[1] == other[0] > 0 and set(one[2:]) <= {1}
    return (one[0], *other[1:]) if fits else None


def _tucker_shape(
    core: tuple[int, ...], out: tuple[int, ...], into: tuple[int, ...], transposed: bool
) -> tuple[int, ...] | None:
    """Return the shape of a core times two matrices, (rank, out) where `transposed`, else (out, rank)."""
    if len(core) < 2 or len(out) < 2 or len(into) < 2 or {*out[2:], *into[2:]} > {1}:
        return None
    rank, rows = (out[0], out[1]) if transposed else (out[1], out[0])
    return (rows, into[1], *core[2:]) if core[:2] == (rank, into[0]) and 0 not in core else None


def _matrix(array: Array) -> Array:
    return array.reshape(len(array), -1)


def _tucker(core: Array, out: Array, into: Array) -> Array:
    """Return the core (i, j, …) times `out` (rows, i) and `into` (j, columns) as (rows, columns, …)."""
    half = np.tensordot(_matrix(out), core, (1, 0))
    product: Array = np.moveaxis(np.tensordot(half, _matrix(into), (1, 0)), -1, 1)
    return _matrix(product)


def _lora_shape(shapes: Shapes) -> tuple[int, ...] | None:
    if "mid" in shapes:
        return _tucker_shape(shapes["mid"], shapes["up"], shapes["down"], transposed=False)
    return _product_shape(shapes["up"], shapes["down"])


def _lora(parts: Arrays) -> Array:
    if "mid" in parts:
        return _tucker(parts["mid"], parts["up"], parts["down"])
    product: Array = _matrix(parts["up"]) @ _matrix(parts["down"])
    return product


def _half_shape(shapes: Shapes, half: str, core: str) -> tuple[int, ...] | None:
    """Return the shape of a half of LoHa or LoKr, which is whole, a product, or Tucker's."""
    if half in shapes:
        return shapes[half] if len(shapes[half]) >= 2 else None
    one, other = shapes[f"{half}_a"], shapes[f"{half}_b"]
    if core in shapes:
        return _tucker_shape(shapes[core], one, other, transposed=True)
    return _product_shape(one, other)


def _half(parts: Arrays, half: str, core: str) -> Array:
    if half in parts:
        return _matrix(parts[half])
    one, other = parts[f"{half}_a"], parts[f"{half}_b"]
    if core in parts:
        return _tucker(parts[core], one.T, other)
    product: Array = _matrix(one) @ _matrix(other)
    return product


def _loha_shape(shapes: Shapes) -> tuple[int, ...] | None:
    halves = [_half_shape(shapes, f"hada_w{n}", f"hada_t{n}") for n in (1, 2)]
    return halves[0] if halves[0] == halves[1] else None


def _loha(parts: Arrays) -> Array:
    product: Array = _half(parts, "hada_w1", "hada_t1") * _half(parts, "hada_w2", "hada_t2")
    return product


def _lokr_shape(shapes: Shapes) -> tuple[int, ...] | None:
    one, other = (_half_shape(shapes, f"lokr_w{n}", f"lokr_t{n}") for n in (1, 2))
    if one is None or other is None or {*one[2:]} > {1}:
        return None
    return (one[0] * other[0], one[1] * other[1], *other[2:])


def _lokr(parts: Arrays) -> Array:
    one, other = (_half(parts, f"lokr_w{n}", f"lokr_t{n}") for n in (1, 2))
    product: Array = np.kron(one, other)
    return product


def _lokr_rank(shapes: Shapes) -> int | None:
    factors = (shapes[name] for name in ("lokr_w2_b", "lokr_w1_b") if name in shapes)
    return next((shape[0] for shape in factors), None)


LORA = Kind(
    title="LoRA",
    needs=(("down",), ("up",)),
    may_have=("mid", "up_bias", "alpha", "dora_scale", "magnitude"),
    shape=_lora_shape,
    delta=_lora,
    rank=lambda shapes: shapes["down"][0],
)
LOHA = Kind(
    title="LoHa",
    needs=(("hada_w1_a",), ("hada_w1_b",), ("hada_w2_a",), ("hada_w2_b",)),
    may_have=("hada_t1", "hada_t2", "alpha", "dora_scale"),
    shape=_loha_shape,
    delta=_loha,
    rank=lambda shapes: shapes["hada_w1_b"][0],
)
LOKR = Kind(
    title="LoKr",
    needs=(("lokr_w1", "lokr_w1_a+lokr_w1_b"), ("lokr_w2", "lokr_w2_a+lokr_w2_b")),
    may_have=("lokr_t2", "alpha", "dora_scale"),
    shape=_lokr_shape,
    delta=_lokr,
    rank=_lokr_rank,
)
DIFFERENCE = Kind(
    title="difference",
    needs=(("diff",),),
    may_have=("diff_b", "alpha"),
    shape=lambda shapes: shapes["diff"],
    delta=lambda parts: _matrix(parts["diff"]),
    rank=lambda shapes: None,
)
NORM = Kind(
    title="difference of a norm",
    needs=(("w_norm",),),
    may_have=("b_norm",),
    shape=lambda shapes: shapes["w_norm"],
    delta=lambda parts: _matrix(parts["w_norm"]),
    rank=lambda shapes: None,
)
ADDED = (LORA, LOHA, LOKR, DIFFERENCE, NORM)
"""The kinds that are added to a weight."""

BIASES = ("up_bias", "diff_b", "b_norm")
"""The parts that are added to a bias."""


def rescaled(weight: Array, magnitude: Array, axis: int) -> Array:
    """Return a weight whose rows, or columns where the `axis` is 1, have the lengths of `magnitude`.

    DoRA, Liu et al., arXiv:2402.09353.
    """
    others = tuple(n for n in range(weight.ndim) if n != axis)
    lengths = np.sqrt((weight.astype(np.float64) ** 2).sum(axis=others, keepdims=True))
    shape = tuple(weight.shape[axis] if n == axis else 1 for n in range(weight.ndim))
    smallest = np.finfo(np.float32).eps
    rescaled: Array = (weight * (magnitude.reshape(shape) / (lengths + smallest))).astype(np.float32)
    return rescaled


def axis_of_lengths(weight: tuple[int, ...], lengths: tuple[int, ...]) -> int | None:
    """Return the axis of a weight along which LyCORIS's `lengths` lie, None where they fit none.

    They are (out, 1, …) or, where LyCORIS or OneTrainer was asked for that, (1, in, …).
    """
    if math.prod(lengths) == weight[0] == lengths[0]:
        return 0
    return 1 if len(lengths) > 1 and math.prod(lengths) == weight[1] == lengths[1] else None
