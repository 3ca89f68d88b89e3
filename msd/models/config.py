"""The configurations of the text encoder and the U-Net, read from diffusers' config.json files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from msd.bounds import MOST_IDS
from msd.errors import BadCheckpoint
from msd.models import settings
from msd.models.networks import Size
from msd.models.trace import InputSpecs

Settings = Mapping[str, Any]
"""A parsed config.json."""


@dataclass(frozen=True)
class TextEncoderConfig:
    """A CLIP text transformer (Radford et al., arXiv:2103.00020); `length` is in tokens."""

    vocabulary: int
    length: int
    width: int
    hidden: int
    layers: int
    heads: int
    activation: str
    epsilon: float

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of `tokens`."""
        return {"tokens": ((size.batch, self.length), "int32")}

    def last_modules(self) -> tuple[str, ...]:
        """Return the last module of the series of layers, which the weights of such a network have."""
        return (f"encoder.layers.{self.layers - 1}",)

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> TextEncoderConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        return TextEncoderConfig(**text_settings(settings.Reader(folder, config), "CLIPTextModel"))


def text_settings(read: settings.Reader, class_name: str) -> dict[str, Any]:
    """Return the fields of a `TextEncoderConfig`; raises BadCheckpoint for unsupported ones."""
    read.refuse_other(
        {
            "model_type": ("clip_text_model",),
            "architectures": ([class_name], None),
            "quantization_config": (None,),
        }
    )
    width, heads = read.count("hidden_size", 512), read.count("num_attention_heads", 8, most=256)
    read.require_multiple("hidden_size", width, "num_attention_heads", heads)
    return {
        "vocabulary": read.count("vocab_size", 49408, most=MOST_IDS),
        "length": read.count("max_position_embeddings", 77, most=4096),
        "width": width,
        "hidden": read.count("intermediate_size", 2048),
        "layers": read.count("num_hidden_layers", 12, most=64),
        "heads": heads,
        "activation": read.choice("hidden_act", "quick_gelu", TEXT_ACTIVATIONS),
        "epsilon": read.positive("layer_norm_eps", 1e-5),
    }


@dataclass(frozen=True)
class AddedWidths:
    """The widths of the pooled text and of a size's sinusoids, which a U-Net adds to its timestep."""

    pooled: int
    size: int


