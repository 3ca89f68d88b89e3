"""Models that no converter makes, by editing one that a converter made."""

from __future__ import annotations

import copy
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.tiny_models import model


def unpacked(name: str) -> Any:
    """Return the schema's object form of the model called `name`."""
    return schema.ModelT.InitFromPackedBuf(model(name), 0)


def packed(edited: Any) -> bytes:
    """Return the file of an object form."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(edited.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def without_signature(name: str) -> bytes:
    """The same model, its ports named by its tensors only."""
    edited = unpacked(name)
    edited.signatureDefs = None
    return packed(edited)


def signatures_reversed(content: bytes) -> bytes:
    """The same model, its signatures in the opposite order."""
    edited = schema.ModelT.InitFromPackedBuf(content, 0)
    edited.signatureDefs = edited.signatureDefs[::-1]
    return packed(edited)


def explicit_dequantize(name: str, version: int) -> bytes:
    """The int8 weight of the first operation goes through a DEQUANTIZE of this version first."""
    edited = unpacked(name)
    graph = edited.subgraphs[0]
    op = graph.operators[0]
    weight, made = int(op.inputs[1]), schema.TensorT()
    made.name, made.shape, made.buffer = b"float_weight", graph.tensors[weight].shape, len(edited.buffers)
    edited.buffers.append(schema.BufferT())
    graph.tensors.append(made)
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE
    code.version = version
    edited.operatorCodes.append(code)
    dequantize = schema.OperatorT()
    dequantize.opcodeIndex = len(edited.operatorCodes) - 1
    dequantize.inputs, dequantize.outputs = [weight], [len(graph.tensors) - 1]
    op.inputs = [op.inputs[0], len(graph.tensors) - 1, *op.inputs[2:]]
    graph.operators = [dequantize, *graph.operators]
    return packed(edited)


def raw_float16(name: str) -> bytes:
    """The float32 weight of the first operation is stored as float16, with no DEQUANTIZE."""
    edited = unpacked(name)
    graph = edited.subgraphs[0]
    weight = graph.tensors[graph.operators[0].inputs[1]]
    buffer = edited.buffers[weight.buffer]
    buffer.data = buffer.data.view(np.float32).astype(np.float16).view(np.uint8)
    weight.type = schema.TensorType.FLOAT16
    return packed(edited)


def int4(name: str) -> tuple[bytes, np.ndarray[Any, Any]]:
    """The int8 weight of the first operation is cut to int4, two to a byte; returns its float values too."""
    edited = unpacked(name)
    graph = edited.subgraphs[0]
    weight = graph.tensors[graph.operators[0].inputs[1]]
    buffer = edited.buffers[weight.buffer]
    values = (buffer.data.view(np.int8).astype(np.int32) // 16).astype(np.int8)
    buffer.data = ((values[0::2] & 15) | ((values[1::2] & 15) << 4)).astype(np.uint8)
    weight.type = schema.TensorType.INT4
    scale = np.asarray(weight.quantization.scale, np.float32)
    matrix = values.reshape(weight.shape) * scale.reshape(-1, *[1] * (len(weight.shape) - 1))
    return packed(edited), matrix


def lookup(scales: int) -> bytes:
    """EMBEDDING_LOOKUP in a 23-row int8 table with one scale, or one a row; then TANH."""
    edited = unpacked("tokens")
    graph = edited.subgraphs[0]
    gather = graph.operators[0]
    table, ids = int(gather.inputs[0]), int(gather.inputs[1])
    tensor = graph.tensors[table]
    values = edited.buffers[tensor.buffer].data.view(np.float32).reshape(tensor.shape)
    amax = np.abs(values).max(axis=1, keepdims=True) if scales > 1 else np.abs(values).max(keepdims=True)
    edited.buffers[tensor.buffer].data = (
        np.round(values / amax * 127).astype(np.int8).reshape(-1).view(np.uint8)
    )
    tensor.type, tensor.quantization = schema.TensorType.INT8, schema.QuantizationParametersT()
    tensor.quantization.scale = (amax.reshape(-1) / 127).astype(np.float32)
    tensor.quantization.zeroPoint = np.zeros(amax.size, np.int64)
    code = edited.operatorCodes[gather.opcodeIndex]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.EMBEDDING_LOOKUP
    code.version = 4 if scales > 1 else 3
    gather.inputs, gather.builtinOptions, gather.builtinOptionsType = [ids, table], None, 0
    return packed(edited)


def composite(name: str) -> bytes:
    """One STABLEHLO_COMPOSITE whose decomposition is the whole model."""
    edited = unpacked(name)
    graph = edited.subgraphs[0]
    decomposition = copy.copy(graph)
    decomposition.name = b"decomposition"
    edited.subgraphs.append(decomposition)
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode = schema.BuiltinOperator.STABLEHLO_COMPOSITE, 127
    edited.operatorCodes.append(code)
    op = schema.OperatorT()
    op.opcodeIndex = len(edited.operatorCodes) - 1
    op.inputs, op.outputs = graph.inputs, graph.outputs
    op.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    op.builtinOptions2 = schema.StableHLOCompositeOptionsT()
    op.builtinOptions2.name, op.builtinOptions2.decompositionSubgraphIndex = b"odml.test", 1
    edited.subgraphs[0] = copy.copy(graph)
    edited.subgraphs[0].operators = [op]
    return packed(edited)
