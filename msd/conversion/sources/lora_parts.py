"""The tensors of adapters by the ends of their names, and the kinds of adapters that are refused by name.

What stands between a tensor's name and its adapter's is the layer's. peft puts the adapter's name before the
last word where a file has several: `lora_A.first.weight`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msd.errors import BadCheckpoint

NAME = r"(\.(?P<adapter>(?!weight\Z)[^.]+))?"
PARTS = {
    "down": rf"\.lora_down\.weight|\.lora_A{NAME}\.weight|(_lora|\.lora|\.lora_linear_layer)\.down\.weight",
    "up": rf"\.lora_up\.weight|\.lora_B{NAME}\.weight|(_lora|\.lora|\.lora_linear_layer)\.up\.weight",
    "mid": r"\.lora_mid\.weight",
    "up_bias": rf"\.lora_up\.bias|\.lora_B{NAME}\.bias",
    "alpha": r"\.alpha",
    "dora_scale": r"\.dora_scale",
    "magnitude": rf"\.lora_magnitude_vector{NAME}(\.weight)?",
    **{
        name: rf"\.{name}{NAME}"
        for name in (
            *("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b", "hada_t1", "hada_t2"),
            *("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b", "lokr_t2"),
        )
    },
    **{name: rf"\.{name}" for name in ("diff", "diff_b", "w_norm", "b_norm", "on_input")},
}
PATTERNS = {part: re.compile(rf"({pattern})\Z") for part, pattern in PARTS.items()}
"""The end of a tensor's name, by what it is of its layer's adapter."""

ON_INPUT, SCALES = ".on_input", ".weight"
"""The ends of the two tensors of (IA)^3."""

REFUSED = {
    "is a ControlNet LoRA": r"\Alora_controlnet\Z|\Alllite_",
    "is a ControlNet, which --controlnet takes": (
        r"(\A|\.)(zero_convs|input_hint_block|controlnet_cond_embedding)\."
    ),
    "is a textual inversion, which --embedding takes": r"\A(emb_params|clip_[lg])\Z",
    "is an OFT or BOFT, which rotates weights": r"\.(b?oft_|boft_)",
    "is a GLoRA": r"\.[ab][12m]\.weight\Z",
    "is an (IA)^3 of peft": r"\.ia3_l(\.|\Z)",
    "has weights that replace a layer's": r"\.set_weight\Z",
    "is an IP-Adapter": r"\A(image_proj|ip_adapter)\.",
    "has embeddings of tokens (lora_embedding)": r"\.lora_embedding_[AB]",
}
"""A description of each other kind of file, and a pattern of the names that identify it."""


@dataclass(frozen=True)
class AdapterPart:
    """A tensor's `layer`, by its name in the file, which `part` of an adapter it is, and of which."""

    layer: str
    part: str
    adapter: str = ""


def refuse_others(path: Path, keys: Iterable[str]) -> None:
    """Raise BadCheckpoint, naming the tensor, if `keys` belong to an adapter that we cannot merge."""
    keys = list(keys)
    for what, pattern in REFUSED.items():
        for key in keys:
            if re.search(pattern, key):
                raise BadCheckpoint(
                    f"{path} {what}: it has {key}; only LoRA, LoHa, LoKr, DoRA, differences and LyCORIS's"
                    " (IA)^3, for the U-Net and the text encoders, are supported"
                )


def split(keys: Iterable[str]) -> dict[str, AdapterPart | None]:
    """Return what each tensor is, None for one that is no part of an adapter."""
    keys = list(keys)
    of_ia3 = {key.removesuffix(ON_INPUT) + SCALES for key in keys if key.endswith(ON_INPUT)}
    scales = {key: AdapterPart(key.removesuffix(SCALES), "scales") for key in keys if key in of_ia3}
    return {key: scales.get(key) or _split(key) for key in keys}


def _split(key: str) -> AdapterPart | None:
    for part, pattern in PATTERNS.items():
        if match := pattern.search(key):
            return AdapterPart(key[: match.start()], part, match.groupdict().get("adapter") or "")
    return None
