#!/usr/bin/env bash
# TensorFlow's converter drops the RELU after a product of two matrices that are both known only at run time.
#
# tensorflow 2.21.0, run by ai-edge-litert 2.3.0.
# Expected: relu(a @ b) has no number below 0.
# Seen: the file holds one BATCH_MATMUL and nothing else; its output is a @ b, down to -6.1. relu6 is lost likewise,
# a bias of zeros too. With batches (rank 3), with a bias or with TANH all is right. It looks as if the product of rank 2 is a
# FULLY_CONNECTED at first, takes the RELU into itself, and is then made a BATCH_MATMUL, which has no place for one.
# It matters where weights are inputs or are computed in the graph: LoRA at run time, weights that come packed, keras's
# int4 layers. Nothing fails, every delegate takes the file, and it computes a network without nonlinearities.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 numpy==1.26.4
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter


def lowest(function, *inputs):
    """Return the smallest number that the file computes, TensorFlow's own, and the file's operations."""
    shapes = [tf.TensorSpec(each.shape, tf.float32) for each in inputs]
    traced = tf.function(function, input_signature=shapes).get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced]).convert()
    interpreter = Interpreter(model_content=content)
    names = [each["op_name"] for each in interpreter._get_ops_details()]
    interpreter.allocate_tensors()
    for place, each in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(place["index"], each)
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return float(result.min()), float(function(*map(tf.constant, inputs)).numpy().min()), names


random = np.random.default_rng(0)
flat = [random.normal(size=shape).astype(np.float32) for shape in ((2, 8), (8, 8))]
batched = [random.normal(size=shape).astype(np.float32) for shape in ((2, 3, 8), (2, 8, 8))]
cases = {
    "relu(a @ b)": (lambda a, b: tf.nn.relu(a @ b), flat),
    "relu6(a @ b)": (lambda a, b: tf.nn.relu6(a @ b), flat),
    "relu(a @ b + 0)": (lambda a, b: tf.nn.relu(a @ b + tf.zeros(8)), flat),
    "relu(a @ b + 0.1)": (lambda a, b: tf.nn.relu(a @ b + 0.1), flat),
    "relu(a @ b), in batches": (lambda a, b: tf.nn.relu(a @ b), batched),
}
seen = {}
for name, (function, inputs) in cases.items():
    seen[name], wanted, names = lowest(function, *inputs)
    print(f"{name}: lowest {seen[name]:.2f}, in TensorFlow {wanted:.2f}; {', '.join(names)}")
lost = [name for name, number in seen.items() if number < -1]
assert lost == ["relu(a @ b)", "relu6(a @ b)", "relu(a @ b + 0)"], "the behaviour changed"
END
