"""A calibration run over a component: the inputs and results of the layers that sum over units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np

from msd.compress.calibration.activations import watch
from msd.compress.calibration.inputs import Runs
from msd.compress.pruning.channels import Seed, follow
from msd.compress.pruning.criteria import Scores, activation, reconstruction
from msd.compress.pruning.layer import matrix, rows
from msd.compress.pruning.layout import UnitLayout
from msd.compress.pruning.least_squares import EXACT, Spool
from msd.compress.pruning.relations import tensor_at
from msd.files.scratch import scratch_folder
from msd.graph import tflite
from msd.graph.ir import SIGNATURE, Graph, Model, Op, Signature, Tensor
from msd.graph.ir.weights import Array
from msd.run.runners.interpreter import Interpreter

GRAMS = 1 << 30
"""The bytes of Gram matrices in memory at once; one may be larger: then it is alone."""


@dataclass(frozen=True)
class Observed:
    """The unpruned networks and their calibration: the graph of each component, and its runs' inputs by name.

    Refitted weights go to `folder`, which stays until they are written. `simplify` makes a graph faster in
    place and keeps its inputs and outputs.
    """

    graph: Callable[[str], Graph]
    runs: Mapping[str, Runs]
    folder: Path
    simplify: Callable[[Graph], object] = lambda graph: None

    def watch(self, component: str, names: Sequence[str], on_value: Callable[[str, Array], None]) -> None:
        """Call `on_value` with the name and value of each tensor in `names`, run after run."""
        graph = self.graph(component)
        given = {t.name: t for t in graph.inputs}
        every = {t.name: t for op in graph.ops for t in op.outputs}
        computed = [name for name in dict.fromkeys(names) if name not in given]
        graph.outputs, graph.signatures[0].outputs = [every[name] for name in computed], {}
        graph.remove_dead()
        self.simplify(graph)
        name_of = dict(zip(graph.outputs, computed, strict=True)) | {given[n]: n for n in names if n in given}
        watch(
            graph,
            self.runs[component],
            list(name_of),
            lambda tensor, value: on_value(name_of[tensor], value),
        )


@dataclass(frozen=True)
class LayerInput:
    """The input of the layer that sums over a unit; `layout` is the unit's in this input."""

    op: Op
    layout: UnitLayout
    stream: str
    """The name of the tensor in which the layer's output has been added to the residual stream."""

    @staticmethod
    def of(graph: Graph, seed: Seed) -> LayerInput:
        """Return where the unit at `seed` ends."""
        closure = follow(graph, seed)
        (op,) = closure.consumers
        x = tensor_at(op, 0)
        layout, windows = closure.runtime[x], prod(tensor_at(op, 1).shape[1:3]) if op.kind == "CONV_2D" else 1
        inside = layout.pre // prod(x.shape[:-1])
        return LayerInput(op, replace(layout, pre=inside * windows), stream(op).name)

    @property
    def x(self) -> str:
        """The name of the layer's input."""
        return tensor_at(self.op, 0).name


def stream(op: Op) -> Tensor:
    """Return the sum of a layer's output and the residual stream, or else the output with its bias."""
    tensor = op.outputs[0]
    while len(tensor.uses) == 1:
        ((reader, place),) = tensor.uses
        if reader.kind not in ("ADD", "RESHAPE"):
            break
        tensor = reader.outputs[0]
        if reader.kind == "ADD" and tensor_at(reader, 1 - place).data is None:
            break
    return tensor


def scores(
    calibration: Observed, component: str, graph: Graph, seeds: Sequence[Seed], criterion: str
) -> list[Scores]:
    """Return the scores of the unit at each of `seeds`, by "activation" or "reconstruction".

    Costs are relative to the energy of the stream that the block adds to. As many Gram matrices as fit
    `GRAMS` are gathered in one run over the component.
    """
    entries = [LayerInput.of(graph, seed) for seed in seeds]
    results: list[Scores] = []
    for batch in _batches(entries, criterion):
        results += _score(calibration, component, batch, criterion)
    return results


def _batches(entries: Sequence[LayerInput], criterion: str) -> list[list[LayerInput]]:
    batches: list[list[LayerInput]] = [[]]
    used = 0
    for entry in entries:
        size = gram_bytes(prod(entry.layout.shape)) if criterion == "reconstruction" else 0
        if batches[-1] and used + size > GRAMS:
            batches.append([])
            used = 0
        batches[-1].append(entry)
        used += size
    return batches


def gram_bytes(inputs: int) -> int:
    """Return the bytes of the Gram matrix of this many inputs."""
    return inputs * inputs * (8 if inputs <= EXACT else 4)


