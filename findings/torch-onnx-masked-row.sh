#!/usr/bin/env bash
# Where a mask forbids all keys, PyTorch's attention gives 0, and its ONNX export the mean of all that is forbidden.
#
# torch 2.13.0, onnxscript 0.7.2 (both as they are by default: dynamo, opset 20), onnx 1.23.2; onnxruntime 1.32.0.
# Expected: the exported file computes what scaled_dot_product_attention does: 0 for a query that may attend to nothing. The
# file has the guard for it: Softmax, IsNaN, Where 0.
# Seen: forbidden scores get the lowest float32, -3.4e38, not minus infinity. In a row of nothing else all scores are equal; the
# softmax is not NaN but 1 / keys, the guard never acts, and the result is the mean of the forbidden values. Queries with at least
# one key are right. With opset 23, one Attention, and with dynamo=False, minus infinity, the result is 0.
# It matters for guidance without a prompt by an empty mask, and for batches in which one prompt has no tokens: the PyTorch model
# adds nothing there, the exported one the mean of the padding, and the difference of the two passes is scaled up by guidance.
# Written: pull request 2479 of microsoft/onnxscript (2025) brings the guard, 2654 (2025) the lowest float.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import contextlib
import io

import numpy as np
import onnx
import onnxruntime
import torch


class Attention(torch.nn.Module):
    def forward(self, queries, keys, mask):
        return torch.nn.functional.scaled_dot_product_attention(queries, keys, keys, attn_mask=mask)


torch.manual_seed(0)
queries, keys = torch.randn(2, 1, 4, 8), torch.randn(2, 1, 6, 8)
mask = torch.ones(2, 1, 4, 6, dtype=torch.bool)
mask[0, ..., 4:] = False
mask[1] = False
inputs = {"queries": queries, "keys": keys, "mask": mask}
wanted = Attention()(*inputs.values()).numpy()
mean = keys[1, 0].mean(0).numpy()


def exported(**options):
    """Return the exported file's result, and its operations after the scores."""
    file = io.BytesIO()
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(Attention(), tuple(inputs.values()), file, input_names=list(inputs), **options)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    names = [node.op_type for node in onnx.load_from_string(file.getvalue()).graph.node if node.op_type != "Constant"]
    return session.run(None, {name: each.numpy() for name, each in inputs.items()})[0], names[-5:]


assert not wanted[1].any(), "the behaviour changed"
for options in ({}, {"opset_version": 18}, {"opset_version": 23}, {"opset_version": 18, "dynamo": False}):
    result, names = exported(**options)
    some, none = (np.abs(result[n] - wanted[n]).max() for n in (0, 1))
    from_mean = np.abs(result[1, 0] - mean).max()
    print(f"{options or 'by default'}: ends in {', '.join(names)}; {some:.0e} off with some keys, {none:.2f} off with none, "
          f"which is {from_mean:.0e} off the mean")
    assert some < 1e-5, "the behaviour changed"
    averaged = options.get("opset_version") != 23 and options.get("dynamo", True)
    assert (from_mean < 1e-5) == averaged and (none < 1e-5) != averaged, "the behaviour changed"
EOF
