"""Round a network's layers on a calibration, piece by piece in the order of execution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from msd.compress.calibration.activations import PIECE, by_tensor
from msd.compress.calibration.inputs import Runs
from msd.compress.calibration.store import Store, running
from msd.compress.encoding.recipe import Line
from msd.compress.pruning.layer import some_rows
from msd.compress.rounding.compensate import Rounded
from msd.compress.rounding.moments import SAMPLES, Moments, batches, has_bias, moment_bytes
from msd.files.scratch import scratch_folder
from msd.graph.ir import Graph, Op, Tensor
from msd.graph.ir.split import split_graph
from msd.graph.ir.weights import Array

PIECES = 8
"""The fewest pieces of a network: the layers of one see the rounding of those before."""

OnRounded = Callable[[Op, Rounded], None]


def walk(
    graph: Graph, layers: Mapping[Op, Line], runs: Runs, on_rounded: OnRounded, pieces: int = PIECES
) -> None:
    """Call `on_rounded` with each of `layers`, convolutions of `graph`, rounded to integers as its line says.

    `on_rounded` gives the layer its new weights, which the layers of later pieces see, as in GPTQ. A piece
    has at most about `PIECE` weights; temporary files hold what passes between pieces.
    """
    weights = sum(t.size for t in graph.tensors() if t.data is not None)
    parts = split_graph(graph, max(pieces, math.ceil(weights / PIECE)))
    with scratch_folder() as folder:
        store = Store(folder)
        for values in by_tensor(graph, runs):
            for tensor, value in values.items():
                store.add(tensor, value)
        for number, part in enumerate(parts, 1):
            mine = {op: moment_bytes(*_window(op)) for op in part.ops if op in layers}
            for batch in batches(mine):
                _round(part, {op: layers[op] for op in batch}, store, on_rounded)
            later = {t for rest in parts[number:] for t in rest.inputs}
            _advance(part, later, store)


def _window(op: Op) -> tuple[int, int]:
    """Return the positions of a convolution's filters, and their channels."""
    _, height, width, channels = op.operands[1].shape
    return height * width, channels


def _round(part: Graph, layers: Mapping[Op, Line], store: Store, on_rounded: OnRounded) -> None:
    moments = {op: Moments(*_window(op)) for op in layers}
    inputs = dict.fromkeys(op.operands[0] for op in layers)
    each = math.ceil(SAMPLES / store.runs)
    for run, values in enumerate(_values(part, list(inputs), store)):
        for op, sums in moments.items():
            sums.add(some_rows(op, values[op.operands[0]], each, run))
    for op, line in layers.items():
        weights = op.operands[1].weights.load()
        on_rounded(op, moments.pop(op).rounded(weights, line, takes_mean=has_bias(op)))


def _advance(part: Graph, later: set[Tensor], store: Store) -> None:
    """Run a piece with its rounded weights, and keep those results, and inputs, that later pieces read."""
    results = [t for op in part.ops for t in op.outputs if t in later]
    for values in _values(part, results, store) if results else ():
        for tensor in results:
            store.add(tensor, values[tensor])
    for tensor in part.inputs:
        if tensor not in later:
            store.drop(tensor)


def _values(part: Graph, tensors: Sequence[Tensor], store: Store) -> Iterator[dict[Tensor, Array]]:
    """Yield the values of `tensors`, inputs or results of a piece, for each run."""
    computed = [t for t in tensors if t not in part.inputs]
    needed = Graph(part.inputs, computed, part.ops, "piece")
    with running(needed, store.folder) as run:
        for number in range(store.runs):
            given = {t: store.load(number, t) for t in part.inputs}
            yield given | (run(given) if computed else {})
