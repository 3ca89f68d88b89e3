"""Which family an adapter was made for, by the names of its text encoders and the width of its contexts."""

from __future__ import annotations

import re

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.lora_file import AdapterFile
from msd.errors import BadCheckpoint
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL

ENCODERS = {
    STABLE_DIFFUSION.name: re.compile(r"lora_te[_.]|te\."),
    STABLE_DIFFUSION_XL.name: re.compile(r"lora_te2[_.]|te2\.|text_encoder_2\.|clip_g\."),
}
"""How names begin that only the text encoders of one family have; `lora_te1_` is of both."""

WIDTHS = {768: STABLE_DIFFUSION, 1024: STABLE_DIFFUSION, 2048: STABLE_DIFFUSION_XL}
"""The families by the widths of the contexts that their U-Nets read."""

CONTEXT = re.compile(r"attn2[._](processor[._])?to_[kv]")


def require_same_model(checkpoint: Checkpoint, file: AdapterFile) -> None:
    """Raise BadCheckpoint, naming both sides, for an adapter of another family than the checkpoint's."""
    titles = {each.name: each.title for each in (STABLE_DIFFUSION, STABLE_DIFFUSION_XL)}
    for key, tensor in file.tensors.items():
        names = [name for name, pattern in ENCODERS.items() if pattern.match(key)]
        part, shape = file.parts[key], tensor.shape
        if part.part == "down" and len(shape) > 1 and CONTEXT.search(part.layer) and shape[1] in WIDTHS:
            names.append(WIDTHS[shape[1]].name)
        if names and checkpoint.family.name not in names:
            raise BadCheckpoint(
                f"{file.path} is an adapter of {titles[names[0]]}: it has {key} of the shape {list(shape)},"
                f" and {checkpoint.name} is a {checkpoint.family.title}"
            )
