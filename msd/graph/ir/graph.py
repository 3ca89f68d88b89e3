"""The graph: tensors, the operators between them, and the few operations that change it.

A Tensor is produced by at most one Op and lists all its uses. Nothing here stores an index: only
`msd.graph.tflite`, which reads and writes files, has indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msd.graph.ir import opset
from msd.graph.ir.sparsity import Sparsity
from msd.graph.ir.weights import Array, Weights

NUMPY: dict[str, str] = {
    "FLOAT64": "float64",
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "INT64": "int64",
    "INT32": "int32",
    "INT16": "int16",
    "INT8": "int8",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "BOOL": "bool",
    "COMPLEX64": "complex64",
}
"""TFLite's tensor types that NumPy has too; constants of INT4 and INT2 are int8, others raw bytes."""


class InvalidGraph(Exception):
    """The graph breaks one of its own rules: a bug in the code that changed it last."""


class NotConstant(ValueError):
    """A caller needs the values of a tensor that has none before the graph runs."""


@dataclass(frozen=True, eq=False)
class Quant:
    """The meaning of stored integers: real = scale * (stored - zero_point), per slice of `axis`.

    `scale` float32 (N,), `zero_point` int64 (N,). With `encode` the tensor's weights are still real numbers:
    the writer calls it with them and gets (stored values, scale): int8, for INT4 too. It is called in any
    thread.
    `rest` holds the schema's other fields (min, max, details): only `msd.graph.tflite` looks into them.
    """

    scale: Array
    zero_point: Array
    axis: int = 0
    encode: Callable[[Weights], tuple[Array, Array]] | None = None
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def block_size(self) -> int:
        """How many numbers of a row share a scale where each block has its own; 0 where none does."""
        return int(getattr(self.rest.get("details"), "blockSize", 0))


class Tensor:
    """A typed value. Constants have `data`; the results of operators have a `producer`."""

    def __init__(
        self,
        name: str,
        shape: Iterable[int],
        dtype: str = "FLOAT32",
        data: Weights | None = None,
        quant: Quant | None = None,
    ) -> None:
        self.name = name
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype
        self.data = data
        self.quant = quant
        self.producer: Op | None = None
        self.uses: dict[tuple[Op, int], None] = {}
        self.is_variable = False
        """Whether its value persists from one run of the graph to the next."""
        self.shape_signature: tuple[int, ...] | None = None
        """The shape with -1 for each dimension that may change between runs; None where all are fixed."""
        self.sparsity: Sparsity | None = None
        """Where the values lie that a sparse constant stores, whose `data` are then raw bytes."""
        self.rest: dict[str, Any] = {}
        """Other fields of the schema (hasRank …): only `msd.graph.tflite` looks into them."""

    @property
    def maker(self) -> Op:
        """The producer; raises ValueError for a tensor without one."""
        if self.producer is None:
            raise ValueError(f"no operator produces {self.name}")
        return self.producer

    @property
    def weights(self) -> Weights:
        """The constant's weights; raises NotConstant when it is not constant."""
        if self.data is None:
            raise NotConstant(f"{self.name} is not a constant")
        return self.data

    def values(self) -> Array:
        """Return a small constant's values; raises NotConstant when it is not constant."""
        return self.weights.load_small()

    @property
    def short_name(self) -> str:
        """The name for people: TensorFlow's converter joins those of all operators that it fused by ";"."""
        first, joined, _ = self.name.partition(";")
        return f"{first};…" if joined else first

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype.lower()}{list(self.shape)}"


