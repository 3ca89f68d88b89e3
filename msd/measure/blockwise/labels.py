"""Assign each operator to a block of its network, by the names of weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from msd.compress.encoding.encode import SMALLEST
from msd.graph.ir import Graph, Op, Tensor
from msd.graph.ir.split import split_graph
from msd.graph.ir.weights import SMALL

CONTAINER = re.compile(
    r".*\b(?:(?:down_|up_|transformer_)?blocks|resnets|attentions|downsamplers|upsamplers|layers)\.\d+(?=\.|$)"
)
"""The names of lists of blocks in diffusers and transformers, with a number: the innermost is the block."""

NO_BLOCK = frozenset({"decoder", "encoder", "text_model", "vision_model", "model"})
"""Parts of such paths that hold all blocks of a network."""

MASKED = -1000.0
"""Scores as low as this have no weight after softmax."""

EVEN = 8
"""The number of pieces of a graph without names of blocks."""

JOINT = " + "
"""Between the names of blocks that were joined."""

Labels = dict[Op, str]
Pair = tuple[str, str]


def label(graph: Graph) -> Labels:
    """Return the name of the block of each operator, except those that depend on no learned weight.

    Names come from weights; an operator without weights belongs to the block that reads its result, if there
    is only one, else to the block that computed its operands; a sum of two results belongs to the block of
    the later one. A graph whose weights have no such names is cut behind its residual additions, or evenly.
    """
    labels = _by_names(graph)
    if len(set(labels.values())) < 2:
        return _by_residuals(graph) or _evenly(graph)
    touched = _touched(graph)
    ops = [op for op in graph.ops if touched.intersection(op.outputs)]
    for op in set(labels) - set(ops):
        del labels[op]
    for op in ops:
        if op not in labels and _is_sum(op):
            _follow(op, _latest_labelled(op, labels, graph), labels)
    for op in reversed(ops):
        if op not in labels:
            users = {labels.get(user) for t in op.outputs for user, _ in t.uses}
            _follow(op, users.pop() if len(users) == 1 else None, labels)
    for op in ops:
        if op not in labels:
            _follow(op, _latest_labelled(op, labels, graph), labels)
    return labels


def joined(labels: Labels, pairs: Iterable[Pair]) -> Labels:
    """Return `labels` in which the blocks of each pair are one, called by all their names, in order."""
    groups = {name: [name] for name in dict.fromkeys(labels.values())}
    order = {name: i for i, name in enumerate(groups)}
    for one, other in pairs:
        if groups[one] is not groups[other]:
            both = sorted(groups[one] + groups[other], key=order.__getitem__)
            groups |= dict.fromkeys(both, both)
    return {op: JOINT.join(groups[name]) for op, name in labels.items()}


def joined_blocks(block: str) -> list[str]:
    """Return the names of the blocks joined in this one, or its own."""
    return block.split(JOINT)


def learned_weights(op: Op) -> Iterator[Tensor]:
    """Yield the large weights of an operator that come from a checkpoint, as far as their names show it."""
    yield from filter(is_learned, _constants(op))


def is_learned(tensor: Tensor) -> bool:
    """Whether the tensor is a large constant that no rewrite created, and no mask or selection."""
    is_matrix = sum(n > 1 for n in tensor.shape) > 1
    is_large = tensor.data is not None and tensor.size >= SMALLEST and is_matrix
    return is_large and "~" not in tensor.name and not _selects(tensor)


def _selects(tensor: Tensor) -> bool:
    """Whether a constant only lets places through: a mask that causal attention adds, or zeros and ones.

    A mask holds zeros and one number that softmax makes zero. SDXL's second text encoder finds the first of
    its end tokens by a triangle of ones.
    """
    if tensor.dtype != "FLOAT32" or tensor.size > SMALL:
        return False
    values = {*np.unique(tensor.weights.load()).tolist()}
    return values == {0.0, 1.0} or (min(values) <= MASKED and values <= {0.0, min(values)})


def block_of(path: str) -> str:
    """Return the block in a module's path: "mid_block.resnets.0" of "mid_block.resnets.0.conv1"."""
    match = CONTAINER.match(path)
    if match:
        return match[0]
    parent, _, _ = path.rpartition(".")
    return path if not parent or parent in NO_BLOCK else parent


