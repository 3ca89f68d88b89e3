"""Small single files in CompVis's layout, as wide as the public head widths and groups allow."""

from __future__ import annotations

from pathlib import Path

from scripts.make_random_checkpoint import Random, write_single_file
from tests.checkpoints import SD21, Config, vary

SECOND: Config = {
    "text_encoder": {
        "hidden_act": "gelu",
        "hidden_size": 128,
        "intermediate_size": 96,
        "num_attention_heads": 2,
        "num_hidden_layers": 23,
        "vocab_size": 49408,
    },
    "unet": {
        "attention_head_dim": [1, 2],
        "block_out_channels": [64, 128],
        "cross_attention_dim": 128,
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "layers_per_block": 1,
        "sample_size": 96,
        "use_linear_projection": True,
    },
    "vae": {
        "block_out_channels": [32, 64],
        "down_block_types": ["DownEncoderBlock2D"] * 2,
        "up_block_types": ["UpDecoderBlock2D"] * 2,
        "layers_per_block": 1,
    },
    "scheduler": {**SD21["scheduler"], "prediction_type": "v_prediction"},
}
"""Stable Diffusion 2.1, short and narrow, but for the layers of its text encoder: the file has one more."""

FIRST = vary(
    SECOND,
    text_encoder={
        "hidden_act": "quick_gelu",
        "hidden_size": 64,
        "num_attention_heads": 1,
        "num_hidden_layers": 2,
    },
    unet={
        "attention_head_dim": 8,
        "block_out_channels": [32, 64, 96],
        "cross_attention_dim": 64,
        "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
        "layers_per_block": 2,
        "sample_size": 64,
        "use_linear_projection": False,
    },
    vae={
        "block_out_channels": [32, 32, 64],
        "down_block_types": ["DownEncoderBlock2D"] * 3,
        "up_block_types": ["UpDecoderBlock2D"] * 3,
        "layers_per_block": 2,
    },
    scheduler={"prediction_type": "epsilon"},
)
"""Stable Diffusion 1.5, short and narrow."""

INPAINTING = vary(
    SECOND, unet={"in_channels": 9, "sample_size": 64}, scheduler={"prediction_type": "epsilon"}
)


def write(path: Path, config: Config, dtype: str = "float32", seed: int = 0) -> Path:
    """Write a single file of `config`; returns `path`."""
    write_single_file(path, config, Random(seed, dtype))
    return path