@dataclass
class _Sums:
    """The running sums of one layer: the Gram matrix of its inputs, or only its diagonal."""

    inputs: Array
    stream: float = 0.0


def _score(
    calibration: Observed, component: str, entries: Sequence[LayerInput], criterion: str
) -> list[Scores]:
    whole = criterion == "reconstruction"
    sums = [_Sums(_zeros(prod(e.layout.shape), whole)) for e in entries]

    def on_value(name: str, value: Array) -> None:
        for entry, total in zip(entries, sums, strict=True):
            if name == entry.x:
                z = rows(entry.op, value).astype(total.inputs.dtype, copy=False)
                total.inputs += z.T @ z if whole else np.square(z).sum(axis=0)
            if name == entry.stream:
                total.stream += float(np.square(value, dtype=np.float64).sum())

    calibration.watch(component, [n for e in entries for n in (e.x, e.stream)], on_value)
    price = reconstruction if whole else activation
    results = []
    for entry, total in zip(entries, sums, strict=True):
        results.append(price(matrix(entry.op).load(), total.inputs, entry.layout, total.stream))
        total.inputs = np.zeros(0)
    return results


def _zeros(inputs: int, whole: bool) -> Array:
    if not whole:
        return np.zeros(inputs)
    return np.zeros((inputs, inputs), np.float64 if inputs <= EXACT else np.float32)


@dataclass
class RefitBlock:
    """The block of a unit, for refitting: the tensors to watch in the unpruned graph, and the layer to refit.

    `sources` and `target` are names of tensors; `cuts` are the indices that each of them keeps in the pruned
    graph.
    """

    op: Op
    sources: tuple[str, ...]
    target: str
    cuts: dict[str, list[tuple[UnitLayout, Array]]]
    spool: Spool | None = None
    waiting: dict[str, list[Array]] = field(default_factory=dict)


def gather(calibration: Observed, component: str, blocks: Sequence[RefitBlock]) -> None:
    """Spool the inputs of each block's layer in the pruned graph, and its outputs in the unpruned one."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        networks = [_network(stack, folder / f"{i}.tflite", block) for i, block in enumerate(blocks)]

        def on_value(name: str, value: Array) -> None:
            for block, network in zip(blocks, networks, strict=True):
                if name in block.cuts:
                    block.waiting.setdefault(name, []).append(sliced(value, block.cuts[name]))
                    _advance(block, network)

        names = [name for block in blocks for name in (*block.sources, block.target)]
        calibration.watch(component, names, on_value)


def _advance(block: RefitBlock, network: Interpreter) -> None:
    """Spool a run once all of its values are there."""
    names = (*block.sources, block.target)
    if not all(block.waiting.get(name) for name in names):
        return
    values = {name: block.waiting[name].pop(0) for name in names}
    y = values.pop(block.target)
    (z,) = network.run({str(i): values[name] for i, name in enumerate(block.sources)}).values()
    assert block.spool is not None
    block.spool.add(rows(block.op, z), y.reshape(-1, y.shape[-1]))


def sliced(value: Array, cuts: Sequence[tuple[UnitLayout, Array]]) -> Array:
    """Return an unpruned value without the indices that the cuts remove."""
    for layout, kept in cuts:
        axis = layout.axis(value.shape)
        shape = (
            *value.shape[:axis],
            value.shape[axis] // layout.count * kept.shape[1],
            *value.shape[axis + 1 :],
        )
        value = value.reshape(layout.shape)[:, np.arange(len(kept))[:, None], kept].reshape(shape)
    return value


def _network(stack: ExitStack, path: Path, block: RefitBlock) -> Interpreter:
    """Return the pruned graph between the sources and the layer's input, ready to run."""
    end = tensor_at(block.op, 0)
    needed: dict[Op, None] = {}
    _need(end, set(block.sources), needed)
    inputs = {t.name: t for op in needed for t in op.operands if t.name in block.sources}
    if end.name in block.sources:
        inputs[end.name] = end
    part = Graph([inputs[name] for name in block.sources], [end], list(needed))
    part.signatures = [
        Signature(SIGNATURE, {str(i): inputs[n] for i, n in enumerate(block.sources)}, {"z": end})
    ]
    tflite.write(Model([part]), path)
    return stack.enter_context(Interpreter(path))


def _need(tensor: Tensor, sources: set[str], needed: dict[Op, None]) -> None:
    op = tensor.producer
    if tensor.name in sources or op is None or op in needed:
        return
    for operand in op.operands:
        _need(operand, sources, needed)
    needed[op] = None