def _by_names(graph: Graph) -> Labels:
    """Return the labels from weights' names, then from other names that repeat them."""
    paths = {op: path for op in graph.ops for path in _paths(learned_weights(op))}
    skip = _common([path.split("/") for path in paths.values()])
    labels = {op: block_of(path.split("/")[skip]) for op, path in paths.items()}
    known = set(labels.values())
    for op in graph.ops:
        if op not in labels:
            names = (t.name for t in (*op.outputs, *(t for t in op.operands if t.data is not None)))
            _follow(op, next((b for name in names for b in _mentioned(name) if b in known), None), labels)
    return labels


def _paths(weights: Iterable[Tensor]) -> Iterator[str]:
    """Yield the modules' paths: names up to their last slash."""
    for tensor in weights:
        path = tensor.name.partition("[")[0].removesuffix("/bias").removesuffix("/kernel")
        if "/" in tensor.name:
            yield path if path != tensor.name.partition("[")[0] else path.rpartition("/")[0]


def _common(paths: Sequence[list[str]]) -> int:
    """Return how many leading parts all paths have in common, and still have one more."""
    depth = 0
    while paths and all(len(p) > depth + 1 for p in paths) and len({p[depth] for p in paths}) == 1:
        depth += 1
    return depth


def _mentioned(name: str) -> Iterator[str]:
    """Yield blocks that a tensor's name may speak of; tracing numbers a module's calls."""
    for part in name.split("/"):
        plain = part.partition("~")[0]
        yield block_of(plain)
        yield block_of(re.sub(r"_\d+$", "", plain))


def _touched(graph: Graph) -> set[Tensor]:
    """Return the results that depend on both a learned weight and an input of the graph."""
    fed, touched = set(graph.inputs), set[Tensor]()
    for op in graph.ops:
        if fed.intersection(op.operands):
            fed.update(op.outputs)
            if touched.intersection(op.operands) or any(learned_weights(op)):
                touched.update(op.outputs)
    return touched


def _constants(op: Op) -> Iterator[Tensor]:
    """Yield the constants that an operator reads, also through operators that read nothing else."""
    for tensor in op.operands:
        if tensor.data is not None:
            yield tensor
        elif tensor.producer is not None and all(t.data is not None for t in tensor.producer.operands):
            yield from tensor.producer.operands


def _is_sum(op: Op) -> bool:
    a, b = (*op.operands, None, None)[:2]
    return op.kind == "ADD" and bool(a and b and a.data is None and b.data is None and a.shape == b.shape)


def _latest_labelled(op: Op, labels: Labels, graph: Graph) -> str | None:
    """Return the block of the latest operator that `op` depends on and that has a block."""
    place = {each: i for i, each in enumerate(graph.ops)}
    seen, waiting = {op}, [op]
    labelled: list[Op] = []
    while waiting:
        for tensor in waiting.pop().operands:
            maker = tensor.producer
            if maker is not None and maker not in seen:
                seen.add(maker)
                (labelled if maker in labels else waiting).append(maker)
    return labels[max(labelled, key=place.__getitem__)] if labelled else None


def _follow(op: Op, block: str | None, labels: Labels) -> None:
    if block is not None:
        labels[op] = block


def _by_residuals(graph: Graph) -> Labels:
    """Return blocks that end with additions of two results, if there are two or more; else nothing."""
    labels, number = Labels(), 1
    for op in graph.ops:
        labels[op] = f"block {number}"
        number += _is_sum(op)
    return labels if number > 2 else {}


def _evenly(graph: Graph) -> Labels:
    return {op: f"block {i}" for i, piece in enumerate(split_graph(graph, EVEN), 1) for op in piece.ops}
