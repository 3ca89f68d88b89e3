"""Follow a unit through a graph and find every tensor whose size changes with it.

The search ends at the layers that sum over the unit and at means over it, and nowhere else: a unit that
reaches an input or output of the graph, a concatenation or an operator without a relation cannot be removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msd.compress.pruning.layout import UnitLayout, Unprunable, along
from msd.compress.pruning.relations import RELATIONS, tensor_at
from msd.graph.ir import Graph, Op, Tensor

ARRANGE = ("TRANSPOSE", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "DEQUANTIZE", "CAST")
LAYERS = ("CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "DEPTHWISE_CONV_2D")


@dataclass(frozen=True)
class Seed:
    """The start of a search: an axis of a tensor, viewed as (tied, groups, count, block)."""

    tensor: Tensor
    axis: int
    tied: int = 1
    groups: int = 1
    block: int = 1

    @property
    def count(self) -> int:
        """How many units each group has."""
        return self.tensor.shape[self.axis] // (self.tied * self.groups * self.block)

    @property
    def layout(self) -> UnitLayout:
        """The unit in the tensor as it is now."""
        every = along(self.tensor.shape, self.axis)
        return UnitLayout(every.pre * self.tied, self.groups, self.count, every.post * self.block)


@dataclass(frozen=True, eq=False)
class Closure:
    """Everything that contains a unit: `runtime` tensors, `constants` by use, and operators in between."""

    runtime: dict[Tensor, UnitLayout] = field(default_factory=dict)
    constants: dict[tuple[Op, int], UnitLayout] = field(default_factory=dict)
    touched: dict[Op, dict[int, UnitLayout]] = field(default_factory=dict)
    """The operands and results in which each operator has the unit, as msd/compress/pruning/relations.py."""

    @property
    def producers(self) -> list[Op]:
        """The layers whose learned weights produce the unit."""
        return [op for op in self.touched if self._is_layer(op) and -1 in self.touched[op]]

    @property
    def consumers(self) -> list[Op]:
        """The layers whose learned weights sum over the unit."""
        return [op for op in self.touched if self._is_layer(op) and -1 not in self.touched[op]]

    @property
    def statistics(self) -> list[Op]:
        """The means over the unit: their values change with the indices that remain."""
        return [op for op, at in self.touched.items() if op.kind == "MEAN" and -1 not in at]

    def _is_layer(self, op: Op) -> bool:
        return op.kind in LAYERS and 1 in self.touched[op] and constant_behind(tensor_at(op, 1)) is not None


def constant_behind(tensor: Tensor) -> Tensor | None:
    """Return the constant behind `tensor`, which may be transposed or reshaped; None where it is computed."""
    while tensor.producer is not None and tensor.producer.kind in ARRANGE:
        tensor = tensor_at(tensor.producer, 0)
    return tensor if tensor.data is not None else None


def follow(graph: Graph, seed: Seed) -> Closure:
    """Return everything that contains the unit of `seed`.

    Raises Unprunable where it cannot be removed, and Refine where another view of it could be.
    """
    closure = Closure({seed.tensor: seed.layout})
    ports = {*graph.inputs, *graph.outputs}
    todo = [seed.tensor]
    while todo:
        tensor = todo.pop(0)
        _require_plain(tensor, ports)
        at = [(op, i) for op, i in tensor.uses]
        if tensor.producer:
            at.append((tensor.producer, ~tensor.producer.outputs.index(tensor)))
        for op, place in at:
            todo += _cross(closure, op, place, closure.runtime[tensor])
    for tensor, layout in closure.runtime.items():
        layout.axis(tensor.shape)
    return closure


def _cross(closure: Closure, op: Op, place: int, layout: UnitLayout) -> list[Tensor]:
    """Add the tensors to which `op` passes the unit; returns those that are new."""
    if op.kind not in RELATIONS:
        raise Unprunable(f"it reaches {op.kind} ({op.outputs[0].name})")
    places = closure.touched.setdefault(op, {})
    new = []
    for other, its in [(place, layout), *RELATIONS[op.kind](op, place, layout)]:
        if places.setdefault(other, its) != its:
            raise Unprunable(f"{op.kind} ({op.outputs[0].name}) would have to lose different units at once")
        tensor = tensor_at(op, other)
        if tensor.data is not None:
            _require_plain(tensor, ())
            closure.constants[op, other] = its
        elif tensor not in closure.runtime:
            closure.runtime[tensor] = its
            new.append(tensor)
        elif closure.runtime[tensor] != its:
            raise Unprunable(f"{tensor.name} would have to lose different units at once")
    return new


def _require_plain(tensor: Tensor, ports: set[Tensor] | tuple[()]) -> None:
    if tensor in ports:
        raise Unprunable(f"it reaches {tensor.name}, which the graph takes or returns")
    if tensor.quant is not None and tensor.quant.scale.size:
        raise Unprunable(f"it reaches {tensor.name}, which is quantised")
    if any(n < 0 for n in tensor.shape_signature or ()):
        raise Unprunable(f"it reaches {tensor.name}, whose shape is not fixed")
