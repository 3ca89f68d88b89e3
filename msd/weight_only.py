"""Quantised weights with float arithmetic: what a GPU delegate computes, made explicit for the CPU.

A convolution whose weights are int8 and whose input is float32 runs differently on the two: the GPU brings
the weights back to float, the CPU quantises the input as well ("dynamic range"). Put a DEQUANTIZE operation
before each such weight and the CPU computes what the GPU does; the weights stay as small in the file as they
were.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from msd.errors import BadModelFile
from msd.structure import DAMAGE, kind, unpack

EXACT = frozenset({"DEQUANTIZE", "EMBEDDING_LOOKUP", "CAST", "QUANTIZE"})
"""Operations that take such a tensor and involve no arithmetic with a quantised input."""


def float_weights(path: Path) -> bytes | None:
    """Return the model at `path` with a DEQUANTIZE before every weight that is stored smaller than float32.

    That is every int8, uint8, int4 or float16 constant that an operation with float32 results takes directly.
    Returns None when there is none: then the file itself is the answer. Raises BadModelFile when it cannot be
    read, or keeps its weights outside the flatbuffer.
    """
    model = unpack(path)
    try:
        if any(buffer.offset > 1 for buffer in model.buffers):
            raise BadModelFile(f"{path} keeps weights outside its flatbuffer; it cannot get float weights.")
        if not sum(_Graph(model, graph).rewrite() for graph in model.subgraphs):
            return None
        return _pack(model)
    except DAMAGE as problem:
        raise BadModelFile(f"{path} is a damaged .tflite file: {problem}.") from problem


def _pack(model: Any) -> bytes:
    import flatbuffers

    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class _Graph:
    """One subgraph being rewritten."""

    def __init__(self, model: Any, graph: Any) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.model, self.graph, self.schema = model, graph, schema
        self.kinds = [kind(code) for code in model.operatorCodes]
        self.floats: dict[int, int] = {}
        self.made: list[Any] = []

    def rewrite(self) -> int:
        """Give every operation float weights; returns how many weights that took."""
        for op in self.graph.operators:
            if self.kinds[op.opcodeIndex] not in EXACT and self._makes_floats(op):
                op.inputs = [self._float(int(i)) if self._is_small(int(i)) else int(i) for i in op.inputs]
        self.graph.operators = self.made + list(self.graph.operators)
        return len(self.made)

    def _makes_floats(self, op: Any) -> bool:
        return all(self.graph.tensors[i].type == self.schema.TensorType.FLOAT32 for i in op.outputs)

    def _is_small(self, index: int) -> bool:
        types = self.schema.TensorType
        tensor = self.graph.tensors[index] if index >= 0 else None
        if tensor is None or self.model.buffers[tensor.buffer].data is None:
            return False
        scaled = tensor.quantization is not None and tensor.quantization.scale is not None
        quantised = tensor.type in (types.INT8, types.UINT8, types.INT4) and scaled
        return bool(quantised or tensor.type == types.FLOAT16)

    def _float(self, index: int) -> int:
        """Return the index of a float32 tensor that a DEQUANTIZE makes of tensor `index`."""
        if index not in self.floats:
            tensor = copy.copy(self.graph.tensors[index])
            tensor.type, tensor.quantization = self.schema.TensorType.FLOAT32, None
            tensor.buffer, tensor.name = 0, bytes(tensor.name or b"") + b" as float32"
            self.graph.tensors.append(tensor)
            self.floats[index] = len(self.graph.tensors) - 1
            self.made.append(self._dequantize(index))
        return self.floats[index]

    def _dequantize(self, index: int) -> Any:
        op = self.schema.OperatorT()
        op.opcodeIndex = self._opcode()
        op.inputs, op.outputs = [index], [self.floats[index]]
        return op

    def _opcode(self) -> int:
        """Return the place of the DEQUANTIZE this module adds, version 6: all it may be asked to take."""
        number = self.schema.BuiltinOperator.DEQUANTIZE
        for i, code in enumerate(self.model.operatorCodes):
            if (code.builtinCode, code.version) == (number, 6):
                return i
        code = self.schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = number
        code.version = 6
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1
