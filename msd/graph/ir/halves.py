"""A model as two that run one after the other, for delegates that cannot hold the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from msd.graph.ir import Build, Graph, Model, Op, Signature, Tensor
from msd.graph.ir.split import tensor_bytes

STATE = "state_{}"
"""The names of what the first half hands over."""

WINDOW = 0.05
"""How far the first half's share of the weights may be from a half, to hand over fewer tensors."""


def split_halves(model: Model, rows: int, moving: Collection[str]) -> tuple[Model, Model] | None:
    """Return (first, second) half, which compute in sequence the same as `model`, to the bit.

    `moving` are the names of the inputs along which it is cut. What depends on none of them, as embeddings
    of the timestep and projections of the prompt, is computed in each half that reads it. Of the places where
    the bytes of weights are about halved, the one with the fewest tensors across is taken: outputs of the
    first half and inputs of the second, float32, `state_0`, `state_1`, …, which begin with the batch of
    `rows`. Inputs and outputs keep their names in the signature. None where no place is like that. The halves
    reuse the tensors of `model`, which must not be used afterwards.
    """
    graph = model.main
    signature = graph.signatures[0]
    path = _dependent(graph, [signature.inputs[name] for name in moving if name in signature.inputs])
    ops = [op for op in graph.ops if op in path]
    place = _place(ops, rows)
    if place is None:
        return None
    states = {STATE.format(i): tensor for i, tensor in enumerate(_across(ops, place))}
    first, second = _part(graph, ops[:place], ()), _part(graph, ops[place:], states.values())
    return (
        replace(model, graphs=[_half(graph, first, {}, _handed_over(first, states))]),
        replace(model, graphs=[_half(graph, second, states, signature.outputs)]),
    )


def _dependent(graph: Graph, inputs: Collection[Tensor]) -> set[Op]:
    """Return the operators that depend on any of the inputs."""
    tensors, found = {*inputs}, set[Op]()
    for op in graph.ops:
        if any(t in tensors for t in op.operands):
            found.add(op)
            tensors.update(op.outputs)
    return found


def _place(ops: Sequence[Op], rows: int) -> int | None:
    """Return how many of the operators are in the first half; None where no cut is possible."""
    shares = [*_shares(ops)]
    reach = max(WINDOW, min((abs(share - 0.5) for share in shares), default=0.0))
    possible = [
        (len(across), abs(share - 0.5), place)
        for place, share in enumerate(shares, 1)
        if abs(share - 0.5) <= reach
        and (across := _across(ops, place))
        and all(t.dtype == "FLOAT32" and t.shape[:1] == (rows,) and len(t.shape) <= 4 for t in across)
    ]
    return min(possible)[2] if possible else None


def _shares(ops: Sequence[Op]) -> Iterator[float]:
    """Yield the share of the weights that operators up to each one read, and what these depend on."""
    seen, own, sizes = set[Tensor](), {*ops}, list[int]()
    for op in ops:
        constants = list[Tensor]()
        waiting = [*op.operands]
        while waiting:
            tensor = waiting.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            if tensor.data is not None:
                constants.append(tensor)
            elif tensor.producer and tensor.producer not in own:
                waiting += tensor.producer.operands
        sizes.append(sum(map(tensor_bytes, constants)))
    whole, total = max(sum(sizes), 1), 0
    for size in sizes:
        total += size
        yield total / whole


def _across(ops: Sequence[Op], place: int) -> list[Tensor]:
    """Return what the operators before `place` compute and later ones read, in order."""
    later = {*ops[place:]}
    computed = (tensor for op in ops[:place] for tensor in op.outputs)
    return [tensor for tensor in computed if any(reader in later for reader, _ in tensor.uses)]


def _part(graph: Graph, ops: Sequence[Op], given: Collection[Tensor]) -> list[Op]:
    """Return operators with all that they depend on, but for what computes the tensors that are `given`."""
    needed, known = {*ops}, {*given}
    for op in reversed(graph.ops):
        if op in needed:
            needed.update(t.producer for t in op.operands if t.producer and t not in known)
    return [op for op in graph.ops if op in needed]


def _handed_over(ops: list[Op], states: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the first half's outputs by name; one that it reads too gets an operator of its own, in `ops`.

    Delegates have returned something else for an output that is also read (configs/faults: LiteRT issue 8599,
    TensorFlow issues 57211 and 59311).
    """
    own, read = Build("state"), {t for op in ops for t in op.operands}
    outputs = {name: own.ADD(t, 0.0) if t in read else t for name, t in states.items()}
    ops += own.ops
    return outputs


def _half(
    graph: Graph, ops: Sequence[Op], states: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> Graph:
    """Return operators as a graph whose inputs are those of the whole that it reads, and `states`."""
    read, whole = {t for op in ops for t in op.operands}, graph.signatures[0]
    inputs = {name: t for name, t in {**whole.inputs, **states}.items() if t in read}
    half = Graph(inputs.values(), outputs.values(), ops, graph.name)
    half.signatures = [Signature(whole.key, inputs, dict(outputs))]
    return half
