"""Operators written as calls: the way in which rewrites and tests make new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from msd.graph.ir import opset
from msd.graph.ir.graph import NUMPY, Op, Tensor
from msd.graph.ir.weights import Weights

_TFLITE = {np.dtype(numpy): tflite for tflite, numpy in NUMPY.items()}


class Build:
    """Builds operators by calls: `new.ADD(x, y)` creates the operator and returns its result.

    Numbers and lists become constants: ints int32, floats float32. Patterns (`msd.graph.rewrite.pattern`) use
    the same notation. `ops` holds the new operators in order.
    """

    def __init__(self, prefix: str = "t") -> None:
        self.ops: list[Op] = []
        self._prefix = prefix

    def __getattr__(self, kind: str) -> Callable[..., Tensor]:
        if kind.startswith("_"):
            raise AttributeError(kind)
        opset.spec(kind)
        return lambda *inputs, version=1, **attrs: self._make(kind, inputs, version, attrs)[0]

    def SPLIT(self, axis: int, x: Tensor, num_splits: int) -> tuple[Tensor, ...]:
        """Return `num_splits` equal parts of `x` along `axis`."""
        return self._make("SPLIT", (axis, x), 1, {"num_splits": num_splits})

    def again(self, op: Op, *inputs: Tensor | None, **changes: Any) -> Tensor:
        """Return the result of the operator `op` applied to other inputs, with some attributes changed."""
        return self._make(op.kind, inputs, op.version, {**op.attrs, **changes})[0]

    def _make(
        self, kind: str, inputs: Iterable[Any], version: int, attrs: dict[str, Any]
    ) -> tuple[Tensor, ...]:
        spec = opset.spec(kind)
        tensors = [t if t is None or isinstance(t, Tensor) else self.const(t) for t in inputs]
        outputs = self._results(spec, tensors, {**spec.attrs, **attrs})
        self.ops.append(Op(kind, tensors, outputs, attrs, version))
        return tuple(outputs)

    def _results(
        self, spec: opset.OpSpec, inputs: list[Tensor | None], attrs: dict[str, Any]
    ) -> list[Tensor]:
        if spec.infer is None:
            raise TypeError(f"the result shape of {spec.kind} is unknown; add it to msd/graph/ir/shapes.py")
        operands = tuple(t for t in inputs if t is not None)
        shapes = spec.infer(operands, attrs)
        source = spec.result_dtype
        dtype = operands[source].dtype if isinstance(source, int) else source or attrs["out_data_type"]
        stem = f"{self._prefix}{len(self.ops)}"
        names = [stem] if len(shapes) == 1 else [f"{stem}:{i}" for i in range(len(shapes))]
        return [Tensor(n, s, dtype) for n, s in zip(names, shapes, strict=True)]

    def const(self, values: Any, name: str | None = None) -> Tensor:
        """Return a constant tensor of `values` (Weights, an array, a number or a list)."""
        if not isinstance(values, Weights):
            array = np.asarray(values)
            narrow = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
            literal = narrow and not isinstance(values, np.ndarray)
            values = Weights.of(array.astype(narrow) if literal else array)
        label = name or f"{self._prefix}{len(self.ops)}/const"
        return Tensor(label, values.shape, _TFLITE[values.dtype], values)