@dataclass(frozen=True)
class UNetConfig:
    """A U-Net conditioned on text (Rombach et al., arXiv:2112.10752); tuples have one entry per level.

    Level 0 has the full resolution. `size` is the height and width, in cells, of the training latents.
    `middle` says whether blocks stand between the way down and the way up; BK-SDM-Tiny and tiny-sd have none
    (Kim et al., arXiv:2305.15798). `added` is of a U-Net that takes the pooled text and sizes (Podell et al.,
    SDXL, arXiv:2307.01952).
    """

    in_channels: int
    out_channels: int
    size: tuple[int, int]
    channels: tuple[int, ...]
    resnets: tuple[int, ...]
    down_attention: tuple[bool, ...]
    up_attention: tuple[bool, ...]
    heads: tuple[int, ...]
    transformers: tuple[int, ...]
    middle: bool
    context_width: int
    added: AddedWidths | None
    linear_projection: bool
    groups: int
    epsilon: float
    time_width: int
    guidance_width: int | None
    cosine_first: bool
    frequency_shift: float

    @property
    def multiple(self) -> int:
        """Rows and columns of a latent must be multiples of this: each level but the first halves them."""
        return int(2 ** (len(self.channels) - 1))

    @property
    def is_controlled(self) -> bool:
        """Whether residuals of ControlNets are among the inputs."""
        return False

    def residuals(self, size: Size) -> InputSpecs:
        """Return shape and dtype of what ControlNets add to the states of the way down and to the middle."""
        cells = [(0, self.channels[0])]
        for level, channels in enumerate(self.channels):
            cells += [(level, channels)] * self.resnets[level]
            if level < len(self.channels) - 1:
                cells.append((level + 1, channels))
        cells.append(cells[-1])
        return {
            f"control_{i}": ((size.batch, size.rows >> level, size.columns >> level, channels), "float32")
            for i, (level, channels) in enumerate(cells)
        }

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of each input; a distilled U-Net may have `guidance_embedding`."""
        latent = (size.batch, size.rows, size.columns, self.in_channels)
        inputs = {
            "latent": (latent, "float32"),
            "timestep": ((size.batch,), "float32"),
            "context": ((size.batch, size.length, self.context_width), "float32"),
        }
        if self.added is not None:
            inputs["text_embeds"] = ((size.batch, self.added.pooled), "float32")
            inputs["time_ids_embedding"] = ((size.batch, SIZES * self.added.size), "float32")
        if self.guidance_width is not None:
            inputs["guidance_embedding"] = ((size.batch, self.guidance_width), "float32")
        return inputs

    def last_modules(self) -> tuple[str, ...]:
        """Return the last module of each series of blocks, which the weights of such a network have."""
        modules = []
        for level, resnets in enumerate(self.resnets):
            block = f"down_blocks.{level}"
            modules.append(f"{block}.resnets.{resnets - 1}")
            if self.down_attention[level]:
                depth = self.down_depth(level, resnets - 1)
                modules.append(_last_of(f"{block}.attentions.{resnets - 1}", depth))
        if self.middle:
            own = self.middle_depth
            modules.append("mid_block.resnets.0" if own is None else _last_of("mid_block.attentions.0", own))
        return tuple(modules)

    def down_depth(self, level: int, block: int) -> int:
        """Return the number of transformer layers of a level's block on the way down."""
        return self.transformers[level]

    def up_depth(self, level: int, block: int) -> int:
        """Return the number of transformer layers of a level's block on the way up."""
        return self.transformers[level]

    @property
    def middle_depth(self) -> int | None:
        """The number of transformer layers in the middle; None where it is one residual block."""
        return self.transformers[-1]

    @staticmethod
    def from_diffusers(config: Settings, folder: str) -> UNetConfig:
        """Return the configuration of a folder's config.json; raises BadCheckpoint for unsupported ones."""
        read = settings.Reader(folder, config)
        read.refuse_other(UNET_ONLY)
        read.refuse_unknown({*UNET_ONLY, *UNET_READ, *UNET_UNUSED})
        added = _added_widths(read)
        channels = read.counts("block_out_channels", (320, 640, 1280, 1280))
        levels = len(channels)
        read.refuse_true("only_cross_attention", levels)
        down = read.blocks("down_block_types", DOWN_BLOCKS, levels, ATTENTION_DOWN)
        up = read.blocks("up_block_types", UP_BLOCKS, levels, ATTENTION_UP)
        # diffusers calls the number of heads "attention_head_dim", for the sake of old files.
        heads = read.per_level("attention_head_dim", 8, levels, most=256)
        groups = read.count("norm_num_groups", 32)
        shift = read.number("freq_shift", 0)
        if channels[0] % 2 or shift >= channels[0] // 2:
            read.wrong("block_out_channels", channels, f"the first must be even and above {2 * shift:g}")
        for width, number in zip(channels, heads, strict=True):
            read.require_multiple("block_out_channels", width, "norm_num_groups", groups)
            read.require_multiple("block_out_channels", width, "attention_head_dim", number)
        kind, depths = _depths(read, down, up[::-1])
        return kind(
            in_channels=read.count("in_channels", 4),
            out_channels=read.count("out_channels", 4),
            size=read.size("sample_size", 64),
            channels=channels,
            down_attention=down,
            up_attention=up[::-1],
            heads=heads,
            middle=config.get("mid_block_type", "") is not None,
            context_width=read.same_on_all("cross_attention_dim", 1280, levels),
            added=added,
            linear_projection=read.flag("use_linear_projection", False),
            groups=groups,
            epsilon=read.positive("norm_eps", 1e-5),
            time_width=read.optional_count("time_embedding_dim") or 4 * channels[0],
            guidance_width=read.optional_count("time_cond_proj_dim"),
            cosine_first=read.flag("flip_sin_to_cos", True),
            frequency_shift=shift,
            **depths,
        )


