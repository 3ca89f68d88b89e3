"""Small models for the oracle: one operation each, or the few that it takes to ask about one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msd.graph.ir import NUMPY, Graph, Model, Op, Quant, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.tflite.packed import unpack

Out = tuple[tuple[int, ...], str]
"""Shape and dtype of a result."""


@dataclass(frozen=True)
class Case:
    """A model and what is asked of it.

    `name` says which side of which rule it is on; its first word is the kind it is about. Inputs are drawn
    from N(0, 1), or are `positive`: logarithms and roots want that. Where the CPU is wrong, its numbers
    are those of `twin`, which says the same in other words.
    """

    name: str
    model: Model
    positive: bool = False
    twin: Model | None = None

    @property
    def kind(self) -> str:
        """The kind of operation that the case is about."""
        return self.name.partition(" ")[0]


def given(*shape: int, dtype: str = "FLOAT32", scale: float | None = None) -> Tensor:
    """Return a tensor that the graph takes; with `scale`, a quantised one."""
    quant = None if scale is None else Quant(np.float32([scale]), np.int64([0]))
    return Tensor("x", shape, dtype, quant=quant)


def numbers(*shape: int, dtype: str = "FLOAT32", scales: int = 0, axis: int = 0) -> Tensor:
    """Return a constant of seeded random numbers; an integer one has `scales` scales along `axis`."""
    generator = np.random.default_rng(sum(shape))
    if dtype in ("INT8", "UINT8"):
        values = generator.integers(-120 if dtype == "INT8" else 1, 120, shape).astype(NUMPY[dtype])
    elif dtype == "INT4":
        packed = generator.integers(-128, 127, -(-int(np.prod(shape)) // 2)).astype(np.uint8)
        values = unpack(packed, dtype, shape)
    else:
        values = np.asarray(np.abs(generator.normal(size=shape)) + 0.5).astype(NUMPY[dtype])
    scale = (np.arange(scales) % 7 + 1).astype(np.float32) / 100
    quant = Quant(scale, np.zeros(scales, np.int64), axis) if scales else None
    return Tensor("c", shape, dtype, Weights.of(values), quant)


def ints(*values: Any, dtype: str = "INT32") -> Tensor:
    """Return a constant of these integers; a single bare number makes a scalar."""
    array = np.asarray(values, NUMPY[dtype])
    return Tensor("n", array.shape, dtype, Weights.of(array))


def scalar(value: Any, dtype: str = "FLOAT32") -> Tensor:
    """Return a constant of rank 0."""
    return Tensor("s", (), dtype, Weights.of(np.asarray(value, NUMPY[dtype])))


def op(
    kind: str, inputs: Sequence[Tensor | None], *outputs: Out | Tensor, version: int = 1, **attrs: Any
) -> Op:
    """Return an operation with fresh results."""
    made = [o if isinstance(o, Tensor) else Tensor("y", *o) for o in outputs]
    return Op(kind, inputs, made, attrs, version)


def model(*ops: Op) -> Model:
    """Return a model of these operations: it takes what none of them makes, and returns what none reads."""
    tensors = list(dict.fromkeys(t for o in ops for t in (*o.operands, *o.outputs)))
    for i, tensor in enumerate(tensors):
        tensor.name = f"{tensor.name.rstrip('0123456789')}{i}"
    inputs = [t for t in tensors if t.producer is None and t.data is None]
    outputs = [t for t in tensors if t.producer is not None and not t.uses]
    return Model([Graph(inputs, outputs, ops)])