class Op:
    """One TFLite operator. Assigning `inputs` keeps every tensor's `uses` right."""

    def __init__(
        self,
        kind: str,
        inputs: Iterable[Tensor | None],
        outputs: Iterable[Tensor],
        attrs: dict[str, Any] | None = None,
        version: int = 1,
    ) -> None:
        spec = opset.spec(kind)
        if unknown := set(attrs or {}) - set(spec.attrs):
            raise TypeError(f"{kind} has no attribute {sorted(unknown)}; it has {sorted(spec.attrs)}")
        self.kind = kind
        self.attrs = {**spec.attrs, **(attrs or {})}
        self.version = version
        self.outputs: tuple[Tensor, ...] = tuple(outputs)
        for tensor in self.outputs:
            tensor.producer = self
        self.has_options = True
        """Whether the file has the options table of this kind; without one the defaults apply."""
        self.rest: dict[str, Any] = {}
        """Other fields of the schema (customOptions, intermediates …), for `msd.graph.tflite` alone."""
        self._inputs: tuple[Tensor | None, ...] = ()
        self._operands: tuple[Tensor, ...] = ()
        self.inputs = tuple(inputs)

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The operands; None stands for an optional one that is omitted."""
        return self._inputs

    @inputs.setter
    def inputs(self, tensors: Iterable[Tensor | None]) -> None:
        for i, old in enumerate(self._inputs):
            if old is not None:
                del old.uses[self, i]
        self._inputs = tuple(tensors)
        self._operands = tuple(t for t in self._inputs if t is not None)
        for i, new in enumerate(self._inputs):
            if new is not None:
                new.uses[self, i] = None

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The inputs without the omitted ones."""
        return self._operands

    def __repr__(self) -> str:
        names = ", ".join("-" if t is None else _label(t) for t in self.inputs)
        defaults = opset.spec(self.kind).attrs
        changed = {k: v for k, v in self.attrs.items() if not _equal(v, defaults.get(k))}
        attrs = " {" + ", ".join(f"{k}={v}" for k, v in sorted(changed.items())) + "}" if changed else ""
        return f"{', '.join(map(repr, self.outputs))} = {self.kind}({names}){attrs}"


def _label(tensor: Tensor) -> str:
    if tensor.data is None or tensor.size > 8 or tensor.dtype not in NUMPY:
        return tensor.name
    return str(tensor.values().tolist())


def _equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


NEARBY = 64
"""How many operators before and after the last change are looked at before all others."""

SIGNATURE = "serving_default"
"""The key of the one signature that a written file has, as TensorFlow's converter calls it."""


@dataclass
class Signature:
    """A named way to call a graph: its inputs and outputs under the names that callers use."""

    key: str
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


