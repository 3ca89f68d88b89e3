#!/usr/bin/env bash
# LiteRT's GPU delegate finds the largest of 21 negative channels to be the 22nd, which does not exist.
#
# ai-edge-litert 2.3.0, its WebGPU accelerator over the SwiftShader that @sparticuz/chromium 153.0.0 brings (npm):
# ARG_MAX over the channels of (1, 4, 4, CHANNELS), float32, every number between -2 and -1.
# Expected: an index below CHANNELS, the CPU's.
# Seen: 21 for 21 channels and 6 for 6, at each pixel; right for 20. Channels lie in groups of four, and the zeros that
# fill the last group up take part: they are the largest wherever every number is negative. With one number above zero at
# each pixel the indices are the CPU's.
# It matters for logarithms of probabilities, which are all negative, over the 21 classes of Pascal VOC: the index, used in
# a table of colours or names, lies behind its end. Everything is delegated, and nothing is said.
# Written: nowhere that we found.
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

INT32 = schema.TensorType.INT32


def model(channels):
    """Write a .tflite file with one operator and return its path."""
    graph, made, data = schema.SubGraphT(), schema.ModelT(), schema.BufferT()
    code, op, options = schema.OperatorCodeT(), schema.OperatorT(), schema.ArgMaxOptionsT()
    data.data = np.array([3], np.int32).view(np.uint8)
    graph.tensors = []
    for name, shape, kind, buffer in (
        ("numbers", (1, 4, 4, channels), 0, 0), ("axis", (1,), INT32, 1), ("index", (1, 4, 4), INT32, 0)
    ):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), list(shape), kind, buffer
        graph.tensors.append(tensor)
    options.outputType = INT32
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ARG_MAX
    code.version, op.opcodeIndex, op.inputs, op.outputs = 1, 0, [0, 1], [2]
    op.builtinOptions, op.builtinOptionsType = options, schema.BuiltinOptions.ArgMaxOptions
    graph.inputs, graph.outputs, graph.operators = [0], [2], [op]
    made.version, made.operatorCodes, made.subgraphs, made.buffers = 3, [code], [graph], [schema.BufferT(), data]
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    path = folder / f"{channels}.tflite"
    path.write_bytes(bytes(builder.Output()))
    return str(path)


def on_cpu(path, numbers):
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, numbers)
    interpreter.invoke()
    return interpreter.get_tensor(2).ravel()


def on_gpu(path, numbers):
    options = Options(HardwareAccelerator.GPU, gpu_options=GpuOptions(enforce_f32=True))
    compiled = CompiledModel.from_file(path, options=options)
    key = compiled.get_signature_by_index(0)["key"]
    (source,), (result,) = compiled.get_input_tensor_details(key), compiled.get_output_tensor_details(key)
    inputs = {source: compiled.create_input_buffer_by_name(key, source)}
    outputs = {result: compiled.create_output_buffer_by_name(key, result)}
    inputs[source].write(numbers)
    compiled.run_by_name(key, inputs, outputs)
    return np.asarray(outputs[result].read(16, np.int32)).ravel()


for channels in (20, 6, 21):
    negative = np.random.default_rng(0).uniform(-2, -1, (1, 4, 4, channels)).astype(np.float32)
    positive = negative.copy()
    positive[..., 2] = 1
    path = model(channels)
    cpu, gpu = on_cpu(path, negative), on_gpu(path, negative)
    print(f"{channels} negative channels: CPU {cpu[:6].tolist()} ..., GPU {gpu[:6].tolist()} ...")
    assert (cpu < channels).all() and (on_gpu(path, positive) == on_cpu(path, positive)).all()
    assert (gpu == (cpu if channels % 4 == 0 else channels)).all(), "the behaviour changed"
EOF
