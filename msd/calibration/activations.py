"""The values inside a graph while it runs, for graphs of any size: piece by piece, through files."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np

from msd.calibration.store import Store, Written, opened, write
from msd.ir import Graph, Model, Op, Tensor
from msd.ir.interface import Interface
from msd.ir.split import split_graph
from msd.ir.weights import Array
from msd.runners.interpreter import check

PIECE = 64 << 20
"""The most weights of a piece; as float32 they take four bytes each."""

OnValue = Callable[[Tensor, Array], None]


def watch(
    graph: Graph,
    inputs: Iterable[Mapping[str, Array]],
    tensors: Sequence[Tensor],
    on_value: OnValue,
    piece: int = PIECE,
) -> None:
    """Run `graph` on the CPU over all `inputs`, and tell the value of each of `tensors` on each of them.

    `inputs` are named as the graph's first signature does, or as its tensors where it has none; they are gone
    through once. Every tensor's values come in the order of inputs; tensors in about the order in which they
    are made. Weights stored in fewer bits count as what they mean, in float arithmetic. The graph stays as it
    is. In memory are one piece of it, of about `piece` weights, and one run's values in that piece; the next
    piece, and what goes from piece to piece, are kept in temporary files. Raises ValueError for a tensor that
    the graph does not make, or variables; BadModelFile for inputs that do not fit.
    """
    needed = _needed(graph, tensors)
    weights = sum(t.size for t in needed.tensors() if t.data is not None)
    pieces = split_graph(needed, max(1, math.ceil(weights / piece)))
    with tempfile.TemporaryDirectory(prefix="msd-activations-") as folder:
        store = Store(Path(folder))
        for each in _fed(graph, inputs):
            for tensor, value in each.items():
                store.add(tensor, value)
        for tensor in dict.fromkeys(t for t in tensors if t in graph.inputs):
            for run in range(store.runs):
                on_value(tensor, store.load(run, tensor))
        with closing(_written(pieces, set(tensors), store.folder)) as parts:
            for part, later in parts:
                _run(part, later, set(tensors), store, on_value)


def _written(
    pieces: Sequence[Graph], watched: set[Tensor], folder: Path
) -> Generator[tuple[Written, set[Tensor]], None, None]:
    """Yield each piece with what later ones take of it; meanwhile another core writes the next."""
    parts = []
    for number, piece in enumerate(pieces, 1):
        later = {t for rest in pieces[number:] for t in rest.inputs}
        given = [t for op in piece.ops for t in op.outputs if t in later or t in watched]
        parts.append((Graph(piece.inputs, given, piece.ops, f"piece{number}"), later))
    with ThreadPoolExecutor(1) as ahead:
        coming = [ahead.submit(write, part, folder) for part, _ in parts[:1]]
        for number, (_, later) in enumerate(parts, 1):
            written = coming.pop().result()
            coming += [ahead.submit(write, part, folder) for part, _ in parts[number : number + 1]]
            yield written, later


def _fed(graph: Graph, inputs: Iterable[Mapping[str, Array]]) -> Iterator[dict[Tensor, Array]]:
    """Yield each run's inputs by tensor; raises BadModelFile unless they fit."""
    ports = Interface.of(Model([graph]), Path(graph.name)).inputs
    named = graph.signatures[0].inputs if graph.signatures else {t.name: t for t in graph.inputs}
    for each in inputs:
        check(each, ports, Path(graph.name))
        yield {tensor: np.asarray(each[name]) for name, tensor in named.items()}


def _needed(graph: Graph, tensors: Sequence[Tensor]) -> Graph:
    """Return what makes `tensors`, each operation on constants alone just before it is needed.

    As traced, such operations stand in front of all others, and all constants would go through all pieces.
    """
    inside, wanted = set(graph.ops), list(dict.fromkeys(tensors))
    for tensor in wanted:
        if tensor not in graph.inputs and tensor.producer not in inside:
            raise ValueError(f"the graph does not make {tensor.name}, which cannot be watched")
    needed = {t.producer for t in wanted}
    for op in reversed(graph.ops):
        if op in needed:
            needed.update(t.producer for t in op.operands)
    fed, ordered = set(graph.inputs), dict[Op, None]()
    for op in (op for op in graph.ops if op in needed):
        if fed.intersection(op.operands):
            fed.update(op.outputs)
            _place(op, ordered)
    made = [t for t in wanted if t.producer is not None]
    for tensor in made:
        _place(tensor.maker, ordered)
    return Graph(graph.inputs, made, ordered, graph.name)


def _place(op: Op, ordered: dict[Op, None]) -> None:
    """Put `op` last in order, behind what it needs."""
    for tensor in op.operands:
        if tensor.producer is not None and tensor.producer not in ordered:
            _place(tensor.producer, ordered)
    ordered[op] = None


def _run(part: Written, later: set[Tensor], watched: set[Tensor], store: Store, on_value: OnValue) -> None:
    """Run a piece over all inputs; drops what no `later` piece takes."""
    inputs = part.graph.inputs
    with opened(part) as run:
        for number in range(store.runs):
            for tensor, value in run({t: store.load(number, t) for t in inputs}).items():
                if tensor in watched:
                    on_value(tensor, value)
                if tensor in later:
                    store.add(tensor, value)
    for tensor in inputs:
        if tensor not in later:
            store.drop(tensor)
