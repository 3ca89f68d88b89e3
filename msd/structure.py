"""What a .tflite file says of itself: its operations in order, its inputs and its outputs."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from msd.errors import BadModelFile

DAMAGE = (struct.error, IndexError, ValueError, TypeError, AttributeError, KeyError, OverflowError)
"""What reading a damaged flatbuffer raises."""

DTYPES = {
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "INT64": "int64",
    "INT32": "int32",
    "INT16": "int16",
    "INT8": "int8",
    "UINT8": "uint8",
    "BOOL": "bool",
}


@dataclass(frozen=True)
class Port:
    """An input or an output: its name in the signature (else the tensor's), its shape and NumPy dtype.

    `rows` is the length of the table that an integer input looks up, where there is one.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    rows: int | None = None


@dataclass(frozen=True)
class Structure:
    """The operations of a file in order, by their schema names (`CUSTOM FlexErf` for custom ones), and its
    ports.

    Operations inside the decomposition of a composite do not count: a delegate is asked about the composite.
    `subgraphs` is how many graphs hold them. `signature` is the key of the first signature, whose ports these
    are.
    """

    operations: tuple[str, ...]
    subgraphs: int
    signature: str | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def read(path: Path) -> Structure:
    """Return what the file at `path` holds; raises BadModelFile when it is not a whole .tflite file."""
    try:
        return _Reader(unpack(path)).structure()
    except (*DAMAGE, UnicodeDecodeError) as problem:
        raise BadModelFile(f"{path} is a damaged .tflite file: {_words(problem)}.") from problem


def unpack(path: Path) -> Any:
    """Return the schema's `ModelT` of the file at `path`, its weights memory-mapped; raises BadModelFile."""
    from ai_edge_litert import schema_py_generated as schema

    try:
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise BadModelFile(f"{path} is empty; a .tflite file was expected.") from None
    except OSError as problem:
        raise BadModelFile(f"{path} cannot be read: {problem.strerror}.") from None
    if view[4:8] != b"TFL3":
        raise BadModelFile(f"{path} is not a .tflite file: bytes 4 to 8 are not 'TFL3'.")
    try:
        return schema.ModelT.InitFromObj(schema.Model.GetRootAs(view, 0))
    except DAMAGE as problem:
        raise BadModelFile(f"{path} is a damaged .tflite file: {_words(problem)}.") from problem


def kind(code: Any) -> str:
    """Return the schema's name of an operator code; custom ones as `CUSTOM <name>`."""
    name = _names("BuiltinOperator").get(_builtin(code), "UNKNOWN")
    return f"{name} {_text(code.customCode)}" if name == "CUSTOM" else name


def _builtin(code: Any) -> int:
    """Return the operator's number; old files have the one-byte field alone, in new ones the larger is it."""
    return int(max(code.builtinCode, code.deprecatedBuiltinCode))


@cache
def _names(enum: str) -> dict[int, str]:
    from ai_edge_litert import schema_py_generated as schema

    return {number: name for name, number in vars(getattr(schema, enum)).items() if isinstance(number, int)}


class _Reader:
    """Reads one unpacked model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.kinds = [kind(code) for code in _some(model.operatorCodes)]
        self.main = _main(model)

    def structure(self) -> Structure:
        graphs = [g for i, g in enumerate(self.model.subgraphs) if i not in self._decompositions()]
        return Structure(
            tuple(self.kinds[op.opcodeIndex] for graph in graphs for op in _some(graph.operators)),
            sum(bool(len(_some(graph.operators))) for graph in graphs),
            _text(self.model.signatureDefs[0].signatureKey) if self.model.signatureDefs else None,
            tuple(self._port(name, index) for name, index in self._named("inputs")),
            tuple(self._port(name, index) for name, index in self._named("outputs")),
        )

    def _decompositions(self) -> set[int]:
        options = (op.builtinOptions2 for graph in self.model.subgraphs for op in _some(graph.operators))
        return {o.decompositionSubgraphIndex for o in options if hasattr(o, "decompositionSubgraphIndex")}

    def _named(self, side: str) -> Iterator[tuple[str, int]]:
        if self.model.signatureDefs:
            for entry in _some(getattr(self.model.signatureDefs[0], side)):
                yield _text(entry.name), entry.tensorIndex
        else:
            for index in _some(getattr(self.main, side)):
                yield _text(self.main.tensors[index].name), int(index)

    def _port(self, name: str, index: int) -> Port:
        tensor = self.main.tensors[index]
        stored = _names("TensorType").get(tensor.type, "?")
        dtype = DTYPES.get(stored)
        if dtype is None:
            raise ValueError(f"{name} is of type {stored}")
        shape = tuple(int(n) for n in _some(tensor.shape))
        return Port(name, shape, dtype, self._rows(index) if dtype.startswith("int") else None)

    def _rows(self, index: int) -> int | None:
        """Return the length of the shortest table that tensor `index`, or what is made of it, looks up."""
        seen, found = {index}, []
        for op in _some(self.main.operators):
            inputs = [int(i) for i in _some(op.inputs)]
            kind = self.kinds[op.opcodeIndex]
            if kind == "GATHER" and inputs[1] in seen:
                found.append(int(self.main.tensors[inputs[0]].shape[op.builtinOptions.axis]))
            elif kind == "EMBEDDING_LOOKUP" and inputs[0] in seen:
                found.append(int(self.main.tensors[inputs[1]].shape[0]))
            elif seen.intersection(inputs):
                seen.update(int(i) for i in _some(op.outputs))
        return min(found, default=None)


def _main(model: Any) -> Any:
    if not model.subgraphs:
        raise ValueError("it holds no graph")
    return model.subgraphs[model.signatureDefs[0].subgraphIndex if model.signatureDefs else 0]


def _some(values: Any) -> Any:
    return [] if values is None else values


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def _words(problem: Exception) -> str:
    return str(problem).rstrip(".") or type(problem).__name__
