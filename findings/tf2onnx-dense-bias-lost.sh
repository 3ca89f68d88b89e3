#!/usr/bin/env bash
# tf2onnx drops the bias of a dense layer where TensorFlow's converter took the RESHAPE before it into the layer.
#
# tf2onnx 1.17.0, convert.from_tflite, on files that tensorflow 2.21.0 converts; onnxruntime 1.23.2, ai-edge-litert 2.3.0.
# Expected: an ONNX file that computes what the .tflite file does.
# Seen: reshape(image, (64, 4)) @ W + b becomes one FULLY_CONNECTED with the image as it is, (1, 8, 8, 4), and keep_num_dims off:
# the operator flattens by itself. tf2onnx makes a Reshape and a MatMul of it, and no Add. The result is off by exactly b.
# With keep_num_dims, where the result is shaped back to an image, the Add is there; of a matrix as input too.
# It matters because that is how an image becomes tokens, before attention: every such projection loses its bias, the shapes
# are right, the file loads, and no comparison but that of the numbers tells.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 tf2onnx==1.17.0 onnx==1.23.2 \
    onnxruntime==1.23.2 numpy==1.26.4
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
from pathlib import Path

import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx
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


def by_onnx(content, x):
    """Return the result of the ONNX file that tf2onnx makes of it, and that file's operations."""
    Path("layer.tflite").write_bytes(content)
    model, _ = tf2onnx.convert.from_tflite("layer.tflite", opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0], [node.op_type for node in model.graph.node]


matrix, bias = constant(4, 6), constant(6)
layers = {
    "image to tokens": (lambda x: tf.reshape(x, (64, 4)) @ matrix + bias, (1, 8, 8, 4)),
    "image to image": (lambda x: tf.reshape(tf.reshape(x, (64, 4)) @ matrix + bias, (1, 8, 8, 6)), (1, 8, 8, 4)),
    "tokens to tokens": (lambda x: x @ matrix + bias, (64, 4)),
}
off = {}
for name, (layer, shape) in layers.items():
    x = constant(*shape)
    traced = tf.function(layer, input_signature=[tf.TensorSpec(shape)]).get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced]).convert()
    wanted, (litert, ours), (seen, theirs) = layer(x).numpy(), by_litert(content, x.numpy()), by_onnx(content, x.numpy())
    assert np.allclose(litert, wanted, atol=1e-5), "the behaviour changed"
    off[name] = wanted - seen
    print(f"{name}: {', '.join(ours)} becomes {', '.join(theirs)}; off by at most {np.abs(off[name]).max():.2f}")
print("what is missing in each token:", off["image to tokens"].mean(0).round(3), "- the bias:", bias.numpy().round(3))
assert np.allclose(off["image to tokens"], bias.numpy(), atol=1e-5), "the behaviour changed"
assert np.allclose(off["image to image"], 0, atol=1e-5), "the behaviour changed"
assert np.allclose(off["tokens to tokens"], 0, atol=1e-5), "the behaviour changed"
EOF
