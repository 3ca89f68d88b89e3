"""Reads a .tflite file as a `Model`; its constants stay in the memory-mapped file until they are loaded."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from msd.errors import BadModelFile
from msd.files.wording import counted
from msd.graph.ir import NUMPY, Graph, Model, Op, Quant, Signature, Tensor, opset
from msd.graph.ir.weights import Array, Weights
from msd.graph.tflite.packed import BITS, packed_bytes, unpack
from msd.graph.tflite.sparsity import read_sparsity
from msd.graph.tflite.unpack import defaults, unpack_model

IDENTIFIER = b"TFL3"
VERSION = 3
"""Of the schema: runtimes load no other."""

DAMAGE = (struct.error, IndexError, ValueError, TypeError, AttributeError, KeyError, OverflowError)
"""The exceptions that a damaged flatbuffer causes."""

BEYOND = "buffer is smaller than requested size"
"""NumPy's words for an array that reaches past the end of a file."""

CARRIED_MODEL_FIELDS = ("externalBufferGroups", "externalBuffers")
CARRIED_GRAPH_FIELDS = ("debugMetadataIndex",)
CARRIED_TENSOR_FIELDS = ("hasRank", "variantTensors", "externalBuffer")
CARRIED_OP_FIELDS = ("customOptions", "customOptionsFormat", "mutatingVariableInputs", "debugMetadataIndex")
CARRIED_QUANT_FIELDS = ("min", "max", "detailsType", "details")


def read(path: Path) -> Model:
    """Return the model in the file at `path`; raises BadModelFile unless it is a complete .tflite file."""
    return parse(map_file(path), str(path))


