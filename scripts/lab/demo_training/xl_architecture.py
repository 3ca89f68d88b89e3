"""The trained parts of a Stable Diffusion XL of the demo's scenes; its autoencoder is the demo's.

The configurations follow those published with `stabilityai/stable-diffusion-xl-base-1.0`: two text encoders,
no attention at the U-Net's first level, and deeper transformers below. Widths, heads and depths differ.
"""

from __future__ import annotations

from typing import Any

from scripts.lab.demo_training.architecture import LATENT
from scripts.lab.demo_training.vocabulary import LENGTH

FIRST_WIDTH, SECOND_WIDTH = 64, 128
SIZE_WIDTH = 32
"""Sinusoids for each of the six sizes."""


def _text_config(tokens: int, width: int, layers: int, activation: str) -> Any:
    from transformers import CLIPTextConfig

    return CLIPTextConfig(
        vocab_size=tokens,
        hidden_size=width,
        intermediate_size=4 * width,
        projection_dim=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        max_position_embeddings=LENGTH,
        hidden_act=activation,
        bos_token_id=tokens - 2,
        eos_token_id=tokens - 1,
        pad_token_id=0,
    )


def text_encoder(tokens: int) -> Any:
    """Return the first text encoder: ids (B, 77) below `tokens` → states (B, 77, 64)."""
    from transformers import CLIPTextModel

    return CLIPTextModel(_text_config(tokens, FIRST_WIDTH, 3, "quick_gelu"))


def text_encoder_2(tokens: int) -> Any:
    """Return the second: ids (B, 77) → states (B, 77, 128), and a projected vector (B, 128)."""
    from transformers import CLIPTextModelWithProjection

    return CLIPTextModelWithProjection(_text_config(tokens, SECOND_WIDTH, 4, "gelu"))


def unet() -> Any:
    """Return the U-Net: latents (B, 4, 16, 16), states (B, 77, 192), vector (B, 128) and sizes → noise."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=LATENT,
        in_channels=4,
        out_channels=4,
        block_out_channels=(64, 64, 96),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        layers_per_block=2,
        attention_head_dim=(2, 2, 3),
        transformer_layers_per_block=(1, 1, 2),
        cross_attention_dim=FIRST_WIDTH + SECOND_WIDTH,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=SIZE_WIDTH,
        projection_class_embeddings_input_dim=SECOND_WIDTH + 6 * SIZE_WIDTH,
        norm_num_groups=32,
        act_fn="silu",
    )


def scheduler() -> Any:
    """Return the Euler scheduler with Stable Diffusion XL's own settings."""
    from diffusers import EulerDiscreteScheduler

    return EulerDiscreteScheduler(
        num_train_timesteps=1000,
        beta_schedule="scaled_linear",
        beta_start=0.00085,
        beta_end=0.012,
        timestep_spacing="leading",
        steps_offset=1,
        prediction_type="epsilon",
    )
