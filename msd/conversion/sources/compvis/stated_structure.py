"""What CompVis's configuration says of the networks, beside what their weights say.

The weights decide a network's structure, and a configuration that contradicts them is another model's. Only
the number of attention's heads is in no weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msd.conversion.sources.compvis.stated import find_value, state
from msd.conversion.sources.compvis.unet import HEAD_WIDTH
from msd.errors import BadCheckpoint
from msd.files.wording import counted

UNET, CONTROL, VAE = ("unet_config", "network_config"), ("control_stage_config",), ("ddconfig",)
ONLY_FALSE = {UNET: "disable_self_attentions", CONTROL: "disable_self_attentions", VAE: "tanh_out"}
"""What changes results and no weight."""

HALF = (
    *("in_channels", "model_channels", "channel_mult", "num_res_blocks", "context_dim"),
    *("use_linear_in_transformer", "transformer_depth", "adm_in_channels"),
)
READ = {
    UNET: ("out_channels", *HALF),
    CONTROL: HALF,
    VAE: ("ch", "ch_mult", "num_res_blocks", "z_channels", "out_ch"),
}
PRODUCTS = (("model_channels", "channel_mult"), ("ch", "ch_mult"))
"""Two keys whose product is the channels of each level."""

HEADS = ("num_head_channels", "num_heads")
"""Where both are given, the first counts; -1 stands for none."""

ANY = -1
"""What weights do not tell."""

Numbers = tuple[int, ...]
"""One number, or one for each level; 0 and 1 of a switch."""


@dataclass(frozen=True)
class StatedStructure:
    """What a configuration says of the U-Net, or of a ControlNet, and of the autoencoder, by its own names.

    `heads` is one of `HEADS` and its number, None where it says neither.
    """

    name: str = ""
    unet: Mapping[str, Numbers] = field(default_factory=dict)
    vae: Mapping[str, Numbers] = field(default_factory=dict)
    heads: tuple[str, int] | None = None

    def with_heads(self, settings: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return a network's settings with the heads that it says, and a sentence where they are others.

        Raises BadCheckpoint for a number that does not divide the channels.
        """
        if not self.heads:
            return {**settings}, ()
        key, number = self.heads
        usual, channels = settings["attention_head_dim"], settings["block_out_channels"]
        per_head = key == "num_head_channels"
        odd = next((c for c in channels if c % number and not (per_head and c < number)), None)
        if odd is not None:
            raise BadCheckpoint(
                f"{self.name} beside the file says {key}: {number}, which does not divide the"
                f" {counted(odd, 'channel')} of a level; correct it, or remove it"
            )
        stated = [max(c // number, 1) if per_head else number for c in channels]
        if stated == (usual if isinstance(usual, list) else [usual] * len(channels)):
            return {**settings}, ()
        said = (
            f"{self.name} beside the file says {key} = {number}, which is used in place of"
            f" {_heads_of(usual, channels)}"
        )
        return {**settings, "attention_head_dim": stated}, (said,)

    def require_same(self, unet: Mapping[str, Any] | None, vae: Mapping[str, Any] | None) -> None:
        """Raise BadCheckpoint where it contradicts these settings of the weights, in diffusers' words.

        `unet` or `vae` is None where that network is another file's.
        """
        of_unet, of_vae = _of_unet(unet) if unet else {}, _of_vae(vae) if vae else {}
        for stated, weights in ((self.unet, of_unet), (self.vae, of_vae)):
            for key, expected in weights.items():
                if key in stated and not _same(stated[key], expected):
                    raise BadCheckpoint(
                        f"{self.name} beside the file says {key}: {_text(key, stated[key])}, and the weights"
                        f" have {_text(key, expected)}: it is another model's; remove it"
                    )


def read_structure(path: Path, config: Any) -> StatedStructure:
    """Return what a configuration says of a model; raises BadCheckpoint for what no weight tells of."""
    return StatedStructure(
        path.name,
        _read(path, config, UNET),
        _read(path, config, VAE),
        _heads(path, find_value(config, *UNET)),
    )


def read_control(path: Path, config: Any) -> StatedStructure:
    """Return what a configuration says of a ControlNet alone; raises as `read_structure` does."""
    heads = _heads(path, find_value(config, *CONTROL))
    return StatedStructure(path.name, unet=_read(path, config, CONTROL), heads=heads)


def read_vae(path: Path, config: Any) -> StatedStructure:
    """Return what a configuration says of an autoencoder alone; raises as `read_structure` does."""
    return StatedStructure(path.name, vae=_read(path, config, VAE))


def _read(path: Path, config: Any, names: tuple[str, ...]) -> dict[str, Numbers]:
    """Return what the section of a network says; raises BadCheckpoint for what no weight tells of."""
    section, key = find_value(config, *names), ONLY_FALSE[names]
    value = find_value(section, key)
    if True in (value if isinstance(value, list) else [value]):
        raise BadCheckpoint(f"{path} says {key}: true, and only false is supported")
    return _multiplied({key: _numbers(find_value(section, key)) for key in READ[names]})


def _heads(path: Path, section: Any) -> tuple[str, int] | None:
    """Return the first of `HEADS` that a section has, and its number; raises BadCheckpoint for no number."""
    for key in HEADS:
        value = find_value(section, key)
        if value is None or value == -1:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadCheckpoint(f"{path} says {key}: {state(value)}; a whole number above 0 was expected")
        return key, value
    return None


def _heads_of(usual: int | Sequence[int], channels: Sequence[int]) -> str:
    """Return in words the heads of levels of so many channels."""
    if isinstance(usual, int):
        return counted(usual, "head")
    same = all(number == max(each // HEAD_WIDTH, 1) for number, each in zip(usual, channels, strict=True))
    return f"{HEAD_WIDTH} channels a head" if same else f"[{', '.join(map(str, usual))}] heads"


def _numbers(value: Any) -> Numbers:
    """Return the numbers of a value, none where it is anything else."""
    values = value if isinstance(value, list) else [value]
    return tuple(map(int, values)) if all(isinstance(each, int) for each in values) else ()


def _multiplied(values: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the values that are there, with the products in place of their factors."""
    found = {key: numbers for key, numbers in values.items() if numbers}
    for one, each in PRODUCTS:
        width, levels = found.pop(one, ()), found.pop(each, ())
        if width and levels:
            found[f"{one} · {each}"] = tuple(width[0] * level for level in levels)
    return found


def _of_unet(settings: Mapping[str, Any]) -> dict[str, Numbers]:
    """Return what the weights have of each key."""
    attends = [kind.startswith("CrossAttn") for kind in settings["down_block_types"]]
    depths = zip(attends, settings["transformer_layers_per_block"], strict=True)
    return {
        "in_channels": (settings["in_channels"],),
        "out_channels": (settings["out_channels"],),
        "model_channels · channel_mult": tuple(settings["block_out_channels"]),
        "num_res_blocks": tuple(settings["layers_per_block"]),
        "context_dim": (settings["cross_attention_dim"],),
        "use_linear_in_transformer": (int(settings["use_linear_projection"]),),
        "transformer_depth": tuple(d if has and isinstance(d, int) else ANY for has, d in depths),
        "adm_in_channels": (settings.get("projection_class_embeddings_input_dim", ANY),),
    }


def _of_vae(settings: Mapping[str, Any]) -> dict[str, Numbers]:
    return {
        "ch · ch_mult": tuple(settings["block_out_channels"]),
        "num_res_blocks": (settings["layers_per_block"],),
        "z_channels": (settings["latent_channels"],),
        "out_ch": (settings["out_channels"],),
    }


def _same(stated: Numbers, weights: Numbers) -> bool:
    """Whether numbers are equal on each level, of which one stands for all."""
    levels = max(len(stated), len(weights))
    ours, theirs = (each * levels if len(each) == 1 else each for each in (stated, weights))
    return len(ours) == len(theirs) and all(b in (a, ANY) for a, b in zip(ours, theirs, strict=True))


def _text(key: str, numbers: Numbers) -> str:
    switch = key.startswith("use_")
    words = [("false", "true")[n] if switch else "any" if n == ANY else str(n) for n in numbers]
    return words[0] if len({*words}) == 1 else f"[{', '.join(words)}]"
