"""The U-Net of CompVis: numbered input and output blocks, where diffusers has levels of named layers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msd.conversion.sources.compvis.part import NetworkTensors
from msd.files.wording import counted
from msd.graph.ir.weights import Weights
from msd.models.config import SIZES

RESNET = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
ENDS = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
    "label_emb.0.0": "add_embedding.linear_1",
    "label_emb.0.2": "add_embedding.linear_2",
}
MIDDLE = {
    "middle_block.0": "mid_block.resnets.0",
    "middle_block.1": "mid_block.attentions.0",
    "middle_block.2": "mid_block.resnets.1",
}
ATTENTION = re.compile(
    r"(norm|proj_in|proj_out|transformer_blocks\.\d+\.(norm[123]|attn[12]\.to_out\.0|ff\.net\.(0\.proj|2)))\.(weight|bias)"
    r"|transformer_blocks\.\d+\.attn[12]\.to_[qkv]\.weight"
)
HEADS, HEAD_WIDTH = 8, 64
"""Stable Diffusion 1.x has 8 heads everywhere, and 2.x as many as there are 64 channels."""


@dataclass(frozen=True)
class BlockLayout:
    """The numbered blocks of each level, from the highest resolution to the lowest.

    A block is a resnet, with or without attention; `up` has one more on each level than `down`.
    """

    part: NetworkTensors
    down: tuple[tuple[str, ...], ...]
    up: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(part: NetworkTensors) -> BlockLayout:
        """Return the layout of a U-Net; raises BadCheckpoint unless it is one of Stable Diffusion."""
        down, up = tuple(_down(part)), tuple(_up(part))[::-1]
        if [len(level) + 1 for level in down] != [len(level) for level in up] or not all(down):
            raise part.wrong(
                f"has a U-Net with {[len(level) for level in down]} layers on its levels on the way down and "
                f"{[len(level) for level in up]} on the way up; one more each was expected"
            )
        return BlockLayout(part, down, up)

    @staticmethod
    def on_the_way_down(part: NetworkTensors) -> BlockLayout:
        """Return the layout of half a U-Net, as a ControlNet is, with no blocks on the way up."""
        return BlockLayout(part, tuple(_down(part)), ())

    def attention(self, blocks: tuple[str, ...]) -> bool:
        """Whether the blocks of a level have attention; raises BadCheckpoint if only some have."""
        return self.part.same("attentions on one level", (self._attends(block) for block in blocks))

    def depths(self, uneven: bool) -> dict[str, Any]:
        """Return the settings that say how many transformer blocks there are: of each level, or block.

        Raises BadCheckpoint where they differ within a level, unless `uneven`.
        """
        down, up = ([self._depths_of(level) for level in side] for side in (self.down, self.up))
        each = [{*one, *other} - {None} for one, other in zip(down, up, strict=True)]
        middle = self._depth_of("middle_block")
        kind = "UNetMidBlock2D" if middle is None else "UNetMidBlock2DCrossAttn"
        settings: dict[str, Any] = {"mid_block_type": kind if self.middle else None}
        each[-1] |= {middle} - {None}
        if all(len(depths) < 2 for depths in each) and (middle is not None or not self.middle):
            return {**settings, "transformer_layers_per_block": [(depths or {1}).pop() for depths in each]}
        if not uneven:
            differing = next((depths for depths in each if len(depths) > 1), {None, *each[-1]})
            self.part.same("depths of transformers on one level", differing)
        if middle not in (None, down[-1][0]):
            raise self.part.wrong(
                f"has a U-Net with {counted(middle, 'transformer')} in its middle, and {down[-1][0]} before;"
                " as many were expected"
            )
        return {
            **settings,
            "transformer_layers_per_block": [_counted(level) for level in down],
            "reverse_transformer_layers_per_block": [_counted(level) for level in reversed(up)],
        }

    def _depths_of(self, level: tuple[str, ...]) -> list[int | None]:
        return [self._depth_of(block) for block in level]

    def _depth_of(self, block: str) -> int | None:
        """Return the number of a block's transformer layers; None where it has no attention."""
        return self.part.count(f"{block}.1.transformer_blocks") if self._attends(block) else None

    @property
    def middle(self) -> bool:
        """Whether the U-Net has blocks between the way down and the way up."""
        return self.part.has("middle_block")

    def an_attention(self) -> str:
        """Return the name of a transformer with layers; raises BadCheckpoint where there is none."""
        blocks = ("middle_block", *(block for level in (*self.down, *self.up) for block in level))
        name = f"{next((block for block in blocks if self._depth_of(block)), 'middle_block')}.1"
        self.part.shape(f"{name}.transformer_blocks.0.attn2.to_k.weight", 2)
        return name

    def _attends(self, block: str) -> bool:
        """Whether a block has a transformer, with layers or none between its projections."""
        return any(self.part.has(f"{block}.1.{inside}") for inside in ("proj_in", "transformer_blocks"))


def _counted(level: list[int | None]) -> list[int]:
    """Return the numbers of a level's transformer layers, 1 where no attention reads them."""
    return [1 if depth is None else depth for depth in level]