class Graph:
    """Operators in execution order, with inputs and outputs. TFLite calls this a subgraph."""

    def __init__(
        self,
        inputs: Iterable[Tensor] = (),
        outputs: Iterable[Tensor] = (),
        ops: Iterable[Op] = (),
        name: str = "main",
    ) -> None:
        self.name = name
        self.inputs: list[Tensor] = list(inputs)
        self.outputs: list[Tensor] = list(outputs)
        self.ops: list[Op] = list(ops)
        self.signatures: list[Signature] = []
        self._last = 0
        self.rest: dict[str, Any] = {}
        """Other fields of the schema (debugMetadataIndex): only `msd.graph.tflite` looks into them."""

    def insert_before(self, anchor: Op, new_ops: Sequence[Op]) -> None:
        """Put `new_ops` in front of `anchor`."""
        at = self._place(anchor)
        self.ops[at:at] = new_ops

    def replace_tensor(self, old: Tensor, new: Tensor) -> None:
        """Make every use of `old` a use of `new`, outputs of the graph and of its signatures included."""
        for op, i in list(old.uses):
            op.inputs = (*op.inputs[:i], new, *op.inputs[i + 1 :])
        self.outputs = [new if t is old else t for t in self.outputs]
        for signature in self.signatures:
            signature.outputs = {k: new if t is old else t for k, t in signature.outputs.items()}

    def replace_input(self, old: Tensor, new: Tensor) -> None:
        """Make `new` an input of the graph in the place of `old`, which nothing uses any more."""
        self.inputs = [new if t is old else t for t in self.inputs]
        for signature in self.signatures:
            signature.inputs = {
                (new.name if t is old else k): (new if t is old else t) for k, t in signature.inputs.items()
            }

    def is_used(self, tensor: Tensor) -> bool:
        """Whether an operator reads `tensor` or the graph returns it."""
        return bool(tensor.uses) or tensor in self.outputs

    def is_needed(self, op: Op) -> bool:
        """Whether anything needs `op`."""
        return op.kind in opset.SIDE_EFFECTS or not op.outputs or any(map(self.is_used, op.outputs))

    def erase(self, ops: Iterable[Op]) -> list[Op]:
        """Remove those of `ops` that nothing needs, then what only they needed; return all removed."""
        removed: list[Op] = []
        todo = list(ops)
        while todo:
            op = todo.pop(0)
            if op in removed or self.is_needed(op):
                continue
            producers = [t.producer for t in op.operands if t.producer is not None]
            op.inputs = ()
            del self.ops[self._place(op)]
            removed.append(op)
            todo += producers
        return removed

    def _place(self, op: Op) -> int:
        """Return the index of `op`: changes come in the graph's order, so it is most often near the last."""
        try:
            self._last = self.ops.index(op, max(0, self._last - NEARBY), self._last + NEARBY)
        except ValueError:
            self._last = self.ops.index(op)
        return self._last

    def remove_dead(self) -> int:
        """Remove the operators that nothing needs; return their number."""
        keep: list[Op] = []
        for op in reversed(self.ops):
            if self.is_needed(op):
                keep.append(op)
            else:
                op.inputs = ()
        count = len(self.ops) - len(keep)
        self.ops = keep[::-1]
        return count

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor once: inputs, then in order of first appearance."""
        seen = dict.fromkeys(self.inputs)
        for op in self.ops:
            seen.update(dict.fromkeys((*op.operands, *op.outputs)))
        seen.update(dict.fromkeys(self.outputs))
        yield from seen

    def verify(self) -> None:
        """Raise InvalidGraph, naming the operator at fault, if the graph is not well formed."""
        ready, ops = set(self.inputs), set(self.ops)
        for n, op in enumerate(self.ops):
            try:
                _verify_op(op, ready)
            except InvalidGraph as problem:
                raise InvalidGraph(f"op {n} {op!r}: {problem}") from None
            ready.update(op.outputs)
        for tensor in self.tensors():
            if stray := next((op for op, _ in tensor.uses if op not in ops), None):
                raise InvalidGraph(f"{tensor.name} is used by {stray!r}, which is not in the graph")
        self._verify_interface(ready)

    def _verify_interface(self, ready: set[Tensor]) -> None:
        for tensor in self.outputs:
            if tensor not in ready and tensor.data is None:
                raise InvalidGraph(f"graph output {tensor.name} is never produced")
        for signature in self.signatures:
            for tensor in {*signature.inputs.values()} - {*self.inputs}:
                raise InvalidGraph(f"signature {signature.key} takes {tensor.name}, no input of the graph")
            for tensor in {*signature.outputs.values()} - {*self.outputs}:
                raise InvalidGraph(f"signature {signature.key} returns {tensor.name}, no output of the graph")

    def __str__(self) -> str:
        ins = ", ".join(map(repr, self.inputs))
        outs = ", ".join(t.name for t in self.outputs)
        return "\n".join([f"{self.name}({ins}) -> {outs}", *(f"  {op!r}" for op in self.ops)])


def _verify_op(op: Op, ready: set[Tensor]) -> None:
    for i, tensor in enumerate(op.inputs):
        _verify_use(op, i, tensor, ready)
    _verify_results(op, ready)
    _verify_shapes(op)


def _verify_use(op: Op, i: int, tensor: Tensor | None, ready: set[Tensor]) -> None:
    if tensor is None:
        return
    if (op, i) not in tensor.uses:
        raise InvalidGraph(f"input {i} does not list this op among its uses")
    if tensor.data is None and tensor not in ready and not tensor.is_variable:
        raise InvalidGraph(f"reads {tensor.name} before it is produced")


def _verify_results(op: Op, ready: set[Tensor]) -> None:
    for tensor in op.outputs:
        if tensor.producer is not op:
            raise InvalidGraph(f"{tensor.name} names another producer")
        if tensor in ready or tensor.data is not None:
            raise InvalidGraph(f"{tensor.name} has its value already")


def _verify_shapes(op: Op) -> None:
    infer = opset.spec(op.kind).infer
    if infer is None or any(t.shape_signature is not None for t in (*op.operands, *op.outputs)):
        return
    try:
        want = infer(op.operands, op.attrs)
    except NotConstant:
        return
    except (ValueError, IndexError, ZeroDivisionError) as problem:
        raise InvalidGraph(f"{problem}") from None
    if want != [t.shape for t in op.outputs]:
        raise InvalidGraph(f"result should be {want}")


@dataclass
class Model:
    """The graphs of a .tflite file, with its description and metadata."""

    graphs: list[Graph]
    description: str = ""
    metadata: dict[str, bytes] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    """Other fields of the schema (externalBuffers …): only `msd.graph.tflite` looks into them."""

    @property
    def main(self) -> Graph:
        """The first graph, where execution starts."""
        return self.graphs[0]
