"""Everything that a model holds, as plain values that compare equal when the models do.

`of_model` looks at the objects, `of_file` at the schema's own reading of a file: what either of reader and
writer loses shows there. Tensors and buffers are numbered as they are first met; their order in a file has no
meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from msd.graph.ir import Graph, Model, Op, Tensor

Plain = Any


class Numbers:
    """Hands out 0, 1, 2 … to things as they are first met."""

    def __init__(self) -> None:
        self.of: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        return self.of.setdefault(thing, len(self.of))


def plain(
    value: Any, special: Callable[[str, Any], Any] = lambda name, value: value, name: str = ""
) -> Plain:
    """Return lists, dicts and numbers; absent and empty are the same. `special` sees each field first."""
    value = special(name, value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {k: plain(v, special, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, special) for v in value] or None
    if type(value).__module__ == schema.__name__:
        return [type(value).__name__, plain(vars(value), special)]
    return value if value not in (b"", "") else None


def of_model(model: Model) -> Plain:
    """Return a portrait of a model: graphs, operators, tensors with their bytes, and all that is carried."""
    constants = Numbers()
    return {
        "graphs": [_of_graph(graph, constants) for graph in model.graphs],
        "description": model.description,
        "metadata": list(model.metadata.items()),
        "rest": plain(model.rest),
    }


def _of_graph(graph: Graph, constants: Numbers) -> Plain:
    numbers = Numbers()

    def special(name: str, value: Any) -> Any:
        return ["tensor", numbers(value)] if isinstance(value, Tensor) else value

    facts = {
        "name": graph.name,
        "inputs": plain(graph.inputs, special),
        "ops": [_of_op(op, special) for op in graph.ops],
        "outputs": plain(graph.outputs, special),
        "signatures": [
            [s.key, list(plain(s.inputs, special).items()), list(plain(s.outputs, special).items())]
            for s in graph.signatures
        ],
        "rest": plain(graph.rest, special),
    }
    tensors = []
    while len(tensors) < len(numbers.of):
        tensors.append(_of_tensor(list(numbers.of)[len(tensors)], special, constants))
    return facts | {"tensors": tensors}


def _of_op(op: Op, special: Callable[[str, Any], Any]) -> Plain:
    operands = [plain(op.inputs, special), plain(op.outputs, special)]
    return [op.kind, op.version, *operands, plain(op.attrs, special), op.has_options, plain(op.rest, special)]


def _of_tensor(tensor: Tensor, special: Callable[[str, Any], Any], constants: Numbers) -> Plain:
    data, quant = tensor.data, tensor.quant
    return {
        "name": tensor.name,
        "type": [tensor.dtype, *tensor.shape],
        "data": data and [constants(data), data.shape, data.dtype.str, data.load().tobytes()],
        "quant": quant
        and [quant.scale.tolist(), quant.zero_point.tolist(), quant.axis, plain(quant.rest, special)],
        "producer": tensor.producer is not None,
        "variable": tensor.is_variable,
        "signature": tensor.shape_signature,
        "rest": plain(tensor.rest, special),
    }


def of_file(content: bytes) -> Plain:
    """Return a portrait of a file by the schema's object API alone."""
    return _File(schema.ModelT.InitFromPackedBuf(content, 0)).portrait()


class _File:
    def __init__(self, raw: Any) -> None:
        self.raw, self.buffers = raw, Numbers()

    def portrait(self) -> Plain:
        raw = self.raw
        graphs = [self.graph(n, graph) for n, graph in enumerate(raw.subgraphs)]
        return {
            "version": raw.version,
            "description": plain(raw.description),
            "metadata": [[m.name, self.data(m.buffer)] for m in raw.metadata or []],
            "metadataBuffer": [self.data(i) for i in plain(raw.metadataBuffer) or []],
            "external": [plain(raw.externalBufferGroups), plain(raw.externalBuffers)],
            "graphs": graphs,
        }

    def data(self, index: int) -> bytes | None:
        buffer = self.raw.buffers[index]
        return None if buffer.data is None else bytes(buffer.data)

    def graph(self, number: int, raw: Any) -> Plain:
        numbers = Numbers()

        def special(name: str, value: Any) -> Any:
            if name in ("inputs", "outputs", "intermediates") and value is not None:
                return [numbers(int(i)) if i >= 0 else -1 for i in value]
            if name in ("scales", "zeroPoints"):
                return numbers(value) if value > 0 else value
            if name == "opcodeIndex":
                return self.raw.operatorCodes[value]
            return value

        facts = {
            "inputs": plain(raw.inputs, special, "inputs"),
            "operators": plain(raw.operators, special),
            "outputs": plain(raw.outputs, special, "outputs"),
            "rest": [plain(raw.name), raw.debugMetadataIndex],
            "signatures": [
                [
                    s.signatureKey,
                    *([[m.name, numbers(m.tensorIndex)] for m in side] for side in (s.inputs, s.outputs)),
                ]
                for s in self.raw.signatureDefs or []
                if s.subgraphIndex == number
            ],
        }
        tensors: list[Plain] = []
        while len(tensors) < len(numbers.of):
            tensors.append(self.tensor(raw.tensors[list(numbers.of)[len(tensors)]], special))
        return facts | {"tensors": tensors}

    def tensor(self, raw: Any, special: Callable[[str, Any], Any]) -> Plain:
        facts, data = vars(raw) | {"buffer": None}, self.data(raw.buffer) if raw.buffer else None
        if plain(raw.quantization) == plain(schema.QuantizationParametersT()):
            facts["quantization"] = None
        return plain(facts, special) | {"data": data and [self.buffers(raw.buffer), data]}
