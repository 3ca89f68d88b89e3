"""Run parts of graphs on values stored in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msd.graph import tflite
from msd.graph.ir import SIGNATURE, Graph, Model, Signature, Tensor
from msd.graph.ir.weights import Array
from msd.run.runners.interpreter import Interpreter

Run = Callable[[Mapping[Tensor, Array]], dict[Tensor, Array]]


class Store:
    """Values of tensors by run, one file each in `folder`; runs are counted from 0."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0
        self._numbers: dict[Tensor, int] = {}
        self._added: dict[Tensor, int] = {}

    def add(self, tensor: Tensor, value: Array) -> None:
        """Store a tensor's value in its next run."""
        run = self._added.get(tensor, 0)
        self._added[tensor] = run + 1
        self.runs = max(self.runs, run + 1)
        np.save(self._path(run, tensor), value, allow_pickle=False)

    def load(self, run: int, tensor: Tensor) -> Array:
        """Return a stored value."""
        value: Array = np.load(self._path(run, tensor), allow_pickle=False)
        return value

    def drop(self, tensor: Tensor) -> None:
        """Delete a tensor's values."""
        for run in range(self._added.pop(tensor, 0)):
            self._path(run, tensor).unlink()

    def _path(self, run: int, tensor: Tensor) -> Path:
        return self.folder / f"{self._numbers.setdefault(tensor, len(self._numbers))}.{run}.npy"


@contextmanager
def running(graph: Graph, folder: Path) -> Iterator[Run]:
    """Open a graph on the CPU in float arithmetic and yield a function from inputs to outputs.

    The graph is written to a temporary file in `folder` and is not changed. Raises BadModelFile.
    """
    with open_graph(write(graph, folder)) as run:
        yield run


@dataclass(frozen=True)
class GraphFile:
    """A graph in a file; its inputs and outputs are named by their numbers, inputs first."""

    graph: Graph
    file: Path


def write(graph: Graph, folder: Path) -> GraphFile:
    """Write a graph, which is not changed, to a file of its name in `folder`."""
    part = Graph(graph.inputs, graph.outputs, graph.ops, graph.name)
    tensors = [
        {name: t for t, name in _names(graph).items() if t in side} for side in (part.inputs, part.outputs)
    ]
    part.signatures = [Signature(SIGNATURE, *tensors)]
    file = folder / f"{graph.name}.tflite"
    tflite.write(Model([part]), file, lasting=False)
    return GraphFile(graph, file)


@contextmanager
def open_graph(part: GraphFile) -> Iterator[Run]:
    """Open a graph's file and yield a function from inputs to outputs; the file is removed at the end."""
    graph, names = part.graph, _names(part.graph)

    def run(inputs: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
        results = network.run({names[t]: inputs[t] for t in graph.inputs})
        return {t: results[names[t]] for t in graph.outputs}

    try:
        with Interpreter(part.file, threads=os.cpu_count(), float_weights=True) as network:
            yield run
    finally:
        part.file.unlink()


def _names(graph: Graph) -> dict[Tensor, str]:
    return {tensor: str(i) for i, tensor in enumerate((*graph.inputs, *graph.outputs))}
