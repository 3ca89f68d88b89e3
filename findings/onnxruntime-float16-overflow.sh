#!/usr/bin/env bash
# ONNX Runtime's CPU runs a float16 model in float32 inside: an overflow that a GPU meets does not happen there.
#
# onnxruntime 1.23.2, onnx 1.19.1: x * x, its mean, square root, and x divided by it, all tensors float16.
# Expected: float16 arithmetic. 300 * 300 is 90000, more than 65504: infinity, and a result of 0. ONNX's own reference
# evaluator says so.
# Seen: 1.0, the right number. Float16 operators are put between casts to float32, and the casts between two operators
# are removed, with every optimisation switched off as well. If the product itself is an output, it is infinite.
# It matters to whoever tests a float16 U-Net or VAE on the CPU before it goes to a phone or a browser: the CPU cannot
# show the overflow, and looking at it (adding an output to the graph) changes what is computed.
# Written: the casts are in the documentation of float16 models; that they hide overflows is not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile onnx==1.19.1 onnxruntime==1.23.2 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x = np.full((1, 64), 300, np.float16)


def model(*outputs):
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["mean"], keepdims=1),
        helper.make_node("Sqrt", ["mean"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normed"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [1, 64]) for name in ("x", *outputs)]
    graph = helper.make_graph(nodes, "rms_norm", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(made):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [float(one.ravel()[0]) for one in session.run(None, {"x": x})]


with np.errstate(over="ignore"):
    reference = float(ReferenceEvaluator(model("normed")).run(None, {"x": x})[0].ravel()[0])
alone, watched = run(model("normed")), run(model("normed", "square"))
print(f"ONNX's reference: {reference}; ONNX Runtime: {alone[0]}; with the square as an output: {watched}")
assert reference == 0 and alone[0] == 1 and watched[1] == float("inf"), "the behaviour changed"
EOF