def map_file(path: Path) -> mmap.mmap:
    """Return a file as memory to read; raises BadModelFile for one that is empty or cannot be read."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise BadModelFile(f"{path} is empty; a .tflite file was expected") from None
    except OSError as problem:
        raise BadModelFile(f"{path} cannot be read ({problem.strerror})") from None


def parse(buffer: Any, name: str = "the model") -> Model:
    """Return the model in `buffer` (bytes or a memory map); error messages call it `name`.

    Raises BadModelFile unless it is a complete .tflite file.
    """
    if bytes(buffer[4:8]) != IDENTIFIER:
        raise BadModelFile(f"{name} is not a .tflite file: bytes 4 to 8 are not 'TFL3'")
    try:
        return _Reader(buffer).model()
    except DAMAGE as problem:
        raise BadModelFile(f"{name} cannot be read: {_reason(problem, len(buffer))}") from problem


def _reason(problem: Exception, size: int) -> str:
    """Return what is wrong with a file of `size` bytes whose reading led to `problem`, as a clause."""
    if isinstance(problem, struct.error) or BEYOND in str(problem):
        return (
            f"it ends after {counted(size, 'byte')}, before data that it refers to; it is cut off or damaged"
        )
    return str(problem) or type(problem).__name__


class _Reader:
    """Converts the schema's object API form of a file in one pass."""

    def __init__(self, buffer: Any) -> None:
        self.bytes = np.frombuffer(buffer, np.uint8)
        self.raw = unpack_model(buffer)
        self.weights: dict[tuple[int, tuple[int, ...], str], Weights] = {}
        self.contents: dict[int, bytes] = {}
        self.kinds = [_kind(code) for code in self.raw.operatorCodes or []]

    def model(self) -> Model:
        graphs, tensors = [], []
        for subgraph in self.raw.subgraphs or []:
            tensors.append([self._tensor(t) for t in _some(subgraph.tensors)])
            graphs.append(self._graph(subgraph, tensors[-1]))
        if not graphs:
            raise ValueError("it holds no subgraph")
        if self.raw.version != VERSION:
            raise ValueError(
                f"it is of version {self.raw.version} of the schema; runtimes load version {VERSION}"
            )
        signatures = self.raw.signatureDefs or []
        for signature in signatures:
            index = signature.subgraphIndex
            graphs[index].signatures.append(_signature(signature, tensors[index]))
        metadata = {_text(m.name): self._bytes(m.buffer) for m in self.raw.metadata or []}
        rest = _carried(self.raw, CARRIED_MODEL_FIELDS)
        if sorted(signatures, key=_subgraph_index) != signatures:
            rest["signatureOrder"] = [_text(s.signatureKey) for s in signatures]
        if len(_some(self.raw.metadataBuffer)):
            rest["metadataBuffer"] = [self._bytes(i) for i in self.raw.metadataBuffer]
        return Model(graphs, _text(self.raw.description), metadata, rest)

    def _data(self, index: int) -> Array | None:
        """Return the bytes of a buffer, None for the empty buffer of a tensor without a constant."""
        buffer = self.raw.buffers[_within(index, self.raw.buffers, "buffer")]
        if buffer.data is None and buffer.offset > 1:
            return self._outside(buffer.offset, buffer.size)
        return None if buffer.data is None else np.asarray(buffer.data, np.uint8)

    def _bytes(self, index: int) -> bytes:
        if index not in self.contents:
            data = self._data(index)
            self.contents[index] = b"" if data is None else data.tobytes()
        return self.contents[index]

    def _outside(self, offset: int, size: int) -> Array:
        """Return bytes of the file after the flatbuffer."""
        if offset + size > len(self.bytes):
            raise ValueError(f"bytes {offset} to {offset + size} lie past its end at {len(self.bytes)}")
        return self.bytes[offset : offset + size]

    def _tensor(self, raw: Any) -> Tensor:
        dtype = _enum_name(raw.type, schema.TensorType, "tensor type")
        tensor = Tensor(_text(raw.name), _ints(raw.shape), dtype, quant=_quant(raw.quantization))
        tensor.is_variable = bool(raw.isVariable)
        tensor.shape_signature = None if raw.shapeSignature is None else tuple(_ints(raw.shapeSignature))
        tensor.rest = _carried(raw, CARRIED_TENSOR_FIELDS)
        tensor.sparsity = read_sparsity(raw.sparsity)
        tensor.data = self._constant(raw.buffer, tensor)
        return tensor

    def _constant(self, index: int, tensor: Tensor) -> Weights | None:
        data = self._data(index) if index else None
        if data is None or (tensor.size and not data.size):
            return None
        key = (index, tensor.shape, tensor.dtype)
        if key not in self.weights:
            self.weights[key] = _weights(data, tensor)
        return self.weights[key]

    def _graph(self, raw: Any, tensors: list[Tensor]) -> Graph:
        ops = [self._op(o, tensors) for o in raw.operators or []]
        for tensor in tensors:
            _link_blockwise(tensor, tensors)
        graph = Graph(_pick(raw.inputs, tensors), _pick(raw.outputs, tensors), ops, _text(raw.name))
        graph.rest = _carried(raw, CARRIED_GRAPH_FIELDS)
        return graph

    def _op(self, raw: Any, tensors: list[Tensor]) -> Op:
        kind, version = self.kinds[raw.opcodeIndex]
        options, rest = _options(raw, opset.spec(kind).options)
        inputs = [None if i == -1 else tensors[_within(i, tensors)] for i in _ints(raw.inputs)]
        op = Op(kind, inputs, _pick(raw.outputs, tensors), options, version)
        op.has_options = options is not None
        op.rest = rest | _carried(raw, CARRIED_OP_FIELDS)
        if raw.largeCustomOptionsOffset > 1:
            op.rest["customOptions"] = self._outside(raw.largeCustomOptionsOffset, raw.largeCustomOptionsSize)
        if len(_some(raw.intermediates)):
            op.rest["intermediates"] = _pick(raw.intermediates, tensors)
        return op


def _kind(code: Any) -> tuple[str, int]:
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    kind = _enum_name(number, schema.BuiltinOperator, "builtin operator")
    return (opset.CUSTOM + _text(code.customCode) if kind == "CUSTOM" else kind), code.version


