"""Recognises weight files that are no Stable Diffusion 1.x, 2.x or XL, to refuse them by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msd.conversion.sources.compvis.ema import UNET
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights

ONLY = "only Stable Diffusion 1.x, 2.x and XL are supported"
XL = "conditioner.embedders."
"""The prefix of Stable Diffusion XL's text encoders."""

LORA = r"(.*\.)?(lora_[A-Za-z]|hada_|lokr_|oft_)|.*\.(lora_|hada_|lokr_)"
OTHER_CONDITIONS = r"(model\.diffusion_model\.)?label_emb\."
KINDS = (
    (LORA, "is a LoRA, not a checkpoint; give the checkpoint, and this file with --lora"),
    (r"(model\.diffusion_model\.)?joint_blocks\.", f"is a Stable Diffusion 3, and {ONLY}"),
    (
        r"(model\.diffusion_model\.)?(double|single)_blocks\.|single_transformer_blocks\.",
        f"is a Flux, and {ONLY}",
    ),
    (r"(model\.diffusion_model\.)?(clip_txt|effnet)_mapper\.", f"is a Stable Cascade, and {ONLY}"),
    (
        r"(model\.(diffusion_model\.)?)?(blocks|transformer_blocks|double_layers|single_layers)\.\d"
        r"|model\.diffusion_model\.layers\.\d",
        f"is a diffusion transformer, as PixArt, AuraFlow and Wan are, and {ONLY}",
    ),
    (r"conditioner\.embedders\.0\.open_clip\.", f"is a Stable Video Diffusion, and {ONLY}"),
    (
        r"conditioner\.embedders\.0\.model\.",
        "is Stable Diffusion XL's refiner, which goes on where the base ends; give the base",
    ),
    (
        r"control_model\.|input_hint_block\.|zero_convs\.|controlnet_",
        "is a ControlNet, not a checkpoint; give the checkpoint, and this file with --controlnet",
    ),
    (
        r"(emb_params|clip_[lg])\Z|string_to_param\b",
        "is a textual inversion, not a checkpoint; give the checkpoint, and this file with --embedding",
    ),
    (
        r"(taesd_)?((en|de)coder\.)?\d+\.(conv\.\d\.)?(weight|bias)\Z",
        "is a tiny autoencoder; give the checkpoint, and this file with --vae or --preview-vae",
    ),
    (
        r"model\.1\.sub\.|RRDB_trunk\.|body\.0\.rdb1\.",
        "is a network that enlarges images; give the checkpoint, and this file with --upscaler",
    ),
    (r"(image_proj|ip_adapter)\.", "is an IP-Adapter, which is not supported"),
    (r"body\.0\.(block1|resnets|in_conv)\.|adapter\.body\.", "is a T2I-Adapter, which is not supported"),
    (r".*\bmotion_modules\.", f"is an AnimateDiff, and {ONLY}"),
    (
        r"(edm_mean|edm_std|edm_vpred\.\w+)\Z",
        "has a U-Net trained by EDM, as Playground v2.5 and CosXL are, with noise and predictions of its own:"
        f" {ONLY}",
    ),
    (r"depth_model\.", "is a Stable Diffusion that reads a depth map, which is not supported"),
    (r"low_scale_model\.", "is an upscaler, which is not supported"),
    (
        r"(model\.diffusion_model\.)?time_embed\w*\.cond_proj\.",
        "has a U-Net with guidance embeddings (cond_proj), as latent consistency models have, "
        "for which this layout has no name; give the folder that diffusers wrote",
    ),
    (
        OTHER_CONDITIONS,
        "has a U-Net with other conditions than text (label_emb), as unCLIP and upscalers have, and "
        f"Stable Diffusion XL beside its text encoders ({XL}*), and {ONLY}",
    ),
    (
        r"(down_blocks|up_blocks|mid_block|text_model)\.|(encoder|decoder)\.(down_blocks|up_blocks)\.",
        "is one network as diffusers or transformers saves it; give the folder with a model_index.json, or a"
        " checkpoint and this as its --unet or --vae",
    ),
)
"""A pattern for the start of a name, and the kind of file with such a name; the first match decides."""