@dataclass(frozen=True)
class ControlledUNetConfig(UNetConfig):
    """A U-Net that takes the residuals of ControlNets."""

    @property
    def is_controlled(self) -> bool:
        """Residuals are among the inputs."""
        return True

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of each input, the residuals last."""
        return {**super().inputs(size), **self.residuals(size)}

    @staticmethod
    def of(config: UNetConfig) -> ControlledUNetConfig:
        """Return a U-Net's configuration with the residuals among its inputs; raises BadCheckpoint.

        No public ControlNet is for a U-Net whose blocks differ within a level.
        """
        if type(config) is not UNetConfig:
            raise BadCheckpoint("ControlNets steer no U-Net whose blocks differ within a level, as SSD-1B's")
        return ControlledUNetConfig(**{each.name: getattr(config, each.name) for each in fields(UNetConfig)})


@dataclass(frozen=True)
class UnevenUNetConfig(UNetConfig):
    """A U-Net whose blocks differ within a level, or whose middle is one residual block, as SSD-1B's.

    Gupta et al., "Progressive Knowledge Distillation of Stable Diffusion XL" (2024, arXiv 2401.02677). `down`
    and `up` have the transformer layers of each level's blocks, and `middle_layers` those of the middle, None
    where it is one residual block.
    """

    down: tuple[tuple[int, ...], ...]
    up: tuple[tuple[int, ...], ...]
    middle_layers: int | None

    def down_depth(self, level: int, block: int) -> int:
        """Return the number of transformer layers of a level's block on the way down."""
        return self.down[level][block]

    def up_depth(self, level: int, block: int) -> int:
        """Return the number of transformer layers of a level's block on the way up."""
        return self.up[level][block]

    @property
    def middle_depth(self) -> int | None:
        """The number of transformer layers in the middle; None where it is one residual block."""
        return self.middle_layers


def _last_of(transformer: str, depth: int) -> str:
    """Return the last module of a transformer; one without layers only projects its cells, in and out."""
    return f"{transformer}.transformer_blocks.{depth - 1}" if depth else f"{transformer}.proj_out"


def _depths(
    read: settings.Reader, down: Sequence[bool], up: Sequence[bool]
) -> tuple[type[UNetConfig], dict[str, Any]]:
    """Return the kind of a U-Net by its transformer layers, and the fields that count its layers.

    `down` and `up` tell which levels have attention. Others count as 1, as nothing reads their numbers.
    """
    most, levels, middle = settings.MOST_LAYERS, len(down), read.config.get("mid_block_type", "")
    resnets = read.per_level("layers_per_block", 2, levels, most=most)
    key, reverse = TRANSFORMERS, REVERSE_TRANSFORMERS
    given, upward = read.config.get(key, 1), read.config.get(reverse)
    used = [any(sides) for sides in zip(down, up, strict=True)]
    used[-1] |= middle not in (None, PLAIN_MIDDLE)
    nested = isinstance(given, list | tuple) and any(isinstance(each, list | tuple) for each in given)
    if middle != PLAIN_MIDDLE and upward is None and not nested:
        counts = read.per_level(key, 1, levels, most=most, least=0)
        each = tuple(count if attends else 1 for count, attends in zip(counts, used, strict=True))
        return UNetConfig, {"resnets": resnets, "transformers": each}
    if upward is not None and not isinstance(upward, list | tuple):
        read.wrong(reverse, upward, "a list with one entry for each level was expected")
    if nested and upward is None:
        read.wrong(reverse, None, f"{key} has lists, so that the way up must be given")
    below, more = _used(read.per_block(key, resnets, most), used), [count + 1 for count in resnets]
    above = (
        read.per_block(key, more, most) if upward is None else read.per_block(reverse, more[::-1], most)[::-1]
    )
    return UnevenUNetConfig, {
        "resnets": resnets,
        "transformers": tuple(each[-1] for each in below),
        "down": below,
        "up": _used(above, used),
        "middle_layers": None if middle == PLAIN_MIDDLE else below[-1][0],
    }


