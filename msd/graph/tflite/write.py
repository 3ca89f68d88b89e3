"""Writes a `Model` as an ordinary .tflite file, with few constants in memory at a time.

Threads read and quantise constants ahead of the one that writes them.

Layout: the flatbuffer without constants first, then every constant 16-byte aligned. Tables point forwards, so
the offsets (and the scales of weights that the writer quantises) are patched into the first part at the end.
Beyond 2 GB, the limit of a flatbuffer's offsets, `Buffer.offset` and `Buffer.size` locate the constants.
Format: tensorflow/compiler/mlir/lite/schema/schema.fbs.
"""

from __future__ import annotations

import copy
import os
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from msd.files.ahead import in_order
from msd.files.atomic import atomic_write
from msd.graph.ir import Graph, Model, Op, Quant, Signature, Tensor, opset
from msd.graph.ir.weights import SMALL, Array, Weights
from msd.graph.tflite.packed import BITS, pack, packed_bytes
from msd.graph.tflite.read import VERSION
from msd.graph.tflite.sparsity import write_sparsity

ALIGN = 16
LARGEST_FLATBUFFER = 2**31 - 2**26
"""The most bytes of constants inside a flatbuffer: 2 GB less room for the structure."""

_OVER_READ = 64
"""Bytes of padding at the end: XNNPACK reads a little past the last weight."""

ROOM = 1 << 26
"""The most bytes of constants that are being read or wait to be written; a single one may have more."""

FEW = 1 << 18
"""So few bytes of constants are written before a thread has started."""

BATCH = 16
"""How many small constants a thread reads at a time."""

PER_ELEMENT = 4
"""Bytes of an element as it is read, a float32."""

Encode = Callable[[Weights], tuple[Array, Array]]
Stored = tuple[memoryview, Array | None]
"""The bytes of a constant, and its scale where it is quantised."""


@dataclass(frozen=True)
class _BufferSource:
    """One buffer to write: `encode` turns the weights into (stored values of type `dtype`, scale).

    `dtype` is a tensor's; packed types come as int8, or as the raw bytes, uint8, of a sparse tensor.
    """

    data: Weights
    dtype: str = ""
    encode: Encode | None = None
    inline: bool = False
    """Whether it must stay inside the flatbuffer: readers expect metadata there."""
    at_once: bool = False
    """Whether `encode` reads all rows at once, for a single scale."""

    @property
    def room(self) -> int:
        """The bytes in memory while it is read and encoded, and as it waits to be written."""
        return self.bytes + PER_ELEMENT * (self.data.size if self.at_once else self.data.most_read)

    @property
    def bytes(self) -> int:
        if self.packed:
            return packed_bytes(self.data.size, self.dtype)
        return self.data.size * (1 if self.encode else self.data.dtype.itemsize)

    @property
    def packed(self) -> bool:
        """Whether it is packed as it is written."""
        return self.dtype in BITS and (self.encode is not None or self.data.dtype == np.int8)

    def load(self) -> Stored:
        """Return the bytes to write, and the scale where `encode` quantises."""
        array, scale = self.encode(self.data) if self.encode else (self.data.load(), None)
        if self.packed:
            array = pack(array, self.dtype)
        flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if flat.size != self.bytes:
            raise AssertionError(f"{self.data.history} has {flat.size} bytes instead of {self.bytes}")
        return memoryview(flat), scale


def write(
    model: Model,
    path: Path,
    *,
    largest_flatbuffer: int = LARGEST_FLATBUFFER,
    on_bytes: Callable[[int, int], None] | None = None,
    threads: int | None = None,
    room: int = ROOM,
    lasting: bool = True,
) -> None:
    """Write `model` to `path` atomically; raises OutputUnwritable.

    What is not `lasting` may still be on its way to the disk.

    Calls `on_bytes(done, total)` after each constant. `threads` read and quantise constants, by default one
    for each core, in `room` bytes; the bytes of the file do not depend on them.
    """
    threads = threads or cores()
    writer = _Writer(model, largest_flatbuffer, threads)
    with atomic_write(path, lasting=lasting) as temporary, temporary.open("wb") as file:
        writer.write(file, on_bytes or (lambda done, total: None), threads, room)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def file_bytes(model: Model) -> int:
    """Return about how many bytes the file of `model` takes, within its padding; reads no large weight."""
    writer = _Writer(model, LARGEST_FLATBUFFER, cores())
    return len(writer.structure()) + writer.total


