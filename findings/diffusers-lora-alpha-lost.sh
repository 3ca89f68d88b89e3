#!/usr/bin/env bash
# A LoRA saved by diffusers' save_lora_weights forgets its alpha: loaded again it is four times too weak.
#
# diffusers 0.42.0, peft 0.21.2, transformers 5.23.0; a U-Net's LoRA of rank 4 with lora_alpha=16.
# Expected: load_lora_weights of what save_lora_weights wrote gives the network that was saved.
# Seen: the file has the matrices and no alpha; the loader takes the rank for it. The scale is 4 before, 1 after.
# Only with alpha equal to the rank, as the example scripts have it, nothing is lost. A separate argument
# (unet_lora_adapter_metadata), which is optional and whose absence nothing mentions, keeps the alpha.
# It matters to whoever trains with another alpha and ships the file: every program that reads it is as wrong.
# Written: issue 6087 of huggingface/diffusers (2023, closed); the function's documentation does not warn.
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
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict


def pipeline():
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    others = dict.fromkeys(("vae", "text_encoder", "tokenizer", "safety_checker", "feature_extractor"))
    return StableDiffusionPipeline(unet=unet, scheduler=DDIMScheduler(steps_offset=1, clip_sample=False), **others,
                                   requires_safety_checker=False)


def scales(unet):
    return {factor for module in unet.modules() for factor in getattr(module, "scaling", {}).values()}


@torch.no_grad()
def output(unet):
    generator = torch.Generator().manual_seed(1)
    latent, context = torch.randn(1, 4, 8, 8, generator=generator), torch.randn(1, 77, 32, generator=generator)
    return unet(latent, 5, context).sample


plain = output(pipeline().unet)
trained = pipeline().unet
trained.add_adapter(LoraConfig(r=4, lora_alpha=16, target_modules=["to_q", "to_k"], init_lora_weights=False))
StableDiffusionPipeline.save_lora_weights("lora", unet_lora_layers=get_peft_model_state_dict(trained))
loaded = pipeline()
loaded.load_lora_weights("lora")
before, after = scales(trained), scales(loaded.unet)
print(f"scale: {before} when saved, {after} when loaded")
changes = [(output(unet) - plain).norm().item() for unet in (trained, loaded.unet)]
print(f"change of the output: {changes[0]:.3f} when saved, {changes[1]:.3f} when loaded")
assert before == {4.0} and after == {1.0} and changes[1] < 0.5 * changes[0], "the behaviour changed"
EOF