def _used(levels: Sequence[tuple[int, ...]], used: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Return the counts of each level's blocks, 1 where no attention is."""
    return tuple(level if attends else (1,) * len(level) for level, attends in zip(levels, used, strict=True))


def _added_widths(read: settings.Reader) -> AddedWidths | None:
    if read.one_of("addition_embed_type", (None, "text_time")) is None:
        return None
    sizes = read.count("addition_time_embed_dim", 256)
    both = read.count("projection_class_embeddings_input_dim", 2816)
    if sizes % 2 or both <= SIZES * sizes:
        read.wrong(
            "projection_class_embeddings_input_dim",
            both,
            f"a pooled text and the sinusoids of {SIZES} sizes of {sizes} each were expected",
        )
    return AddedWidths(both - SIZES * sizes, sizes)


SIZES = 6
"""How many numbers say an image's original size, its crop and its target size."""

TEXT_ACTIVATIONS = ("quick_gelu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "swish")

TRANSFORMERS, REVERSE_TRANSFORMERS = "transformer_layers_per_block", "reverse_transformer_layers_per_block"
ATTENTION_DOWN, ATTENTION_UP = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"
DOWN_BLOCKS = (ATTENTION_DOWN, ATTENTION_DOWN, ATTENTION_DOWN, "DownBlock2D")
UP_BLOCKS = ("UpBlock2D", ATTENTION_UP, ATTENTION_UP, ATTENTION_UP)

PLAIN_MIDDLE = "UNetMidBlock2D"
"""A middle of one residual block."""

UNET_ONLY: dict[str, tuple[Any, ...]] = {
    "_class_name": ("UNet2DConditionModel",),
    "act_fn": ("silu", "swish"),
    "attention_type": ("default",),
    "center_input_sample": (False,),
    "class_embed_type": (None,),
    "class_embeddings_concat": (False,),
    "conv_in_kernel": (3,),
    "conv_out_kernel": (3,),
    "cross_attention_norm": (None,),
    "downsample_padding": (1,),
    "dual_cross_attention": (False,),
    "encoder_hid_dim": (None,),
    "encoder_hid_dim_type": (None,),
    "mid_block_only_cross_attention": (None, False),
    "mid_block_scale_factor": (1,),
    "mid_block_type": ("UNetMidBlock2DCrossAttn", PLAIN_MIDDLE, None),
    "num_attention_heads": (None,),
    "num_class_embeds": (None,),
    "resnet_out_scale_factor": (1,),
    "resnet_skip_time_act": (False,),
    "resnet_time_scale_shift": ("default",),
    "time_embedding_act_fn": (None,),
    "time_embedding_type": ("positional",),
    "timestep_post_act": (None,),
}
"""The only values that we can build, the default first."""

UNET_READ = (
    "addition_embed_type",
    "addition_time_embed_dim",
    "attention_head_dim",
    "block_out_channels",
    "cross_attention_dim",
    "down_block_types",
    "flip_sin_to_cos",
    "freq_shift",
    "in_channels",
    "layers_per_block",
    "norm_eps",
    "norm_num_groups",
    "only_cross_attention",
    "out_channels",
    "projection_class_embeddings_input_dim",
    "reverse_transformer_layers_per_block",
    "sample_size",
    "time_cond_proj_dim",
    "time_embedding_dim",
    "transformer_layers_per_block",
    "up_block_types",
    "use_linear_projection",
)
UNET_UNUSED = (
    "addition_embed_type_num_heads",
    "dropout",
    "upcast_attention",
)
"""Without effect on a float32 result, given `UNET_ONLY`."""
