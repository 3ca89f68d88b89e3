"""Following a unit through a graph: every tensor whose size changes with it.

The way ends at the layers that sum over the unit, at means over it, and nowhere else: a unit that reaches a
port of the graph, a concatenation or an operator without a relation cannot be taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msd.ir import Graph, Op, Tensor
from msd.pruning.layout import Layout, Unprunable, along
from msd.pruning.relations import RELATIONS, tensor_at

ARRANGE = ("TRANSPOSE", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "DEQUANTIZE", "CAST")
LAYERS = ("CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "DEPTHWISE_CONV_2D")


@dataclass(frozen=True)
class Seed:
    """Where a unit is entered: an axis of a tensor, seen as (tied, groups, count, block)."""

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
    def layout(self) -> Layout:
        """The unit in the tensor as it is now."""
        every = along(self.tensor.shape, self.axis)
        return Layout(every.pre * self.tied, self.groups, self.count, every.post * self.block)


@dataclass(frozen=True, eq=False)
class Closure:
    """All that has a unit: `runtime` tensors, `constants` by each use, and the operators in between."""

    runtime: dict[Tensor, Layout] = field(default_factory=dict)
    constants: dict[tuple[Op, int], Layout] = field(default_factory=dict)
    touched: dict[Op, dict[int, Layout]] = field(default_factory=dict)
    """The places, as in `msd.pruning.relations`, at which each operator has the unit."""

    @property
    def producers(self) -> list[Op]:
        """The layers whose learnt weights make the unit."""
        return [op for op in self.touched if self._is_layer(op) and -1 in self.touched[op]]

    @property
    def consumers(self) -> list[Op]:
        """The layers whose learnt weights sum over the unit."""
        return [op for op in self.touched if self._is_layer(op) and -1 not in self.touched[op]]

    @property
    def statistics(self) -> list[Op]:
        """The means over the unit: what they are changes with what remains."""
        return [op for op, at in self.touched.items() if op.kind == "MEAN" and -1 not in at]

    def _is_layer(self, op: Op) -> bool:
        return op.kind in LAYERS and 1 in self.touched[op] and constant_behind(tensor_at(op, 1)) is not None


def constant_behind(tensor: Tensor) -> Tensor | None:
    """Return the constant that `tensor` is, or is but for its arrangement; None where it is computed."""
    while tensor.producer is not None and tensor.producer.kind in ARRANGE:
        tensor = tensor_at(tensor.producer, 0)
    return tensor if tensor.data is not None else None


def follow(graph: Graph, seed: Seed) -> Closure:
    """Return all that has the unit of `seed`.

    Raises Unprunable where it cannot be taken out, and Refine where it could if it were seen another way.
    """
    found = Closure({seed.tensor: seed.layout})
    ports = {*graph.inputs, *graph.outputs}
    todo = [seed.tensor]
    while todo:
        tensor = todo.pop(0)
        _require_plain(tensor, ports)
        at = [(op, i) for op, i in tensor.uses]
        if tensor.producer:
            at.append((tensor.producer, ~tensor.producer.outputs.index(tensor)))
        for op, place in at:
            todo += _cross(found, op, place, found.runtime[tensor])
    for tensor, layout in found.runtime.items():
        layout.axis(tensor.shape)
    return found


def _cross(found: Closure, op: Op, place: int, layout: Layout) -> list[Tensor]:
    """Enter what `op` hands the unit on to; returns the tensors that are new."""
    if op.kind not in RELATIONS:
        raise Unprunable(f"it reaches {op.kind} ({op.outputs[0].name})")
    places = found.touched.setdefault(op, {})
    new = []
    for other, its in [(place, layout), *RELATIONS[op.kind](op, place, layout)]:
        if places.setdefault(other, its) != its:
            raise Unprunable(f"{op.kind} ({op.outputs[0].name}) would have to lose different units at once")
        tensor = tensor_at(op, other)
        if tensor.data is not None:
            _require_plain(tensor, ())
            found.constants[op, other] = its
        elif tensor not in found.runtime:
            found.runtime[tensor] = its
            new.append(tensor)
        elif found.runtime[tensor] != its:
            raise Unprunable(f"{tensor.name} would have to lose different units at once")
    return new


def _require_plain(tensor: Tensor, ports: set[Tensor] | tuple[()]) -> None:
    if tensor in ports:
        raise Unprunable(f"it reaches {tensor.name}, which the graph takes or returns")
    if tensor.quant is not None and tensor.quant.scale.size:
        raise Unprunable(f"it reaches {tensor.name}, which is quantised")
    if any(n < 0 for n in tensor.shape_signature or ()):
        raise Unprunable(f"it reaches {tensor.name}, whose shape is not fixed")