VAE = "first_stage_model."
PARTS = {
    UNET: "U-Net",
    VAE: "VAE",
    "cond_stage_model.": "text encoder",
}
XL_PARTS = {
    UNET: "U-Net",
    VAE: "VAE",
    f"{XL}0.": "text encoder",
    f"{XL}1.": "second text encoder",
}
BARE = (
    (r"input_blocks\.", "U-Net"),
    (r"(encoder|decoder)\.(conv_in|down|mid|up)\b", "VAE"),
    (r"transformer\.|resblocks\.|encoder\.block\.", "text encoder"),
)
OPTIONS = {"U-Net": "--unet", "VAE": "--vae"}
"""By which options a part replaces that of another checkpoint."""

CHANNELS = {5: "reads a depth map", 7: "is an upscaler"}
"""The purpose of a U-Net by its number of input channels."""


def refuse_other_kinds(path: Path, tensors: Mapping[str, Weights], given: Collection[str] = ()) -> None:
    """Raise BadCheckpoint, naming the kind of file, unless it has the networks of a Stable Diffusion.

    Those under the prefixes that are `given` by other files it may lack.
    """
    xl = is_xl(tensors)
    allowed = {
        pattern for pattern, is_there in ((OTHER_CONDITIONS, xl), (LORA, _any(UNET, tensors))) if is_there
    }
    for pattern, what in KINDS:
        if pattern not in allowed and any(re.match(pattern, name) for name in tensors):
            raise BadCheckpoint(f"{path} {what}")
    _refuse_other_unets(path, tensors)
    parts = XL_PARTS if xl else PARTS
    missing = [f"{what} ({p}*)" for p, what in parts.items() if not _any(p, tensors)]
    if len(missing) == len(parts):
        for pattern, what in BARE:
            if any(re.match(pattern, name) for name in tensors):
                others = " and no ".join(part for part in PARTS.values() if part != what)
                option = OPTIONS.get(what)
                also = f", or one and this as its {option}" if option else ""
                raise BadCheckpoint(
                    f"{path} is a {what} alone, with no {others}; give a whole checkpoint{also}"
                )
        raise BadCheckpoint(
            f"{path} contains no part of a Stable Diffusion; it should have {', '.join(missing)}"
        )
    lacking = {p: what for p, what in parts.items() if p not in given and not _any(p, tensors)}
    if lacking:
        names = " and no ".join(f"{what} ({prefix}*)" for prefix, what in lacking.items())
        raise BadCheckpoint(f"{path} has no {names}; {_remedy(lacking)}")


def _refuse_other_unets(path: Path, tensors: Mapping[str, Weights]) -> None:
    others = [name for name in tensors if name.startswith(UNET)]
    if others and not _any(f"{UNET}input_blocks.", tensors):
        raise BadCheckpoint(
            f"{path} has {others[0]} and no {UNET}input_blocks.*, with which each U-Net of CompVis's begins:"
            f" it is of another model, and {ONLY}"
        )
    channels = tensors.get(f"{UNET}input_blocks.0.0.weight")
    if channels is not None and len(channels.shape) == 4 and channels.shape[1] in CHANNELS:
        raise BadCheckpoint(
            f"{path} has a U-Net of {channels.shape[1]} input channels: it {CHANNELS[channels.shape[1]]}, "
            "which is not supported"
        )


def unmerged(tensors: Iterable[str]) -> Iterator[str]:
    """Yield a sentence where a LoRA's tensors are left among a checkpoint's; diffusers ignores them too."""
    names = [name for name in tensors if re.match(LORA, name)]
    if names:
        more = f" and {len(names) - 1} more, which are" if names[1:] else ", which is"
        yield f"the file has {names[0]}{more} of a LoRA that is not merged into it: left out, as in diffusers"


def is_xl(tensors: Mapping[str, Weights]) -> bool:
    """Whether the tensors are those of a Stable Diffusion XL in one file."""
    return _any(XL, tensors)


def _any(prefix: str, tensors: Mapping[str, Weights]) -> bool:
    return any(name.startswith(prefix) for name in tensors)


def _remedy(lacking: Collection[str]) -> str:
    if [*lacking] == [VAE]:
        return "give one with --vae, or a whole checkpoint"
    return "give a whole checkpoint"
