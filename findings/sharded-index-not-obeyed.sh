#!/usr/bin/env bash
# Where two files of a checkpoint hold one tensor, diffusers and transformers take the later name, and not what the index says.
#
# diffusers 0.42.0, transformers 5.23.0, safetensors 0.8.0; a checkpoint in shards, one more file with one of their tensors
# corrected, and the index changed to that file for it.
# Expected: the index maps each tensor to one file, and that one is read: that is all that it is for.
# Seen: the index only lists the files. All tensors of all of them are loaded in the order of the files' names, the last one
# wins. corrected.safetensors comes before diffusion_pytorch_model-… and before model-…, so that the old tensor is back
# without a warning; the same file as repaired.safetensors wins.
# It matters to whoever mends or retrains a few tensors of a large checkpoint and ships them beside its shards, as some are
# published ("overlay"): whether that does anything depends on a letter. Readers that do ask the index read other weights.
# Written: for these two nowhere that we found; pull request 54230 of vllm-project/vllm (2026, open) is about the same there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 transformers==5.23.0 safetensors==0.8.0 \
    accelerate==1.15.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import json
from collections import Counter
from pathlib import Path

import torch
from diffusers import UNet2DModel
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel


def loaded(model, extra):
    """A number of the corrected tensor, 7 if the correction was read, its name and the shard that has the old one."""
    folder = Path(type(model).__name__ + extra)
    model.save_pretrained(folder, max_shard_size="100KB")
    index = next(folder.glob("*.index.json"))
    content = json.loads(index.read_text())
    shard = Counter(content["weight_map"].values()).most_common(1)[0][0]
    name = next(tensor for tensor, file in content["weight_map"].items() if file == shard)
    old = load_file(folder / shard)[name]
    save_file({name: torch.full_like(old, 7.0)}, folder / extra, metadata={"format": "pt"})
    content["weight_map"][name] = extra
    index.write_text(json.dumps(content))
    weights = type(model).from_pretrained(folder).state_dict()
    found = weights[name if name in weights else name.removeprefix("text_model.")]
    assert (found == 7.0).all() or torch.equal(found, old)
    return found.flatten()[0].item(), name, shard


models = (
    UNet2DModel(
        sample_size=8, block_out_channels=(32, 32), down_block_types=("DownBlock2D",) * 2,
        up_block_types=("UpBlock2D",) * 2, layers_per_block=1, norm_num_groups=8,
    ),
    CLIPTextModel(CLIPTextConfig(vocab_size=999, hidden_size=32, intermediate_size=64, num_hidden_layers=4)),
)
for model in models:
    for extra, obeyed in (("corrected.safetensors", False), ("repaired.safetensors", True)):
        value, name, shard = loaded(model, extra)
        print(f"{type(model).__name__}: the index has {name} in {extra}, where it is 7; {shard} has it too: "
              f"loaded {value:.3f}")
        assert (value == 7.0) == obeyed, "the behaviour changed"
END
