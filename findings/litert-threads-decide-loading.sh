#!/usr/bin/env bash
# LiteRT's CPU kernels load a convolution of a large image with two threads and refuse it with one.
#
# ai-edge-litert 2.3.0, interpreter without default delegates, CONV_2D of 3x3 over (1, 1024, 1024, 256), float32, as
# in the last block of a VAE decoder at 1024x1024.
# Expected: the number of threads changes the time. If such a convolution is too large, it is for any number.
# Seen: allocate_tensors() succeeds with num_threads=2; with 1, and without the argument, it fails: "Conv im2col
# elements (2415919104) exceed the 32-bit integer limit". Only the kernel for several threads works without that
# matrix, and which one is used is decided by the threads. At 512x512, and with a kernel of 1x1, all load; with the
# default delegate (XNNPACK) too.
# It matters because every operation is prepared for the CPU before a delegate is asked: a GPU delegate is refused
# a decoder that it would take whole.
# Written: nowhere that we found; the check came with 2.1.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ai-edge-litert==2.3.0 numpy==1.26.4 flatbuffers==25.12.19
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def convolution(side, kernel):
    """Return a file of one CONV_2D of `kernel` x `kernel` from 256 to 4 channels of an image."""
    model, graph, code, op = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    weights, biases, options = schema.BufferT(), schema.BufferT(), schema.Conv2DOptionsT()
    weights.data = np.zeros((4, kernel, kernel, 256), np.float32).view(np.uint8).ravel()
    biases.data = np.zeros(4, np.float32).view(np.uint8)
    shapes = ((1, side, side, 256), (4, kernel, kernel, 256), (4,), (1, side, side, 4))
    graph.tensors = []
    for name, shape, buffer in zip(("image", "filter", "bias", "result"), shapes, (0, 1, 2, 0)):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), list(shape), 0, buffer
        graph.tensors.append(tensor)
    options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CONV_2D
    code.version, op.opcodeIndex, op.inputs, op.outputs = 1, 0, [0, 1, 2], [3]
    op.builtinOptions, op.builtinOptionsType = options, schema.BuiltinOptions.Conv2DOptions
    graph.inputs, graph.outputs, graph.operators = [0], [3], [op]
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT(), weights, biases]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def load(side, kernel, threads, resolver=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
    """Return what loading says, "loads" where nothing."""
    content = convolution(side, kernel)
    try:
        Interpreter(
            model_content=content, num_threads=threads, experimental_op_resolver_type=resolver
        ).allocate_tensors()
    except RuntimeError as problem:
        return str(problem)
    return "loads"


found = {threads: load(1024, 3, threads) for threads in (2, 1, None)}
for threads, said in found.items():
    print(f"num_threads={threads}: {said}")
others = load(512, 3, 1), load(1024, 1, 1), load(1024, 3, 1, OpResolverType.AUTO)
print("with one thread: 512x512, a kernel of 1x1, and XNNPACK:", *others)
assert found[2] == "loads", "the behaviour changed"
assert all("2415919104" in found[threads] for threads in (1, None)), "the behaviour changed"
assert others == ("loads",) * 3, "the behaviour changed"
EOF
