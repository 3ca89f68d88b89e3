#!/usr/bin/env bash
# CLIP's projected text model gives every prompt without the end token the same text_embeds.
#
# transformers 5.23.0, CLIPTextModelWithProjection with eos_token_id 99 of a vocabulary of 100; ids that are all in
# the vocabulary and hold no 99, as a chunk of a long prompt or another tokenizer's prompt does.
# Expected: an error, a warning, or the last token's state.
# Seen: neither. The state of the first token is pooled, which attends to itself alone: two prompts that share only
# the first token have equal text_embeds to the last bit. With 99 in the last place they differ.
# It matters to Stable Diffusion XL, which gets the pooled vector beside the states: the images lose that half of the
# prompt, and nothing fails.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 transformers==5.23.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'PY' || { cat "$folder/log"; exit 1; }
import warnings

import torch
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

warnings.simplefilter("error")
torch.manual_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
config = CLIPTextConfig(
    vocab_size=100, projection_dim=16, max_position_embeddings=8, bos_token_id=98, eos_token_id=99, pad_token_id=99, **sizes
)
model = CLIPTextModelWithProjection(config).eval()


def pooled(*ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).text_embeds


without = torch.equal(pooled(98, 5, 6, 7, 8, 9, 10, 11), pooled(98, 40, 41, 42, 43, 44, 45, 46))
ended = torch.equal(pooled(98, 5, 6, 7, 8, 9, 10, 99), pooled(98, 40, 41, 42, 43, 44, 45, 99))
print("equal text_embeds of two prompts without the end token:", without)
print("equal text_embeds of the same prompts with it:", ended)
assert without and not ended, "the behaviour changed"
PY
