#!/usr/bin/env bash
# peft calls its own bias tensors damaged when it saves an adapter with lora_bias=True.
#
# peft 0.21.2, LoraConfig(lora_bias=True), one process, no DeepSpeed and no FSDP.
# Expected: save_pretrained is silent; the file loads.
# Seen: a warning that a tensor has an "invalid shape" of (16,), and that DeepSpeed ZeRO-3 or FSDP shards were not
# gathered and the file is incomplete. The check wants every lora_A and lora_B of two dimensions or more; the bias of
# lora_B has one. The file is complete: it loads, and the outputs are equal to the last bit.
# It matters to whoever takes warnings at saving seriously, as one should: there is nothing to gather.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 peft==0.21.2 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(48, 16))
weights = {name: value.clone() for name, value in model.state_dict().items()}
adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["0"], lora_bias=True, init_lora_weights=False))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    adapted.save_pretrained("adapter")
said = [str(one.message) for one in seen if "invalid shape" in str(one.message)]
print("said:", *said)
again = torch.nn.Sequential(torch.nn.Linear(48, 16))
again.load_state_dict(weights)
x = torch.randn(5, 48)
equal = torch.equal(PeftModel.from_pretrained(again, "adapter")(x), adapted.eval()(x))
print("the loaded adapter computes the same:", equal)
assert said and "ZeRO-3" in said[0] and "(16,)" in said[0] and equal, "the behaviour changed"
EOF