class _Writer:
    """Converts a model to the schema's object API form, and that to bytes."""

    def __init__(self, model: Model, largest_flatbuffer: int, threads: int) -> None:
        self.small = _small_values(model, threads)
        self.buffers: list[_BufferSource] = [_metadata(b"")]
        self.buffer_of: dict[tuple[Hashable, str, Encode | None], int] = {}
        self.scales_of: dict[int, list[tuple[int, int]]] = {}
        self.codes: dict[tuple[str, int], int] = {}
        self.raw = _fill(schema.ModelT(), model.rest)
        self.raw.version = VERSION
        self.raw.description = model.description or None
        indices = [_tensor_indices(g) for g in model.graphs]
        self.raw.subgraphs = [
            self._subgraph(n, g, i) for n, (g, i) in enumerate(zip(model.graphs, indices, strict=True))
        ]
        self.raw.signatureDefs = [_signature(s, n, indices[n]) for n, s in _signatures(model)] or None
        self.raw.metadata = [self._metadata(k, v) for k, v in model.metadata.items()] or None
        unnamed = model.rest.get("metadataBuffer", [])
        self.raw.metadataBuffer = [self._add(_metadata(v)) for v in unnamed] or None
        self.raw.operatorCodes = [_operator_code(*key) for key in self.codes]
        self.total = sum(stored.bytes for stored in self.buffers)
        large = self.total > largest_flatbuffer
        self.outside = [large and not s.inline and s.bytes > 0 for s in self.buffers]
        tables = [_buffer(outside) for outside in self.outside[1:]]
        self.raw.buffers = [schema.BufferT(), *tables]

    def _subgraph(self, number: int, graph: Graph, index: dict[Tensor, int]) -> Any:
        raw = _fill(schema.SubGraphT(), graph.rest)
        raw.name = graph.name or None
        raw.tensors = [self._tensor(number, i, t, index) for t, i in index.items()]
        raw.inputs = [index[t] for t in graph.inputs]
        raw.outputs = [index[t] for t in graph.outputs]
        raw.operators = [self._operator(op, index) for op in graph.ops]
        return raw

    def _tensor(self, graph: int, position: int, tensor: Tensor, index: dict[Tensor, int]) -> Any:
        raw = _fill(schema.TensorT(), tensor.rest)
        raw.name, raw.shape = tensor.name, list(tensor.shape)
        raw.type = getattr(schema.TensorType, tensor.dtype)
        raw.isVariable = tensor.is_variable
        if tensor.shape_signature is not None:
            raw.shapeSignature = np.asarray(tensor.shape_signature, np.int32)
        raw.buffer = self._buffer_index(graph, position, tensor)
        raw.quantization = _quantization(tensor.quant, index)
        raw.sparsity = write_sparsity(tensor.sparsity)
        return raw

    def _buffer_index(self, graph: int, position: int, tensor: Tensor) -> int:
        if tensor.data is None:
            return 0
        encode = tensor.quant.encode if tensor.quant else None
        content, data = (id(tensor.data), tensor.data) if encode else self._identity(tensor.data)
        key = content, tensor.dtype if tensor.dtype in BITS else "", encode
        if key not in self.buffer_of:
            at_once = tensor.quant is not None and tensor.quant.scale.size == 1
            source = _BufferSource(data, tensor.dtype, encode, at_once=at_once)
            self.buffer_of[key] = self._add(source)
        if encode:
            self.scales_of.setdefault(self.buffer_of[key], []).append((graph, position))
        return self.buffer_of[key]

    def _identity(self, data: Weights) -> tuple[Hashable, Weights]:
        """Return a key that is equal for constants that may share a buffer, and the weights to write.

        Small constants share one if their values are equal.
        """
        if data.size > SMALL:
            return id(data), data
        values = self.small[data] if data in self.small else data.load()
        return (data.dtype.str, values.tobytes()), Weights.of(values, data.history)

    def _add(self, stored: _BufferSource) -> int:
        self.buffers.append(stored)
        return len(self.buffers) - 1

    def _operator(self, op: Op, index: dict[Tensor, int]) -> Any:
        raw = _fill(schema.OperatorT(), op.rest)
        raw.opcodeIndex = self.codes.setdefault((op.kind, op.version), len(self.codes))
        raw.inputs = [-1 if t is None else index[t] for t in op.inputs]
        raw.outputs = [index[t] for t in op.outputs]
        raw.intermediates = [index[t] for t in op.rest.get("intermediates", [])] or None
        _set_options(raw, op)
        return raw

    def _metadata(self, name: str, value: bytes) -> Any:
        raw = schema.MetadataT()
        raw.name, raw.buffer = name, self._add(_metadata(value))
        return raw

    def structure(self) -> bytearray:
        """Return the flatbuffer without constants."""
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.raw.Pack(builder), b"TFL3")
        return bytearray(builder.Output())

    def write(self, file: BinaryIO, on_bytes: Callable[[int, int], None], threads: int, room: int) -> None:
        structure = self.structure()
        file.write(structure)
        done = 0
        inside_first = sorted(range(len(self.buffers)), key=self.outside.__getitem__)
        filled = [number for number in inside_first if self.buffers[number].bytes]
        tasks = [(self.buffers[n].room, self.buffers[n].load) for n in filled]
        stored = in_order(tasks, threads if self.total > FEW else 1, room)
        for number in filled:
            self._write_buffer(file, structure, number, *next(stored))
            done += self.buffers[number].bytes
            on_bytes(done, self.total)
        file.write(bytes(_OVER_READ))
        file.seek(0)
        file.write(structure)

    def _write_buffer(
        self, file: BinaryIO, structure: bytearray, number: int, data: memoryview, scale: Array | None
    ) -> None:
        root = schema.Model.GetRootAs(structure, 0)
        for graph, position in self.scales_of.get(number, []):
            root.Subgraphs(graph).Tensors(position).Quantization().ScaleAsNumpy()[:] = scale
        start = -(-(file.tell() + 4) // ALIGN) * ALIGN
        file.write(bytes(start - 4 - file.tell()))
        file.write(struct.pack("<I", len(data)))
        file.write(data)
        table = root.Buffers(number)._tab
        if self.outside[number]:
            for slot, value in ((6, start), (8, len(data))):
                struct.pack_into("<Q", structure, table.Pos + table.Offset(slot), value)
        else:
            at = table.Pos + table.Offset(4)
            struct.pack_into("<I", structure, at, start - 4 - at)


def _small_values(model: Model, threads: int) -> dict[Weights, Array]:
    """Return the values of small constants, which stay in memory: some cost much to compute."""
    tensors = (tensor for graph in model.graphs for tensor in graph.tensors())
    plain = (t.data for t in tensors if t.data is not None and not (t.quant and t.quant.encode))
    small = list(dict.fromkeys(data for data in plain if data.size <= SMALL))
    batches = [small[i : i + BATCH] for i in range(0, len(small), BATCH)]
    tasks = [(0, partial(_load_all, batch)) for batch in batches]
    loaded = in_order(tasks, threads if len(tasks) > 1 else 1, 1)
    return {data: values for batch in loaded for data, values in batch}


def _load_all(batch: Sequence[Weights]) -> list[tuple[Weights, Array]]:
    return [(data, data.load()) for data in batch]


def _tensor_indices(graph: Graph) -> dict[Tensor, int]:
    tensors = dict.fromkeys(graph.tensors())
    for signature in graph.signatures:
        tensors.update(dict.fromkeys((*signature.inputs.values(), *signature.outputs.values())))
    for op in graph.ops:
        tensors.update(dict.fromkeys(op.rest.get("intermediates", [])))
    for tensor in list(tensors):
        if tensor.quant:
            tensors.update(dict.fromkeys(tensor.quant.rest.get("blockwise", {}).values()))
    return {t: i for i, t in enumerate(tensors)}


def _fill(raw: Any, rest: Mapping[str, Any]) -> Any:
    """Set the fields in `rest` that the schema has, and return `raw`."""
    for field, value in rest.items():
        if hasattr(raw, field):
            setattr(raw, field, value)
    return raw


def _metadata(value: bytes) -> _BufferSource:
    return _BufferSource(Weights.of(np.frombuffer(value, np.uint8), "metadata"), inline=True)


def _buffer(outside: bool) -> Any:
    """Return a table that has space for the fields to be patched."""
    raw = schema.BufferT()
    if outside:
        raw.offset = raw.size = 1
    else:
        raw.data = np.zeros(0, np.uint8)
    return raw


def _quantization(quant: Quant | None, index: dict[Tensor, int]) -> Any:
    if quant is None:
        return None
    raw = _fill(schema.QuantizationParametersT(), quant.rest)
    raw.scale = np.asarray(quant.scale, np.float32) if quant.scale.size else None
    raw.zeroPoint = np.asarray(quant.zero_point, np.int64) if quant.zero_point.size else None
    raw.quantizedDimension = quant.axis
    if "blockwise" in quant.rest:
        raw.details = _fill(copy.copy(raw.details), {f: index[t] for f, t in quant.rest["blockwise"].items()})
    return raw


def _operator_code(kind: str, version: int) -> Any:
    raw = schema.OperatorCodeT()
    builtin, _, custom = kind.partition(":")
    raw.builtinCode = getattr(schema.BuiltinOperator, builtin)
    raw.deprecatedBuiltinCode = min(raw.builtinCode, schema.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)
    raw.customCode, raw.version = custom or None, version
    return raw


def _set_options(raw: Any, op: Op) -> None:
    name = opset.spec(op.kind).options
    if name is None or not op.has_options:
        return
    options = getattr(schema, name + "T")()
    for attr, field in opset.attribute_fields(name).items():
        setattr(options, field, _field_value(attr, op.attrs[attr]))
    union = "builtinOptions" if hasattr(schema.BuiltinOptions, name) else "builtinOptions2"
    enum = schema.BuiltinOptions if union == "builtinOptions" else schema.BuiltinOptions2
    setattr(raw, union + "Type", getattr(enum, name))
    setattr(raw, union, options)


def _field_value(name: str, value: Any) -> Any:
    enum = opset.ENUMS.get(name)
    if enum and isinstance(value, str):
        return getattr(enum, value)
    return list(value) if isinstance(value, tuple) else value


def _signatures(model: Model) -> list[tuple[int, Signature]]:
    """Return every signature with its graph's index, in the order of the original file."""
    every = [(n, s) for n, graph in enumerate(model.graphs) for s in graph.signatures]
    order = model.rest.get("signatureOrder", [])
    return sorted(every, key=lambda each: order.index(each[1].key) if each[1].key in order else len(order))


def _signature(signature: Signature, graph: int, index: dict[Tensor, int]) -> Any:
    raw = schema.SignatureDefT()
    raw.signatureKey, raw.subgraphIndex = signature.key, graph
    raw.inputs = [_tensor_map(k, index[t]) for k, t in signature.inputs.items()]
    raw.outputs = [_tensor_map(k, index[t]) for k, t in signature.outputs.items()]
    return raw


def _tensor_map(name: str, index: int) -> Any:
    raw = schema.TensorMapT()
    raw.name, raw.tensorIndex = name, index
    return raw
