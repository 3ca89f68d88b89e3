"""Observe the values of a graph's tensors while it runs, in pieces and through files, at any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np

from msd.compress.calibration.store import GraphFile, Store, open_graph, write
from msd.files.scratch import scratch_folder
from msd.graph.ir import Graph, Model, Op, Tensor
from msd.graph.ir.interface import Interface
from msd.graph.ir.split import split_graph
from msd.graph.ir.weights import Array
from msd.run.runners.checks import check

PIECE = 64 << 20
"""The most weights of a piece; each occupies four bytes as float32."""

OnValue = Callable[[Tensor, Array], None]


def watch(
    graph: Graph,
    inputs: Iterable[Mapping[str, Array]],
    tensors: Sequence[Tensor],
    on_value: OnValue,
    piece: int = PIECE,
) -> None:
    """Run `graph` on the CPU over all `inputs`, and call `on_value` with each of `tensors` and its value.

    `inputs` have the names of the graph's first signature, or of its tensors where it has none, and are
    iterated once. A tensor's values come in the order of inputs, tensors roughly in that of their operations.
    Quantised weights are dequantised, and all arithmetic is float. The graph is not changed. Only one piece
    of about `piece` weights is in memory, with one run's values in it; the next piece and the values that
    pass between pieces are in temporary files. Raises ValueError for variables, and for a tensor that the
    graph does not compute; BadModelFile for inputs that do not fit.
    """
    needed = _needed(graph, tensors)
    weights = sum(t.size for t in needed.tensors() if t.data is not None)
    pieces = split_graph(needed, max(1, math.ceil(weights / piece)))
    with scratch_folder() as folder:
        store = Store(folder)
        for run_inputs in by_tensor(graph, inputs):
            for tensor, value in run_inputs.items():
                store.add(tensor, value)
        for tensor in dict.fromkeys(t for t in tensors if t in graph.inputs):
            for run in range(store.runs):
                on_value(tensor, store.load(run, tensor))
        with closing(_write_ahead(pieces, set(tensors), store.folder)) as parts:
            for part, later in parts:
                _run(part, later, set(tensors), store, on_value)


def _write_ahead(
    pieces: Sequence[Graph], watched: set[Tensor], folder: Path
) -> Generator[tuple[GraphFile, set[Tensor]], None, None]:
    """Yield each piece with the tensors that later ones read, while a thread writes the next piece."""
    parts = []
    for number, piece in enumerate(pieces, 1):
        later = {t for rest in pieces[number:] for t in rest.inputs}
        outputs = [t for op in piece.ops for t in op.outputs if t in later or t in watched]
        parts.append((Graph(piece.inputs, outputs, piece.ops, f"piece{number}"), later))
    with ThreadPoolExecutor(1) as pool:
        futures = [pool.submit(write, part, folder) for part, _ in parts[:1]]
        for number, (_, later) in enumerate(parts, 1):
            file = futures.pop().result()
            futures += [pool.submit(write, part, folder) for part, _ in parts[number : number + 1]]
            yield file, later


def by_tensor(graph: Graph, inputs: Iterable[Mapping[str, Array]]) -> Iterator[dict[Tensor, Array]]:
    """Yield each run's inputs by tensor; raises BadModelFile unless they fit."""
    ports = Interface.of(Model([graph]), Path(graph.name)).inputs
    tensors = graph.signatures[0].inputs if graph.signatures else {t.name: t for t in graph.inputs}
    for run_inputs in inputs:
        check(run_inputs, ports, Path(graph.name))
        yield {tensor: np.asarray(run_inputs[name]) for name, tensor in tensors.items()}


def _needed(graph: Graph, tensors: Sequence[Tensor]) -> Graph:
    """Return a graph of the operations that compute `tensors`, those on constants alone as late as possible.

    Tracing puts such operations before all others, and then all constants would pass through all pieces.
    """
    inside, targets = set(graph.ops), list(dict.fromkeys(tensors))
    for tensor in targets:
        if tensor not in graph.inputs and tensor.producer not in inside:
            raise ValueError(f"the graph does not compute {tensor.name}, so it cannot be watched")
    needed = {t.producer for t in targets}
    for op in reversed(graph.ops):
        if op in needed:
            needed.update(t.producer for t in op.operands)
    varying, ordered = set(graph.inputs), dict[Op, None]()
    for op in (op for op in graph.ops if op in needed):
        if varying.intersection(op.operands):
            varying.update(op.outputs)
            _place(op, ordered)
    computed = [t for t in targets if t.producer is not None]
    for tensor in computed:
        _place(tensor.maker, ordered)
    return Graph(graph.inputs, computed, ordered, graph.name)


def _place(op: Op, ordered: dict[Op, None]) -> None:
    """Append `op` to the order, after the operations that it depends on."""
    for tensor in op.operands:
        if tensor.producer is not None and tensor.producer not in ordered:
            _place(tensor.producer, ordered)
    ordered[op] = None


def _run(part: GraphFile, later: set[Tensor], watched: set[Tensor], store: Store, on_value: OnValue) -> None:
    """Run a piece over all inputs; drop the values that no `later` piece reads."""
    inputs = part.graph.inputs
    with open_graph(part) as run:
        for number in range(store.runs):
            for tensor, value in run({t: store.load(number, t) for t in inputs}).items():
                if tensor in watched:
                    on_value(tensor, value)
                if tensor in later:
                    store.add(tensor, value)
    for tensor in inputs:
        if tensor not in later:
            store.drop(tensor)
