"""The four parts of the demo model: Stable Diffusion 2.1's shape, narrower.

The configurations follow those published with `stabilityai/stable-diffusion-2-1-base`; only widths, heads,
the depth of the text encoder and the image size differ.
"""

from __future__ import annotations

from typing import Any

from scripts.lab.demo_training.vocabulary import LENGTH

TEXT_WIDTH = 128
PICTURE = 128
LATENT = PICTURE // 8


def autoencoder() -> Any:
    """Return the VAE: (B, 3, 128, 128) in −1…1 ↔ latents (B, 4, 16, 16)."""
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=4,
        block_out_channels=(32, 64, 96, 96),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        norm_num_groups=32,
        act_fn="silu",
        sample_size=PICTURE,
    )


def unet() -> Any:
    """Return the U-Net: latents (B, 4, 16, 16), timesteps (B,), text (B, 77, 128) → noise (B, 4, 16, 16)."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=LATENT,
        in_channels=4,
        out_channels=4,
        block_out_channels=(64, 96, 96, 96),
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        mid_block_type="UNetMidBlock2DCrossAttn",
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        layers_per_block=2,
        attention_head_dim=(4, 6, 6, 6),
        cross_attention_dim=TEXT_WIDTH,
        use_linear_projection=True,
        norm_num_groups=32,
        act_fn="silu",
    )


def text_encoder(tokens: int) -> Any:
    """Return the text encoder: ids (B, 77) below `tokens`, the two special ones last → (B, 77, 128)."""
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=tokens,
            hidden_size=TEXT_WIDTH,
            intermediate_size=4 * TEXT_WIDTH,
            projection_dim=TEXT_WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=LENGTH,
            hidden_act="gelu",
            bos_token_id=tokens - 2,
            eos_token_id=tokens - 1,
            pad_token_id=0,
        )
    )


def scheduler() -> Any:
    """Return the DDIM scheduler with Stable Diffusion 2.1-base's own settings."""
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        num_train_timesteps=1000,
        beta_schedule="scaled_linear",
        beta_start=0.00085,
        beta_end=0.012,
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
        prediction_type="epsilon",
    )
