"""Graphs of one network for several image sizes in one file, which stores their common weights once."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from msd.graph import tflite
from msd.graph.ir import Graph, Model, Tensor
from msd.graph.ir.weights import Weights


@dataclass(frozen=True)
class SharedFile:
    """The bytes of a file for several `sizes`: of the first alone, of all together, and of separate files."""

    file: str
    sizes: tuple[str, ...]
    first: int
    together: int
    separate: int

    @property
    def added(self) -> int:
        """The bytes that the sizes after the first add."""
        return self.together - self.first


def together(file: str, models: Mapping[str, Model]) -> tuple[Model, SharedFile]:
    """Return a model with the graph of each of `models`, in order, and the bytes of its file.

    Graphs and signatures get the keys of `models`, which have one graph and one signature each and are used
    up. Weights that are equal become one: each large one is read once for each size to compare them.
    """
    graphs = {key: model.main for key, model in models.items()}
    separate = [tflite.file_bytes(model) for model in models.values()]
    for key, graph in graphs.items():
        graph.name = key
        graph.signatures = [replace(graph.signatures[0], key=key)]
    _share([*graphs.values()])
    first = next(iter(models.values()))
    merged = Model([*graphs.values()], first.description, first.metadata, first.rest)
    return merged, SharedFile(
        file=file,
        sizes=tuple(graphs),
        first=separate[0],
        together=tflite.file_bytes(merged),
        separate=sum(separate),
    )


def alone(model: Model, key: str, original: str, name: str = "main") -> Model:
    """Return the model of the signature `key` alone, renamed to `original`, its graph to `name`.

    It is what `together` was given, to the byte of its file. Raises StopIteration for an unknown key.
    """
    graph = next(graph for graph in model.graphs if any(s.key == key for s in graph.signatures))
    graph.name, graph.signatures = name, [replace(graph.signatures[0], key=original)]
    return Model([graph], model.description, model.metadata, model.rest)


def _share(graphs: Sequence[Graph]) -> None:
    """Give constants of later graphs the weights of the first graph that have equal values.

    Weights that one graph holds twice stay apart, as in a file of their own.
    """
    first, *others = graphs
    known: dict[Hashable, dict[Weights, None]] = {}
    for tensor in _constants(first):
        known.setdefault(_description(tensor), {})[tensor.weights] = None
    digests: dict[Weights, bytes] = {}
    for graph in others:
        found: dict[Weights, Weights] = {}
        for tensor in _constants(graph):
            if tensor.weights not in found:
                free = [w for w in known.get(_description(tensor), ()) if w not in found.values()]
                equal = (w for w in free if _is_same(w, tensor.weights, digests))
                found[tensor.weights] = next(equal, tensor.weights)
            tensor.data = found[tensor.weights]


def _constants(graph: Graph) -> Iterable[Tensor]:
    return (tensor for tensor in graph.tensors() if tensor.data is not None)


def _description(tensor: Tensor) -> Hashable:
    """Return what equal weights have in common before they are read."""
    weights = tensor.weights
    return weights.sources, weights.shape, weights.dtype.str, tensor.dtype


def _is_same(a: Weights, b: Weights, digests: dict[Weights, bytes]) -> bool:
    """Whether values are equal: the same tensors of a checkpoint may have been transformed in other ways."""
    if a is b:
        return True
    for weights in {a, b} - digests.keys():
        digests[weights] = hashlib.sha256(_bytes(weights)).digest()
    return digests[a] == digests[b]


def _bytes(weights: Weights) -> memoryview:
    flat: Any = np.ascontiguousarray(weights.load()).reshape(-1).view(np.uint8)
    return memoryview(flat)
