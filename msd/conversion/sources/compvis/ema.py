"""EMA weights, which CompVis's training stores beside the plain ones under names without dots."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msd.graph.ir.weights import Weights

UNET = "model.diffusion_model."
EMA = "model_ema.diffusion_model"

NUMBERED = re.compile(
    r"(input_blocks|output_blocks|label_emb)(\d+)(\d)(.+)|(middle_block|time_embed|out)(\d)(.+)"
)
WORD = re.compile(
    r"transformer_blocks|in_layers|out_layers|emb_layers|skip_connection|proj_in|proj_out|proj|attn[12]|to_[qkv]"
    r"|to_out|norm[123]?|ff|net|conv|op|weight|bias|\d+"
)


def plain_unet(tensors: Mapping[str, Weights]) -> dict[str, Weights]:
    """Return the tensors with the plain U-Net, or with the EMA U-Net in its place if there is no plain one.

    diffusers also prefers the plain weights.
    """
    plain = {name: tensor for name, tensor in tensors.items() if not name.startswith("model_ema.")}
    if any(name.startswith(UNET) for name in plain):
        return plain
    ema = {n.removeprefix(EMA): tensor for n, tensor in tensors.items() if n.startswith(EMA)}
    return plain | {UNET + dotted(name): tensor for name, tensor in ema.items()}


def dotted(name: str) -> str:
    """Return a name of the U-Net with its dots restored; an unknown name stays unchanged.

    A block's number may have two digits; that of a layer in it has one.
    """
    match = NUMBERED.fullmatch(name)
    if not match:
        return name
    *head, rest = (group for group in match.groups() if group is not None)
    words = WORD.findall(rest)
    return ".".join([*head, *words]) if "".join(words) == rest else name
