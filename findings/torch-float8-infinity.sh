#!/usr/bin/env bash
# In torch, infinity becomes 448 in float8_e4m3fn, and stays infinity in float8_e5m2; other libraries differ again.
#
# torch 2.13.0 on the CPU, ml_dtypes 0.5.4, onnxruntime 1.23.2.
# Expected: what does not fit becomes NaN (e4m3fn has no infinity), or everything saturates, and one rule for both.
# Seen: a million and infinity are both 448 in torch's e4m3fn, and infinity in its e5m2. ml_dtypes, which JAX and
# NumPy code use: NaN and infinity. ONNX Runtime's Cast: 448 and 57344, infinity included.
# It matters to whoever stores checkpoints in float8: an overflowed weight or a broken scale comes out of torch as an
# ordinary number, so that isfinite() over the file finds nothing, and the two formats fail in different ways.
# Written: ONNX documents its rule with Cast's attribute `saturate`; torch documents none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 ml_dtypes==0.5.4 onnx==1.19.1 \
    onnxruntime==1.23.2 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import ml_dtypes
import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

values = np.array([448, 500, 1e6, np.inf], np.float32)


def onnx(kind):
    """Return `values` cast to float8 and back by ONNX Runtime."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=kind), helper.make_node("Cast", ["y"], ["z"], to=1)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xz"]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]),
                              opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": values})[0]


seen = {}
for name, kind in (("float8_e4m3fn", TensorProto.FLOAT8E4M3FN), ("float8_e5m2", TensorProto.FLOAT8E5M2)):
    with np.errstate(over="ignore"):
        seen["ml_dtypes", name] = values.astype(getattr(ml_dtypes, name)).astype(np.float32)
    seen["torch", name] = torch.from_numpy(values).to(getattr(torch, name)).float().numpy()
    seen["onnxruntime", name] = onnx(kind)
for (library, name), result in seen.items():
    print(f"{name} by {library}: {values.tolist()} become {result.tolist()}")
assert seen["torch", "float8_e4m3fn"].tolist() == [448.0] * 4, "the behaviour changed"
assert seen["torch", "float8_e5m2"].tolist()[2:] == [np.inf] * 2, "the behaviour changed"
assert np.isnan(seen["ml_dtypes", "float8_e4m3fn"][1:]).all(), "the behaviour changed"
assert seen["onnxruntime", "float8_e5m2"].tolist()[2:] == [57344.0] * 2, "the behaviour changed"
EOF
