"""The error of each block of a compressed network, on the inputs of the reference's block."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msd.compress.calibration.activations import watch
from msd.compress.calibration.store import Store, running
from msd.errors import BadModelFile
from msd.files.scratch import scratch_folder
from msd.graph import tflite
from msd.graph.ir import Graph, Tensor
from msd.graph.ir.weights import Array
from msd.graph.ledger import StoredWeights
from msd.graph.parity import ErrorSum
from msd.measure.blockwise.blocks import Block, blocks, swapped, weight_bytes
from msd.measure.blockwise.labels import Pair, is_learned
from msd.measure.blockwise.result import BlockError, ComponentErrors

OnProgress = Callable[[str, int, int], None]
"""Called with the activity, the amount done, and the total amount."""
OnStopped = Callable[[ComponentErrors], None]
"""Called with the blocks that were measured before something ended it."""


def measure(
    reference: Path,
    compressed: Path,
    inputs: Iterable[Mapping[str, Array]],
    final: bool = False,
    on_progress: OnProgress = lambda what, done, total: None,
    together: Collection[Pair] = (),
    weights: Sequence[StoredWeights] = (),
    on_stopped: OnStopped = lambda errors: None,
) -> ComponentErrors:
    """Return the error of each block of the file `compressed` of the network in the file `reference`.

    Each block of the compressed network gets the inputs of the reference's block during runs over `inputs`,
    so that errors do not propagate (block reconstruction, BRECQ, arXiv 2102.05426). Its SNR in dB is 10·log10
    of the reference's squares over those of the differences, both summed over all results, elements and
    inputs. With `final`, each block also replaces its counterpart in the reference network, and the error of
    the network's results is that block's share of the whole; the compressed network runs as well. Blocks
    `together` are one. `weights` are the manifest's. Raises BadModelFile for files that are not versions of
    one network, or inputs that do not fit. `on_stopped` gets the blocks measured before that, or before
    Ctrl-C: shares are then of those whose final error is known.
    """
    ours, theirs, every = _versions(reference, compressed, together)
    with scratch_folder() as folder:
        store = Store(folder)
        on_progress("running the reference", 0, 1)
        known = {t: None for b in every for t in (*b.values.values(), *b.reference.outputs)}
        known |= dict.fromkeys((*ours.inputs, *ours.outputs))
        watch(ours, inputs, list(known), store.add)
        if not store.runs:
            raise BadModelFile(f"{reference} was given no inputs")
        alone, swaps = list[ErrorSum](), list[ErrorSum]()
        try:
            for block in _reporting(every, "blocks alone", on_progress):
                alone.append(_alone(block, store, compressed))
            for block in _reporting(every if final else (), "one block compressed", on_progress):
                hybrid = swapped(ours, block, known)
                swaps.append(_final(hybrid, _stored(hybrid, known, store), ours, store, compressed))
            whole = _final(theirs, inputs, ours, store, compressed) if final else None
        except BaseException:
            if alone:
                on_stopped(ComponentErrors(store.runs, _rows(every[: len(alone)], alone, swaps, weights)))
            raise
    rows = _rows(every, alone, swaps, weights)
    return ComponentErrors(store.runs, rows, None if whole is None else _ratio(whole))


def unmeasured(reference: Path, compressed: Path, together: Collection[Pair] = ()) -> ComponentErrors:
    """Return the blocks that `measure` measures, with their bytes and no errors yet."""
    every = _versions(reference, compressed, together)[2]
    return ComponentErrors(0, _rows(every, [ErrorSum()] * len(every), (), ()))


def _versions(
    reference: Path, compressed: Path, together: Collection[Pair]
) -> tuple[Graph, Graph, list[Block]]:
    """Return the graphs of two versions of a network and their blocks; raises BadModelFile."""
    ours, theirs = tflite.read(reference).main, tflite.read(compressed).main
    try:
        return ours, theirs, blocks(ours, theirs, together)
    except ValueError as problem:
        raise BadModelFile(f"{compressed} is no version of {reference}: {problem}") from problem


def _reporting(every: Sequence[Block], what: str, on_progress: OnProgress) -> Iterator[Block]:
    """Yield the blocks, and tell before each, and behind the last, how many are done."""
    for number, block in enumerate(every):
        on_progress(what, number, len(every))
        yield block
    if every:
        on_progress(what, len(every), len(every))


def result_snr(reference: Path, compressed: Path, inputs: Iterable[Mapping[str, Array]]) -> float | None:
    """Return the SNR in dB of the results of a compressed network over `inputs`; None without error."""
    ours, theirs = tflite.read(reference).main, tflite.read(compressed).main
    with scratch_folder() as folder:
        store = Store(folder)
        watch(ours, inputs, ours.outputs, store.add)
        return _ratio(_final(theirs, inputs, ours, store, compressed))


def _alone(block: Block, store: Store, path: Path) -> ErrorSum:
    """Return the error of a block's results on the reference's inputs."""
    error = ErrorSum()
    with running(block.compressed, store.folder) as run:
        for number in range(store.runs):
            results = run({t: store.load(number, block.values[t]) for t in block.compressed.inputs})
            for ours, theirs in zip(block.reference.outputs, block.compressed.outputs, strict=True):
                _add(error, store.load(number, ours), results[theirs], f"{path}, {block.name},")
    return error


def _final(
    graph: Graph, inputs: Iterable[Mapping[str, Array]], reference: Graph, store: Store, path: Path
) -> ErrorSum:
    """Return the error of the results of `graph`, of which those of `reference` are stored."""
    error, seen = ErrorSum(), Counter[Tensor]()
    same = dict(zip(graph.outputs, reference.outputs, strict=True))

    def compare(tensor: Tensor, value: Array) -> None:
        _add(error, store.load(seen[tensor], same[tensor]), value, str(path))
        seen[tensor] += 1

    watch(graph, inputs, graph.outputs, compare)
    return error


def _stored(graph: Graph, known: Iterable[Tensor], store: Store) -> Iterator[dict[str, Array]]:
    """Yield for each run the inputs of a graph that are named as tensors of the reference."""
    ours = {t.name: t for t in known}
    for number in range(store.runs):
        yield {t.name: store.load(number, ours[t.name]) for t in graph.inputs}


def _add(error: ErrorSum, reference: Array, value: Array, where: str) -> None:
    try:
        error.add(reference, value)
    except ValueError as problem:
        raise BadModelFile(f"{where} cannot be compared with the reference: {problem}") from problem


def _rows(
    every: Sequence[Block],
    alone: Sequence[ErrorSum],
    swaps: Sequence[ErrorSum],
    weights: Sequence[StoredWeights],
) -> tuple[BlockError, ...]:
    ours, theirs = (weight_bytes([getattr(b, side) for b in every]) for side in ("reference", "compressed"))
    rows = tuple(
        BlockError(
            name=block.name,
            operations=len(block.compressed.ops),
            reference_bytes=before,
            bytes=after,
            snr_db=_ratio(error),
            max_error=error.largest,
            stored=_stored_as(block.compressed, weights),
        )
        for block, before, after, error in zip(every, ours, theirs, alone, strict=True)
    )
    return _with_finals(rows, swaps) if swaps else rows


def _stored_as(graph: Graph, weights: Sequence[StoredWeights]) -> tuple[str, ...]:
    """Return the kinds of a block's large weights; the first of `weights` is that of all without a name."""
    kinds = {name: str(kind) for kind in weights for name in kind.names}
    rest = str(weights[0]) if weights else ""
    found = (t.name.removesuffix(f"/{t.dtype.lower()}") for t in graph.tensors() if is_learned(t))
    return tuple(sorted({kinds.get(name, rest) for name in found} - {""}))


def _with_finals(rows: Sequence[BlockError], swaps: Sequence[ErrorSum]) -> tuple[BlockError, ...]:
    """Return the rows with each block's share of the error of the network's result, as far as known."""
    total = sum(error.noise for error in swaps)
    known = (
        replace(row, final_snr_db=_ratio(error), final_share=error.noise / total if total else 0.0)
        for row, error in zip(rows[: len(swaps)], swaps, strict=True)
    )
    return (*known, *rows[len(swaps) :])


def _ratio(error: ErrorSum) -> float | None:
    """Return the SNR in dB, rounded; None where there is no error."""
    return None if math.isinf(error.snr) and error.snr > 0 else round(error.snr, 3)
