#!/usr/bin/env bash
# The same LoKr settings are 16 times as strong in LyCORIS as in peft, where both matrices are whole.
#
# lycoris-lora 4.1.3 and peft 0.21.2, a layer of 48 to 16, factor 4, rank 16, alpha 1.
# Expected: the change is kron(w1, w2) times alpha / rank in both, or in neither.
# Seen: the rank is larger than the matrices, so that both store w1 and w2 whole, with the same names and shapes.
# LyCORIS then sets alpha to the rank: the factor is 1. peft keeps alpha / rank = 0.0625.
# It matters to whoever carries a LoKr from one to the other, or writes a reader for both: a rank above the matrices'
# own is how both libraries are told to keep them whole, and the larger it is, the weaker peft's adapter becomes.
# Written: LyCORIS logs that it uses "full matrix mode"; neither says what becomes of alpha there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 lycoris-lora==4.1.3 peft==0.21.2 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import torch
from lycoris.modules.lokr import LokrModule
from peft import LoKrConfig, get_peft_model

torch.manual_seed(0)
w1, w2, x = torch.randn(4, 4), torch.randn(4, 12), torch.randn(5, 48)
change = x @ torch.kron(w1, w2).T


def strength(layer, result):
    return ((result - x @ layer.weight.T) / change).median().item()


def fill(module):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "lokr_w" in name:
                parameter.copy_(w1 if "lokr_w1" in name else w2)


layer = torch.nn.Linear(48, 16, bias=False)
module = LokrModule("x", layer, lora_dim=16, alpha=1, factor=4)
fill(module)
module.apply_to()
ours = strength(layer, layer(x))
model = torch.nn.Sequential(torch.nn.Linear(48, 16, bias=False))
settings = LoKrConfig(r=16, alpha=1, target_modules=["0"], decompose_factor=4, init_weights=False)
adapted = get_peft_model(model, settings)
fill(adapted)
theirs = strength(adapted.base_model.model[0].base_layer, adapted(x))
print(f"the change is kron(w1, w2) times {ours:.4f} in LyCORIS, {theirs:.4f} in peft")
assert abs(ours - 1) < 0.01 and abs(theirs - 1 / 16) < 0.001, "the behaviour changed"
EOF
