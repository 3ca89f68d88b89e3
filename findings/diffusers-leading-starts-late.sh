#!/usr/bin/env bash
# With more than 500 steps, diffusers starts in the middle of the schedule, and 400 steps start at 799.
#
# diffusers 0.42.0, timestep_spacing="leading", which Stable Diffusion 1.x and 2.x come with, and 1000 training steps.
# Expected: more steps cut the same way from noise to image finer.
# Seen: the distance of two timesteps is 1000 // steps, and the rest is cut off at the noisy end. 50 steps begin at
# 981, 300 at 898, 400 at 799, 501 at 501, 600 at 600. The latent is pure noise at all of them, but the U-Net is told
# that at 501 it holds 52 percent of an image. 500 steps begin at 999 again. No warning.
# It matters for "as good as possible" references with many steps: 600 steps are a worse image than 50, in contrast
# and composition, and are then taken for the truth that a faster setting is compared with.
# Written: issue 12588 of huggingface/diffusers sees it in the RePaint scheduler; of the others nothing that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
from diffusers import DDIMScheduler, EulerDiscreteScheduler, PNDMScheduler

settings = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
starts = {}
for kind, more in ((DDIMScheduler, {}), (PNDMScheduler, {"skip_prk_steps": True}), (EulerDiscreteScheduler, {})):
    scheduler = kind(**settings, **more, timestep_spacing="leading")
    for steps in (50, 300, 400, 500, 501, 600):
        scheduler.set_timesteps(steps)
        starts[kind.__name__, steps] = start = int(scheduler.timesteps[0])
        image = scheduler.alphas_cumprod[start].sqrt().item()
        print(f"{kind.__name__}, {steps} steps: the first is {start}, where a latent holds {image:.0%} of an image")
for kind in ("DDIMScheduler", "EulerDiscreteScheduler"):
    got = [starts[kind, steps] for steps in (50, 300, 400, 500, 501, 600)]
    assert got == [981, 898, 799, 999, 501, 600], "the behaviour changed"
EOF
