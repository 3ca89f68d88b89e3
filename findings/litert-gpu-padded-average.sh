#!/usr/bin/env bash
# LiteRT's GPU delegate leaves the zeros of PyTorch's padded average out: a corner of ones is 1 instead of 4/9.
#
# ai-edge-litert 2.3.0, its WebGPU accelerator over the SwiftShader that @sparticuz/chromium 153.0.0 brings (npm): PAD of
# height and width by 1, then AVERAGE_POOL_2D of 3x3 with VALID padding, over an image of ones.
# Expected: PAD adds zeros, which the average counts as any others: 4/9 in a corner, 6/9 at an edge, 1 inside. The CPU
# says so, and torch.nn.AvgPool2d(3, stride=1, padding=1), whose count_include_pad is true unless one says otherwise.
# Seen: 1 everywhere. The delegate makes one operation of the two, and its pooling divides by the pixels inside the image.
# With an operator between the two, here a MUL by 1.5, it is right.
# It matters because litert-torch converts AvgPool2d(padding=...) to these two operators: everything is delegated, nothing
# is said, and only the edges are wrong.
# Written: tensorflow/lite/delegates/gpu/common/transformations/merge_padding_with.cc merges the two; no word on the zeros.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ai-edge-litert==2.3.0 numpy==1.26.4 flatbuffers==25.12.19 brotli==1.1.0
(cd "$folder" && npm pack --silent @sparticuz/chromium@153.0.0 > name && tar xzf "$(cat name)")
"$folder/venv/bin/python" - "$folder" 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import ctypes
import io
import os
import sys
import tarfile
from pathlib import Path

import brotli
import flatbuffers
import numpy as np

folder = Path(sys.argv[1])
packed = brotli.decompress((folder / "package/bin/swiftshader.tar.br").read_bytes())
tarfile.open(fileobj=io.BytesIO(packed)).extractall(folder / "swiftshader")
os.environ["VK_ICD_FILENAMES"] = str(folder / "swiftshader/vk_swiftshader_icd.json")
ctypes.CDLL(str(folder / "swiftshader/libvulkan.so.1"), mode=ctypes.RTLD_GLOBAL)
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel, GpuOptions, HardwareAccelerator, Options
from ai_edge_litert.interpreter import Interpreter

SIZE = 6


def model(between):
    """Return a .tflite file: PAD, a MUL by 1.5 if `between`, AVERAGE_POOL_2D."""
    graph, made = schema.SubGraphT(), schema.ModelT()
    graph.tensors, graph.operators, made.operatorCodes, made.buffers = [], [], [], [schema.BufferT()]

    def tensor(name, shape, values=None):
        made_tensor, data = schema.TensorT(), schema.BufferT()
        made_tensor.name, made_tensor.shape = name.encode(), list(shape)
        made_tensor.type = schema.TensorType.INT32 if values is not None and values.dtype == np.int32 else 0
        if values is not None:
            data.data = values.reshape(-1).view(np.uint8)
            made.buffers.append(data)
            made_tensor.buffer = len(made.buffers) - 1
        graph.tensors.append(made_tensor)
        return len(graph.tensors) - 1

    def op(kind, inputs, output, options, version=1):
        code, one = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = getattr(schema.BuiltinOperator, kind), 0, version
        code.deprecatedBuiltinCode = code.builtinCode
        one.opcodeIndex, one.inputs, one.outputs, one.builtinOptions = len(made.operatorCodes), inputs, [output], options
        one.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        made.operatorCodes.append(code)
        graph.operators.append(one)
        return output

    x = tensor("image", (1, SIZE, SIZE, 4))
    by = tensor("by", (4, 2), np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    padded = op("PAD", [x, by], tensor("padded", (1, SIZE + 2, SIZE + 2, 4)), schema.PadOptionsT())
    if between:
        factor = tensor("factor", (1,), np.array([1.5], np.float32))
        padded = op("MUL", [padded, factor], tensor("product", (1, SIZE + 2, SIZE + 2, 4)), schema.MulOptionsT())
    pool = schema.Pool2DOptionsT()
    pool.padding, pool.strideW, pool.strideH, pool.filterWidth, pool.filterHeight = schema.Padding.VALID, 1, 1, 3, 3
    y = op("AVERAGE_POOL_2D", [padded], tensor("average", (1, SIZE, SIZE, 4)), pool)
    graph.inputs, graph.outputs = [x], [y]
    made.version, made.subgraphs = 3, [graph]
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def on_cpu(content, image):
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0, ..., 0]


def on_gpu(content, image):
    path = folder / "model.tflite"
    path.write_bytes(content)
    options = Options(HardwareAccelerator.GPU, gpu_options=GpuOptions(enforce_f32=True))
    compiled = CompiledModel.from_file(str(path), options=options)
    key = compiled.get_signature_by_index(0)["key"]
    (source,), (result,) = compiled.get_input_tensor_details(key), compiled.get_output_tensor_details(key)
    inputs = {source: compiled.create_input_buffer_by_name(key, source)}
    outputs = {result: compiled.create_output_buffer_by_name(key, result)}
    inputs[source].write(image)
    compiled.run_by_name(key, inputs, outputs)
    return np.asarray(outputs[result].read(image.size, np.float32)).reshape(image.shape)[0, ..., 0]


ones = np.ones((1, SIZE, SIZE, 4), np.float32)
for between in (False, True):
    cpu, gpu = (run(model(between), ones) / (1.5 if between else 1) for run in (on_cpu, on_gpu))
    print(f"{'PAD, MUL, pooling' if between else 'PAD, pooling'}: a corner, an edge, inside")
    for name, found in (("CPU", cpu), ("GPU", gpu)):
        print(f"  {name}: {found[0, 0]:.3f} {found[0, 2]:.3f} {found[2, 2]:.3f}")
    assert np.allclose(cpu[0, :3:2], [4 / 9, 6 / 9])
    assert np.allclose(gpu, cpu if between else 1, atol=1e-5), "the behaviour changed"
EOF
