#!/usr/bin/env bash
# With exponential or beta sigmas diffusers' DPM-Solver, UniPC and DEIS begin at timestep 999 under NumPy 1, at 998 under NumPy 2.
#
# diffusers 0.42.0 with NumPy 1.26.4 and 2.3.5; the noise schedule of Stable Diffusion 1.5.
# Expected: one table of timesteps from one version of diffusers, and the last timestep of training, 999, at the first step.
# Seen: under NumPy 2 the first timestep is 998, in any number of steps; the others are equal. The first sigma is stored as
# float32 and its logarithm taken again to find its timestep. NumPy 1 takes that of a lone number in float64, NumPy 2 in
# float32, where it lies a rounding below the table's last entry: 998.99998, which these solvers cut to a whole number.
# Karras sigmas and Euler, which keeps fractions, are as before.
# It matters to whoever compares images with stored ones: after an upgrade of NumPy alone the U-Net's first evaluation is at
# another timestep, and no version of diffusers, PyTorch or the model has changed.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
cat > "$folder/first.py" <<'EOF'
import diffusers
import numpy

settings = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
expected = 999 if numpy.__version__.startswith("1.") else 998
for name in ("DPMSolverMultistepScheduler", "UniPCMultistepScheduler", "DEISMultistepScheduler"):
    for kind in ("exponential", "beta", "karras"):
        scheduler = getattr(diffusers, name)(**settings, **{f"use_{kind}_sigmas": True})
        scheduler.set_timesteps(20)
        first = scheduler.timesteps[:3].tolist()
        print(f"NumPy {numpy.__version__}, {name}, {kind}: {first}")
        assert first[0] == (999 if kind == "karras" else expected), "the behaviour changed"
EOF
for version in 1.26.4 2.3.5; do
    "$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 scipy==1.16.3 "numpy==$version"
    "$folder/venv/bin/python" "$folder/first.py" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
done
