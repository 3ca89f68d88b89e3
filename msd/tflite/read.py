"""A .tflite file as a `Model`: constants stay in the file, memory-mapped, until they are wanted."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from msd import opset
from msd.errors import BadModelFile
from msd.ir import NUMPY, Graph, Model, Op, Quant, Signature, Tensor
from msd.weights import Weights

IDENTIFIER = b"TFL3"
CARRIED_TENSOR_FIELDS = (
    "isVariable",
    "shapeSignature",
    "sparsity",
    "hasRank",
    "variantTensors",
    "externalBuffer",
)
CARRIED_OP_FIELDS = (
    "customOptions",
    "customOptionsFormat",
    "mutatingVariableInputs",
    "largeCustomOptionsOffset",
    "largeCustomOptionsSize",
    "debugMetadataIndex",
)


def read(path: Path) -> Model:
    """Return the model in the file at `path`; raises BadModelFile when it is not a whole .tflite file."""
    try:
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise BadModelFile(f"{path} is empty; a .tflite file was expected") from None
    except OSError as problem:
        raise BadModelFile(f"{path} cannot be read ({problem.strerror})") from None
    return parse(view, str(path))


def parse(buffer: Any, name: str = "the model") -> Model:
    """Return the model in `buffer` (bytes or a memory map), called `name` in errors."""
    if bytes(buffer[4:8]) != IDENTIFIER:
        raise BadModelFile(f"{name} is not a .tflite file: bytes 4 to 8 are not 'TFL3'")
    try:
        return _Reader(buffer).model()
    except (
        struct.error,
        IndexError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        UnicodeDecodeError,
    ) as problem:
        raise BadModelFile(f"{name} is damaged: {problem or type(problem).__name__}") from problem


class _Reader:
    """One pass over the schema's object form of a file."""

    def __init__(self, buffer: Any) -> None:
        self.bytes = np.frombuffer(buffer, np.uint8)
        self.raw = schema.ModelT.InitFromObj(schema.Model.GetRootAs(buffer, 0))
        self.weights: dict[tuple[int, tuple[int, ...], str], Weights] = {}
        self.kinds = [_kind(code) for code in self.raw.operatorCodes or []]

    def model(self) -> Model:
        graphs, tensors = [], []
        for subgraph in self.raw.subgraphs or []:
            made = [self._tensor(t) for t in _some(subgraph.tensors)]
            tensors.append(made)
            graphs.append(self._graph(subgraph, made))
        if not graphs:
            raise ValueError("it holds no subgraph")
        for signature in self.raw.signatureDefs or []:
            index = signature.subgraphIndex
            graphs[index].signatures.append(_signature(signature, tensors[index]))
        metadata = {_text(m.name): self._data(m.buffer).tobytes() for m in self.raw.metadata or []}
        return Model(graphs, _text(self.raw.description), metadata)

    def _data(self, index: int) -> np.ndarray[Any, Any]:
        buffer = self.raw.buffers[index]
        if buffer.offset > 1:
            if buffer.offset + buffer.size > len(self.bytes):
                raise ValueError(f"buffer {index} reaches past the end of the file")
            return self.bytes[buffer.offset : buffer.offset + buffer.size]
        return np.zeros(0, np.uint8) if buffer.data is None else np.asarray(buffer.data, np.uint8)

    def _tensor(self, raw: Any) -> Tensor:
        dtype = opset.enum_names(schema.TensorType)[raw.type]
        tensor = Tensor(_text(raw.name), _ints(raw.shape), dtype, quant=self._quant(raw.quantization))
        tensor.data = self._constant(raw.buffer, tensor)
        fresh = schema.TensorT()
        for field in CARRIED_TENSOR_FIELDS:
            if not _same(getattr(raw, field), getattr(fresh, field)):
                tensor.rest[field] = getattr(raw, field)
        return tensor

    def _constant(self, index: int, tensor: Tensor) -> Weights | None:
        data = self._data(index)
        if not data.size and (index == 0 or tensor.size):
            return None
        key = (index, tensor.shape, tensor.dtype)
        if key not in self.weights:
            self.weights[key] = _weights(data, tensor)
        return self.weights[key]

    def _quant(self, raw: Any) -> Quant | None:
        if raw is None:
            return None
        rest = {
            k: getattr(raw, k)
            for k in ("min", "max", "detailsType", "details")
            if getattr(raw, k) is not None
        }
        if not rest.get("detailsType"):
            rest.pop("detailsType", None)
        scale = np.asarray(_some(raw.scale), np.float32)
        zero = np.asarray(_some(raw.zeroPoint), np.int64)
        if not scale.size and not rest:
            return None
        return Quant(scale, zero, raw.quantizedDimension, rest=rest)

    def _graph(self, raw: Any, tensors: list[Tensor]) -> Graph:
        ops = [self._op(o, tensors) for o in raw.operators or []]
        inputs = [tensors[i] for i in _ints(raw.inputs)]
        outputs = [tensors[i] for i in _ints(raw.outputs)]
        _link_blockwise_scales(tensors)
        return Graph(inputs, outputs, ops, _text(raw.name))

    def _op(self, raw: Any, tensors: list[Tensor]) -> Op:
        kind, version = self.kinds[raw.opcodeIndex]
        attrs, rest = _options(raw, opset.spec(kind).options)
        inputs = [None if i == -1 else tensors[_within(i, tensors)] for i in _ints(raw.inputs)]
        op = Op(kind, inputs, [tensors[_within(i, tensors)] for i in _ints(raw.outputs)], attrs, version)
        op.rest = rest
        fresh = schema.OperatorT()
        for field in CARRIED_OP_FIELDS:
            if not _same(getattr(raw, field), getattr(fresh, field)):
                op.rest[field] = getattr(raw, field)
        if len(_some(raw.intermediates)):
            op.rest["intermediates"] = [tensors[i] for i in _ints(raw.intermediates)]
        return op


