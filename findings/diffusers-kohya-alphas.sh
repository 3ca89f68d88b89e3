#!/usr/bin/env bash
# diffusers gives all attention layers of a kohya LoRA one alpha: a layer with alpha 1 beside 4 is 4 times too strong.
#
# diffusers 0.42.0, peft 0.21.2, transformers 5.23.0; a file with three layers of rank 4, alphas 4, 4 and 1.
# Expected: alpha / rank of each layer: 1, 1 and 0.25. The format has an alpha for each layer for that reason.
# Seen: 1, 1 and 1. The loader makes lora_alpha of the config from the most common alpha, and a pattern for the others;
# for attention layers the pattern has names of diffusers' old format (processor.to_q_lora.down.weight) that match
# nothing. peft says so in a warning, and goes on.
# It matters for files that were merged, resized or trained by block: the layers that were turned down come back at
# full strength. sd-scripts, which writes the format, uses each layer's own.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 transformers==5.23.0 peft==0.21.2 \
    accelerate==1.15.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import save_file

unet = UNet2DConditionModel(
    sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
)
others = dict.fromkeys(("vae", "text_encoder", "tokenizer", "safety_checker", "feature_extractor"))
pipeline = StableDiffusionPipeline(unet=unet, scheduler=DDIMScheduler(steps_offset=1, clip_sample=False), **others,
                                   requires_safety_checker=False)
alphas = {"attn1.to_q": 4.0, "attn1.to_k": 4.0, "attn2.to_q": 1.0}
file = {}
for layer, alpha in alphas.items():
    name = "lora_unet_up_blocks_0_attentions_0_transformer_blocks_0_" + layer.replace(".", "_")
    file[f"{name}.lora_down.weight"], file[f"{name}.lora_up.weight"] = torch.randn(4, 64), torch.randn(64, 4)
    file[f"{name}.alpha"] = torch.tensor(alpha)
save_file(file, "kohya.safetensors")
pipeline.load_lora_weights("kohya.safetensors")
seen = {name.split("blocks.0.")[-1]: next(iter(module.scaling.values()))
        for name, module in unet.named_modules() if getattr(module, "scaling", None)}
for layer, alpha in alphas.items():
    print(f"{layer}: alpha {alpha:g} of rank 4, scaled by {seen[layer]:g}")
assert seen == dict.fromkeys(alphas, 1.0), "the behaviour changed"
EOF
