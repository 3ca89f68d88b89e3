#!/usr/bin/env bash
# In bfloat16, diffusers' EMAModel stops after the first steps: its average of a whole training is the network of the start.
#
# diffusers 0.42.0, torch 2.13.0; EMAModel as it is by default, 10000 steps in which the weights move by 11 percent.
# Expected: an average that follows the weights to within its lag, in any type of weights, or a refusal of 16 bits.
# Seen: in float32 it ends 100 percent of the way. In bfloat16 it has made 1.8 percent of the way at step 1000, and ends at 4;
# in float16 at 16. The average is kept in the weights' type. A step adds (1 - decay) times the difference, and decay grows to
# 0.9999; bfloat16 has eight bits, so what is below a 512th of a weight is rounded away, each time. Nothing is said.
# It matters to whoever trains with weights in 16 bits to save memory: the averaged network, which is what one saves and ships,
# looks trained, since it was at the start, and has hardly learnt anything.
# Written: pull request 1417 of d8ahazard/sd_dreambooth_extension (2023) mends the same there; of diffusers nothing that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import torch
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
start = torch.randn(1000)
end = start * 1.1 + torch.randn(1000) * 0.05
STEPS, MOVING = 10000, 5000


@torch.no_grad()
def followed(kind):
    """Return which part of the weights' way the average has gone, after 1000 steps and at the end, beside the exact one's."""
    weights = torch.nn.Parameter(start.to(kind, copy=True))
    average, exact, ways = EMAModel([weights]), start.double(), []
    for step in range(1, STEPS + 1):
        weights.copy_(torch.lerp(start, end, min(1, step / MOVING)))
        average.step([weights])
        exact += (1 - average.cur_decay_value) * (weights.double() - exact)
        if step in (1000, STEPS):
            ways += [((each.double() - start).norm() / (end - start).norm()).item() for each in (average.shadow_params[0], exact)]
    return ways


print(f"the weights move by {((end - start).norm() / start.norm()).item():.0%}")
seen = {kind: followed(kind) for kind in (torch.float32, torch.float16, torch.bfloat16)}
for kind, (early, exactly, last, finally_) in seen.items():
    print(f"{kind}: {early:.1%} of the way after 1000 steps (exactly {exactly:.1%}), {last:.1%} after {STEPS} ({finally_:.1%})")
assert seen[torch.float32][2] > 0.95, "the behaviour changed"
assert seen[torch.float16][2] < 0.3 and seen[torch.bfloat16][2] < 0.1, "the behaviour changed"
assert min(ways[3] for ways in seen.values()) > 0.95, "the behaviour changed"
EOF
