"""Refit the layers that read pruned units, on a calibration run of the unpruned component."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from msd.compress.pruning.channels import Closure, follow
from msd.compress.pruning.layer import matrix, replace_weights
from msd.compress.pruning.least_squares import Spool
from msd.compress.pruning.observations import Observed, RefitBlock, gather
from msd.compress.pruning.relations import tensor_at
from msd.compress.pruning.removal import Cut
from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.ir.downstream import downstream
from msd.graph.ir.weights import Array, Weights

Errors = tuple[float, float | None]
"""A block's error relative to its output, before refitting and after."""


def refit_blocks(graph: Graph, cuts: Sequence[Cut]) -> list[RefitBlock]:
    """Return the block of each cut, in a graph that is not pruned yet.

    Its inputs are the results of the layers that produce the unit, and all else that the block mixes with
    them.
    """
    closures = [follow(graph, cut.seed) for cut in cuts]
    blocks = []
    for closure in closures:
        (op,) = closure.consumers
        sources, target = _sources(graph, closure), op.outputs[0]
        cuts_of = {
            t.name: [
                (c.runtime[t], cut.kept) for c, cut in zip(closures, cuts, strict=True) if t in c.runtime
            ]
            for t in (*sources, target)
        }
        blocks.append(RefitBlock(op, tuple(t.name for t in sources), target.name, cuts_of))
    return blocks


def _sources(graph: Graph, closure: Closure) -> list[Tensor]:
    """Return the block's inputs that do not depend on the unit, and the first results that contain it."""
    produced = {op.outputs[0] for op in closure.producers}
    inside, fed = downstream(graph, produced), downstream(graph, set(graph.inputs))
    sources: dict[Tensor, None] = {}
    todo, seen = [tensor_at(closure.consumers[0], 0)], set[Tensor]()
    while todo:
        tensor = todo.pop()
        if tensor in seen or tensor.data is not None:
            continue
        seen.add(tensor)
        if tensor in produced or (tensor in fed and tensor not in inside):
            sources[tensor] = None
        elif tensor.producer is not None:
            todo += tensor.producer.operands
    return list(sources)


def refit(calibration: Observed, component: str, blocks: Sequence[RefitBlock], wanted: bool) -> list[Errors]:
    """Return each block's errors, and refit the layer that reads the unit if `wanted`.

    The graph is pruned already. Refitted weights go to files in the calibration's folder.
    """
    for number, block in enumerate(blocks):
        path = calibration.folder / f"{component}.{number}.samples"
        block.spool = Spool(path, len(calibration.runs[component]))
    gather(calibration, component, blocks)
    paths = [calibration.folder / f"{component}.{number}.npy" for number in range(len(blocks))]
    return [_refit(block, path, wanted) for block, path in zip(blocks, paths, strict=True)]


def _refit(block: RefitBlock, path: Path, wanted: bool) -> Errors:
    assert block.spool is not None
    samples = block.spool.samples()
    block.spool.path.unlink()
    described = matrix(block.op)
    weights = np.concatenate([described.load(), _own_bias(block.op)], axis=1)
    before = samples.error_of(weights)
    if not wanted:
        return before, None
    bias = _bias(block.op)
    change, after = samples.refit(weights, bias is not None)
    np.save(path, weights[:, :-1] + change[:, :-1])
    history = f"{described.history} | refitted"
    spooled = Weights(described.shape, np.dtype(np.float32), lambda: np.load(path), history)
    replace_weights(block.op, spooled, described.sources)
    if bias is not None:
        _add(*bias, change[:, -1])
    return before, after


def _own_bias(op: Op) -> Array:
    """Return the layer's own bias, (outputs, 1)."""
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        return tensor_at(op, 2).values().reshape(-1, 1)
    return np.zeros((op.outputs[0].shape[-1], 1), np.float32)


def _bias(op: Op) -> tuple[Op, int] | None:
    """Return the use of the layer's learned bias: in the layer, or in an addition to its result."""
    outputs = op.outputs[0].shape[-1]
    places = [(op, 2)] if len(op.inputs) > 2 and op.inputs[2] is not None else []
    readers = list(op.outputs[0].uses)
    if len(readers) == 1 and readers[0][0].kind == "ADD":
        places.append((readers[0][0], 1 - readers[0][1]))
    for user, place in places:
        tensor = tensor_at(user, place)
        if tensor.data is not None and not tensor.data.exact and tensor.size == outputs == tensor.shape[-1]:
            return user, place
    return None


def _add(op: Op, place: int, amount: Array) -> None:
    old = tensor_at(op, place)
    data = old.weights.map("refitted", lambda a: a + amount.reshape(a.shape).astype(a.dtype))
    op.inputs = (*op.inputs[:place], Build().const(data, old.name), *op.inputs[place + 1 :])