def _options(raw: Any, known: str | None) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return (attributes, carried fields) of an operator whose options table should be `known`.

    The attributes are None where the operator has no such table.
    """
    attrs: dict[str, Any] | None = None
    rest: dict[str, Any] = {}
    for field, enum in (
        ("builtinOptions", schema.BuiltinOptions),
        ("builtinOptions2", schema.BuiltinOptions2),
    ):
        number, options = getattr(raw, field + "Type"), getattr(raw, field)
        if number and options is None:
            raise ValueError(f"it uses operator options {number}, newer than the schema known here")
        if number and _enum_name(number, enum, field) == known:
            attrs = _attributes(options, known)
        elif number:
            rest |= {field + "Type": number, field: options}
    return attrs, rest


def _attributes(options: Any, name: str) -> dict[str, Any]:
    return {k: _attribute(k, getattr(options, field)) for k, field in opset.attribute_fields(name).items()}


def _attribute(name: str, value: Any) -> Any:
    enum = opset.ENUMS.get(name)
    if enum and isinstance(value, int | np.integer):
        return _enum_name(int(value), enum, name)
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value


def _enum_name(number: int, enum: type, what: str) -> str:
    names = opset.enum_names(enum)
    if number not in names:
        raise ValueError(f"it uses {what} {number}, newer than the schema known here")
    return names[number]


def _quant(raw: Any) -> Quant | None:
    if raw is None:
        return None
    if raw.detailsType and raw.details is None:
        raise ValueError(f"it uses quantization details {raw.detailsType}, newer than the schema known here")
    rest = _carried(raw, CARRIED_QUANT_FIELDS)
    scale = np.asarray(_some(raw.scale), np.float32)
    zero = np.asarray(_some(raw.zeroPoint), np.int64)
    if not (scale.size or zero.size or rest):
        return None
    return Quant(scale=scale, zero_point=zero, axis=raw.quantizedDimension, rest=rest)


def _link_blockwise(tensor: Tensor, tensors: list[Tensor]) -> None:
    """Replace the indices of blockwise scales and zero points by their tensors; 0 and -1 mean none."""
    details = tensor.quant.rest.get("details") if tensor.quant else None
    if tensor.quant and isinstance(details, schema.BlockwiseQuantizationT):
        linked = tensor.quant.rest["blockwise"] = {}
        for field in ("scales", "zeroPoints"):
            if (index := getattr(details, field)) > 0:
                linked[field] = tensors[_within(index, tensors)]
                setattr(details, field, 0)


def _subgraph_index(signature: Any) -> int:
    return int(signature.subgraphIndex)


def _signature(raw: Any, tensors: list[Tensor]) -> Signature:
    inputs = {_text(m.name): tensors[m.tensorIndex] for m in raw.inputs or []}
    outputs = {_text(m.name): tensors[m.tensorIndex] for m in raw.outputs or []}
    return Signature(_text(raw.signatureKey), inputs, outputs)


def _weights(data: Array, tensor: Tensor) -> Weights:
    """Return a constant's weights: int8 for a packed type, which is unpacked when it is loaded.

    They are its raw bytes where neither NumPy has the type nor it is packed, or the tensor is sparse.
    """
    history, shape, packed = f"{tensor.name} in the file", tensor.shape, tensor.dtype in BITS
    if not (packed or tensor.dtype in NUMPY) or tensor.sparsity is not None:
        return Weights(shape=data.shape, dtype=data.dtype, read=lambda: data, history=history)
    dtype = np.dtype(np.int8 if packed else NUMPY[tensor.dtype])
    expected = packed_bytes(tensor.size, tensor.dtype) if packed else tensor.size * dtype.itemsize
    if data.size != expected or min(shape, default=0) < 0:
        raise ValueError(
            f"constant {tensor.name} {shape} holds {counted(data.size, 'byte')} instead of {expected}"
        )
    if packed:
        return Weights(shape, dtype, lambda: unpack(data, tensor.dtype, shape), history)
    return Weights(shape=shape, dtype=dtype, read=lambda: data.view(dtype).reshape(shape), history=history)


def _pick(indices: Any, tensors: list[Tensor]) -> list[Tensor]:
    return [tensors[_within(i, tensors)] for i in _ints(indices)]


def _within(index: int, things: Sequence[Any], what: str = "tensor") -> int:
    if not 0 <= index < len(things):
        raise ValueError(f"{what} {index} does not exist; there are {len(things)}")
    return index


def _carried(raw: Any, fields: tuple[str, ...]) -> dict[str, Any]:
    """Return those of `fields` whose values differ from the schema's defaults."""
    values, absent = vars(raw), defaults(type(raw).__name__.removesuffix("T"))
    changed = [f for f in fields if values[f] is not absent[f]]  # few: most are not in the file
    return {f: values[f] for f in changed if not _same(values[f], absent[f])}


def _some(values: Any) -> Any:
    return [] if values is None else values


def _ints(values: Any) -> list[int]:
    return [int(v) for v in _some(values)]


def _text(raw: bytes | str | None) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw or ""


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b)
    return bool(a == b)
