#!/usr/bin/env bash
# coremltools makes the timestep embedding float16, which diffusers asks for in float32: some of its sines are a third off.
#
# coremltools 9.0, torch 2.13.0, diffusers 0.42.0: Timesteps(320) of Stable Diffusion, all else as it is by default.
# Expected: what a model says to do in float32 is done in float32. diffusers casts timesteps and frequencies to float32 even in
# a float16 network, since the products reach 1000.
# Seen: the cast is gone, and the timestep itself, its product with the frequencies and the sines' input are float16. Between
# 512 and 1024 float16 has halves only: timestep 998.3 becomes 998.5 before anything is computed, and each product is
# up to a quarter off, in radians. Replayed in NumPy, with exact sines, entries are 0.3 and more off. No warning.
# It matters to converted UNets: the first steps, which decide on the composition, see other timesteps than the network's.
# op_selector in FP16ComputePrecision keeps these operations in float32, as the last lines show.
# Written: float16 by default is documented; pull request 15811 of apache/tvm (2023) keeps this embedding in float32 for it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 coremltools==9.0 diffusers==0.42.0 transformers==5.23.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import coremltools
import numpy as np
import torch
from diffusers.models.embeddings import Timesteps

embedding = Timesteps(320, flip_sin_to_cos=True, downscale_freq_shift=0).eval()
TYPES = {"fp16": np.float16, "fp32": np.float32}


def converted(**options):
    model = coremltools.convert(
        torch.jit.trace(embedding, torch.tensor([1.0])), inputs=[coremltools.TensorType("timestep", shape=(1,), dtype=np.float32)],
        minimum_deployment_target=coremltools.target.iOS17, skip_model_load=True, **options,
    )
    return model._mil_program.functions["main"]


def replayed(function, timestep):
    """Return the program's result, each operation exact and then rounded to its type."""
    values = {"timestep": np.array([timestep], np.float32)}
    for operation in function.operations:
        given = {name: values.get(value.name, value.val) for name, value in operation.inputs.items() if name != "values"}
        many = [values[value.name].astype(np.float64) for value in operation.inputs.get("values", ())]
        x = given["x"].astype(np.float64) if "x" in given else None
        if operation.op_type == "const":
            continue
        if operation.op_type == "slice_by_index":
            columns = slice(given["begin"][1], None if given["end_mask"][1] else given["end"][1])
            result = x[:, columns]
        elif operation.op_type == "mul":
            result = x * given["y"].astype(np.float64)
        else:
            result = {
                "cast": lambda: x, "identity": lambda: x, "expand_dims": lambda: x[:, None], "sin": lambda: np.sin(x),
                "cos": lambda: np.cos(x), "concat": lambda: np.concatenate(many, -1),
            }[operation.op_type]()
        output = operation.outputs[0]
        values[output.name] = result.astype(TYPES[output.dtype.__name__])
    return values[function.outputs[0].name].astype(np.float64)


plain = converted()
types = {operation.op_type: operation.outputs[0].dtype.__name__ for operation in plain.operations if operation.op_type != "const"}
print(f"operations: {types}")
assert types["cast"] == types["mul"] == types["sin"] == types["cos"] == "fp16", "the behaviour changed"
keep = coremltools.transform.FP16ComputePrecision(op_selector=lambda operation: operation.op_type == "concat")
kept = converted(compute_precision=keep)
for timestep in (981.0, 961.0, 998.3, 21.0):
    wanted = embedding(torch.tensor([timestep])).double().numpy()
    half = embedding(torch.tensor([timestep])).half().double().numpy()
    off, best, kept_off = (np.abs(each - wanted).max() for each in (replayed(plain, timestep), half, replayed(kept, timestep)))
    print(f"timestep {timestep:g}: {off:.3f} off, rounded only at the end {best:.4f}, with float32 kept {kept_off:.4f}")
    assert (off > 0.15) == (timestep > 512) and kept_off < 1e-3, "the behaviour changed"
EOF