def _kind(code: Any) -> tuple[str, int]:
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    names = opset.enum_names(schema.BuiltinOperator)
    if number not in names:
        raise ValueError(f"it uses builtin operator {number}, newer than the schema known here")
    kind = names[number]
    return (opset.CUSTOM + _text(code.customCode) if kind == "CUSTOM" else kind), code.version


def _options(raw: Any, known: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (attributes, carried fields) of an operator whose options table should be `known`."""
    rest: dict[str, Any] = {}
    for field, enum in (
        ("builtinOptions", schema.BuiltinOptions),
        ("builtinOptions2", schema.BuiltinOptions2),
    ):
        number = getattr(raw, field + "Type")
        name, options = opset.enum_names(enum).get(number), getattr(raw, field)
        if number and options is None:
            raise ValueError(f"it uses operator options {number}, newer than the schema known here")
        if options is not None and name is not None and name == known:
            return _attributes(options, name), rest
        if options is not None:
            rest[field + "Type"], rest[field] = number, options
    rest["noOptions"] = True
    return {}, rest


def _attributes(options: Any, name: str) -> dict[str, Any]:
    return {k: _attribute(k, getattr(options, field)) for k, field in opset.attribute_fields(name).items()}


def _attribute(name: str, value: Any) -> Any:
    enum = opset.ENUMS.get(name)
    if enum and isinstance(value, int | np.integer):
        return opset.enum_names(enum)[int(value)]
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value


def _link_blockwise_scales(tensors: list[Tensor]) -> None:
    """Blockwise scales are another tensor: hold it, not its index."""
    for tensor in tensors:
        details = tensor.quant.rest.get("details") if tensor.quant else None
        if isinstance(details, schema.BlockwiseQuantizationT):
            tensor.rest["blockwiseScales"] = tensors[_within(details.scales, tensors)]


def _signature(raw: Any, tensors: list[Tensor]) -> Signature:
    inputs = {_text(m.name): tensors[m.tensorIndex] for m in raw.inputs or []}
    outputs = {_text(m.name): tensors[m.tensorIndex] for m in raw.outputs or []}
    return Signature(_text(raw.signatureKey), inputs, outputs)


def _weights(data: np.ndarray[Any, Any], tensor: Tensor) -> Weights:
    recipe = f"{tensor.name} in the file"
    if tensor.dtype not in NUMPY:
        return Weights(data.shape, data.dtype, lambda: data, recipe)
    dtype = np.dtype(NUMPY[tensor.dtype])
    if data.size != tensor.size * dtype.itemsize:
        want = tensor.size * dtype.itemsize
        raise ValueError(f"constant {tensor.name} {tensor.shape} holds {data.size} bytes instead of {want}")
    return Weights(tensor.shape, dtype, lambda: data.view(dtype).reshape(tensor.shape), recipe)


def _within(index: int, tensors: list[Tensor]) -> int:
    if not 0 <= index < len(tensors):
        raise ValueError(f"tensor {index} does not exist; there are {len(tensors)}")
    return index


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
