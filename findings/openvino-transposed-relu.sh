#!/usr/bin/env bash
# OpenVINO drops the RELU of a transposed convolution when it reads a .tflite file.
#
# openvino 2026.4.1, on files that tensorflow 2.21.0 converts; ai-edge-litert 2.3.0 for comparison.
# Expected: relu(conv2d_transpose(x) + bias) has no number below 0. TensorFlow's converter writes it as one TRANSPOSE_CONV with
# the RELU fused into it, as it does for CONV_2D.
# Seen: OpenVINO's model of the file is a ConvolutionBackpropData, a bias and nothing else: numbers down to -11.7, without a
# warning. RELU6 likewise. After CONV_2D, DEPTHWISE_CONV_2D and a matrix product the RELU is there, and LiteRT is right for all.
# It matters for decoders, upscalers and edge or depth networks that enlarge by transposed convolutions, which are shipped as
# .tflite for phones and run by OpenVINO on PCs: every such layer is linear there, and the picture is another one.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 openvino==2026.4.1 numpy==1.26.4
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
from pathlib import Path

import numpy as np
import openvino
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

random = np.random.default_rng(0)


def constant(*shape):
    return tf.constant(random.normal(size=shape).astype(np.float32))


def by_litert(content, x):
    """Return the file's result and its operations."""
    interpreter = Interpreter(model_content=content)
    names = [each["op_name"] for each in interpreter._get_ops_details() if each["op_name"] != "DELEGATE"]
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), names


def by_openvino(content, x):
    """Return OpenVINO's result for the same file."""
    Path("network.tflite").write_bytes(content)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model("network.tflite"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([x])[0]


def enlarge(x):
    return tf.nn.conv2d_transpose(x, large, (1, 16, 16, 6), 2) + bias


large, small, deep, matrix, bias = constant(3, 3, 6, 4), constant(3, 3, 4, 6), constant(3, 3, 4, 1), constant(4, 6), constant(6)
layers = {
    "transposed convolution, RELU": lambda x: tf.nn.relu(enlarge(x)),
    "transposed convolution, RELU6": lambda x: tf.nn.relu6(enlarge(x)),
    "transposed convolution alone": enlarge,
    "convolution, RELU": lambda x: tf.nn.relu(tf.nn.conv2d(x, small, 1, "SAME") + bias),
    "convolution by channel, RELU": lambda x: tf.nn.relu(tf.nn.depthwise_conv2d(x, deep, [1] * 4, "SAME") + bias[:4]),
    "matrix product, RELU": lambda x: tf.nn.relu(x @ matrix + bias),
}
x = constant(1, 8, 8, 4)
off = {}
for name, layer in layers.items():
    traced = tf.function(layer, input_signature=[tf.TensorSpec(x.shape)]).get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced]).convert()
    wanted, seen = layer(x).numpy(), by_openvino(content, x.numpy())
    litert, names = by_litert(content, x.numpy())
    off[name] = [np.abs(each - wanted).max() / np.abs(wanted).max() for each in (litert, seen)]
    print(f"{name}: {', '.join(names)}; lowest {wanted.min():.1f}, in OpenVINO {seen.min():.1f}; "
          f"LiteRT {off[name][0]:.1%} off, OpenVINO {off[name][1]:.1%}")
assert max(litert for litert, _ in off.values()) < 1e-5, "the behaviour changed"
lost = [name for name, (_, seen) in off.items() if seen > 0.1]
assert lost == ["transposed convolution, RELU", "transposed convolution, RELU6"], "the behaviour changed"
assert max(seen for name, (_, seen) in off.items() if name not in lost) < 1e-5, "the behaviour changed"
EOF