def unet_settings(part: NetworkTensors, head_widths: bool, pooled: int | None = None) -> dict[str, Any]:
    """Return the settings in diffusers' config.json, except the size.

    With `head_widths`, all heads are equally wide. `pooled` is the width of the pooled text that the U-Net of
    Stable Diffusion XL takes beside the sizes.
    """
    layout = BlockLayout.of(part)
    channels = [part.shape(f"{level[0]}.0.out_layers.3.weight", 4)[0] for level in layout.down]
    down = [layout.attention(level) for level in layout.down]
    up = [layout.attention(level) for level in layout.up]
    attention = layout.an_attention()
    return {
        "in_channels": part.shape("input_blocks.0.0.weight", 4)[1],
        "out_channels": part.shape("out.2.weight", 4)[0],
        "block_out_channels": channels,
        "layers_per_block": [len(level) for level in layout.down],
        "down_block_types": ["CrossAttnDownBlock2D" if attends else "DownBlock2D" for attends in down],
        "up_block_types": ["CrossAttnUpBlock2D" if attends else "UpBlock2D" for attends in up[::-1]],
        "attention_head_dim": [max(c // HEAD_WIDTH, 1) for c in channels] if head_widths else HEADS,
        **layout.depths(uneven=pooled is not None),
        "cross_attention_dim": part.shape(f"{attention}.transformer_blocks.0.attn2.to_k.weight", 2)[1],
        "use_linear_projection": len(_projection(part, attention).shape) == 2,
        **({} if pooled is None else _size_settings(part, pooled)),
    }


def _size_settings(part: NetworkTensors, pooled: int) -> dict[str, Any]:
    both = part.shape("label_emb.0.0.weight", 2)[1]
    return {
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": (both - pooled) // SIZES,
        "projection_class_embeddings_input_dim": both,
    }


def unet_tensors(part: NetworkTensors) -> dict[str, Weights]:
    """Return the tensors by diffusers' names; raises BadCheckpoint for an unknown tensor."""
    layout = places(BlockLayout.of(part))
    return {renamed(part, layout, name): tensor for name, tensor in part.tensors.items()}


def _projection(part: NetworkTensors, attention: str) -> Weights:
    name = f"{attention}.proj_in.weight"
    if name not in part.tensors:
        part.shape(name, 4)
    return part.tensors[name]


def _down(part: NetworkTensors) -> Iterator[tuple[str, ...]]:
    """Yield the blocks of each level; a downsampling block ends a level and is not one of its resnets."""
    blocks: list[str] = []
    for number in range(1, part.count("input_blocks")):
        block = f"input_blocks.{number}"
        if part.has(f"{block}.0.op"):
            yield tuple(blocks)
            blocks = []
        else:
            blocks.append(block)
    yield tuple(blocks)


def _up(part: NetworkTensors) -> Iterator[tuple[str, ...]]:
    """Yield the blocks of each level; a block with an upsampler is the last of its level."""
    blocks: list[str] = []
    for number in range(part.count("output_blocks")):
        blocks.append(f"output_blocks.{number}")
        if _upsampler(part, blocks[-1]):
            yield tuple(blocks)
            blocks = []
    yield tuple(blocks)


def _upsampler(part: NetworkTensors, block: str) -> str | None:
    """Return the upsampling layer of a block, which comes after the attention; None if it has none."""
    return next((layer for layer in (f"{block}.1", f"{block}.2") if part.has(f"{layer}.conv")), None)


def places(layout: BlockLayout) -> dict[str, str]:
    """Return each layer's name in diffusers."""
    found = {**ENDS, **(MIDDLE if layout.middle else {})}
    for level, blocks in enumerate(layout.down):
        for index, block in enumerate(blocks):
            found[f"{block}.0"] = f"down_blocks.{level}.resnets.{index}"
            found[f"{block}.1"] = f"down_blocks.{level}.attentions.{index}"
        if level < len(layout.down) - 1:
            found[f"{_after(blocks[-1])}.0"] = f"down_blocks.{level}.downsamplers.0"
    for level, blocks in enumerate(reversed(layout.up)):
        for index, block in enumerate(blocks):
            found[f"{block}.0"] = f"up_blocks.{level}.resnets.{index}"
            found[f"{block}.1"] = f"up_blocks.{level}.attentions.{index}"
        if upsampler := _upsampler(layout.part, blocks[-1]):
            found[upsampler] = f"up_blocks.{level}.upsamplers.0"
    return found


def _after(block: str) -> str:
    side, _, number = block.partition(".")
    return f"{side}.{int(number) + 1}"


def renamed(part: NetworkTensors, places: dict[str, str], name: str) -> str:
    """Return a tensor's name in diffusers, by the `places` of layers; raises BadCheckpoint for no such."""
    words = name.split(".", 3)
    length = 3 if words[0] in ("input_blocks", "output_blocks", "label_emb") else 2
    place, rest = places.get(".".join(words[:length])), ".".join(words[length:])
    layer, _, last = rest.rpartition(".")
    if place is None:
        raise part.unknown(name)
    if ".resnets." in place and layer in RESNET:
        return f"{place}.{RESNET[layer]}.{last}"
    if ".attentions." in place and ATTENTION.fullmatch(rest):
        return f"{place}.{rest}"
    if ".downsamplers." in place and layer == "op":
        return f"{place}.conv.{last}"
    if (".upsamplers." in place and layer == "conv") or (name.startswith(tuple(ENDS)) and not layer):
        return f"{place}.{rest}"
    raise part.unknown(name)
