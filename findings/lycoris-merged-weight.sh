#!/usr/bin/env bash
# LyCORIS merges LoHa and LoKr with alpha / rank applied twice: the merged model is not the trained one.
#
# lycoris-lora 4.1.3, LohaModule and LokrModule with lora_dim=2 and alpha=1.
# Expected: get_merged_weight() and merge_to() give a layer that computes what the wrapped layer computed.
# Seen: the difference that they add is half of the trained one, alpha / rank of it. get_diff_weight() already contains
# the factor once more. A plain LoCon of the same rank and alpha is right (1.0), and so is everything with alpha equal
# to the rank, which is why it does not show with the usual settings.
# It matters to whoever trains with alpha below the rank and ships a merged checkpoint: the style is too weak by
# alpha / rank, which is 1/16 for alpha 1 and rank 16.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 lycoris-lora==4.1.3 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import torch
from lycoris.modules.locon import LoConModule
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule

torch.manual_seed(0)
ratios = {}
for kind, settings in ((LoConModule, {}), (LohaModule, {}), (LokrModule, {"factor": 4})):
    layer = torch.nn.Linear(48, 16, bias=False)
    module = kind("x", layer, lora_dim=2, alpha=1, **settings)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    x, before = torch.randn(5, 48), layer.weight.detach().clone()
    plain = layer(x)
    module.apply_to()
    trained = layer(x) - plain
    module.restore()
    merged = x @ (module.get_merged_weight()[0] - before).T
    module.merge_to(1.0)
    in_place = x @ (layer.weight - before).T
    ratios[kind] = (merged / trained).median().item(), (in_place / trained).median().item()
    print(f"{kind.__name__}: get_merged_weight adds {ratios[kind][0]:.3f} of what was trained,",
          f"merge_to {ratios[kind][1]:.3f}")
assert abs(ratios[LoConModule][0] - 1) < 0.01, "the behaviour changed"
for kind in (LohaModule, LokrModule):
    assert all(abs(ratio - 0.5) < 0.01 for ratio in ratios[kind]), "the behaviour changed"
EOF
