#!/usr/bin/env bash
# LiteRT's CPU is 4 percent off in the mean of a large image, and 40 times closer if the same image is one axis.
#
# ai-edge-litert 2.3.0, MEAN over height and width of (1, 2048, 2048, 1), every pixel 0.1.
# Expected: 0.1 to five digits, which is what NumPy gives for the same float32 numbers.
# Seen: 0.0998 at 512x512, 0.1010 at 1024x1024, 0.0960 at 2048x2048. The sum is kept in one float32, pixel after
# pixel; once it is large, every 0.1 is rounded to a coarser step, each time in the same direction. Over the same
# numbers in the shape (1, 4194304), MEAN gives 0.0999.
# It matters for group normalisation, which is a mean and a mean of squares over whole images: a VAE decoder
# normalises 512x512 and larger. A GPU that differs from the CPU there may be the better of the two.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ai-edge-litert==2.3.0 numpy==1.26.4 flatbuffers==25.12.19
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter


def mean(image, axes):
    """Return MEAN over `axes` as the interpreter computes it."""
    model, graph, code, op = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    empty, data, options = schema.BufferT(), schema.BufferT(), schema.ReducerOptionsT()
    data.data = np.array(axes, np.int32).view(np.uint8)
    left = [size for axis, size in enumerate(image.shape) if axis not in axes]
    graph.tensors = []
    for name, shape, kind, buffer in (("image", image.shape, 0, 0), ("axes", (len(axes),), 2, 1), ("mean", left, 0, 0)):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), list(shape), kind, buffer
        graph.tensors.append(tensor)
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.MEAN
    code.version, op.opcodeIndex, op.inputs, op.outputs = 1, 0, [0, 1], [2]
    op.builtinOptions, op.builtinOptionsType = options, schema.BuiltinOptions.ReducerOptions
    graph.inputs, graph.outputs, graph.operators = [0], [2], [op]
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [empty, data]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = Interpreter(model_content=bytes(builder.Output()), num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, image)
    interpreter.invoke()
    return interpreter.get_tensor(2).astype(float).ravel()


errors = {}
for side in (512, 1024, 2048):
    image = np.full((1, side, side, 1), 0.1, np.float32)
    over_two, over_one = mean(image, (1, 2)).item(), mean(image.reshape(1, -1), (1,)).item()
    errors[side] = over_two / 0.1 - 1, over_one / 0.1 - 1
    print(f"{side}x{side} of 0.1: {over_two:.6f} over two axes ({errors[side][0]:+.2%}), {over_one:.6f} over one")
assert abs(errors[2048][0]) > 0.02 and abs(errors[2048][1]) < 0.002, "the behaviour changed"
EOF
