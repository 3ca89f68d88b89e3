"""Real-ESRGAN's networks by the names and shapes of their tensors, as BasicSR and Real-ESRGAN save them.

`params_ema`, `params`, or nothing, holds the tensors of basicsr/archs/rrdbnet_arch.py ("conv_first.weight",
"body.0.rdb1.conv1.weight", …) or of realesrgan/archs/srvgg_arch.py ("body.0.weight", …).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isqrt

from msd.errors import BadCheckpoint
from msd.files.wording import counted
from msd.graph.ir.weights import Weights
from msd.models.upscaler_config import SCALES, CompactConfig, RrdbConfig

UpscalerConfig = RrdbConfig | CompactConfig
Tensors = Mapping[str, Weights]

KINDS = "a .pth or .safetensors file of Real-ESRGAN (RRDBNet or SRVGGNetCompact), or ncnn's .param and .bin"
FIRST = "conv_first"
BLOCK = re.compile(r"body\.(\d{1,4})\.")
MOST_BLOCKS = 64
"""Real-ESRGAN's large network has 23, and the longest compact one 32 convolutions."""

WIDEST = 1024
OLD = "model.1.sub.0.RDB1.conv1.0.weight"
"""A tensor of the first ESRGAN's own files."""

CHANNELS = 3


def upscaler_of(where: str, tensors: Tensors) -> tuple[UpscalerConfig, dict[str, Weights]]:
    """Return the network of `tensors`, and its weights as msd/models/upscaler.py takes them.

    Raises BadCheckpoint, naming the file `where`, for another network and for another scale than 2 or 4.
    """
    if f"{FIRST}.weight" in tensors:
        config = _rrdb(where, tensors)
        return config, _unfolded(tensors) if config.scale == 2 else dict(tensors)
    if "body.0.weight" in tensors and "body.1.weight" in tensors:
        compact = _compact(where, tensors)
        return compact, _rearranged(tensors, compact)
    if OLD in tensors:
        raise BadCheckpoint(
            f"{where} has the names of the first ESRGAN ({OLD}); give one with those of Real-ESRGAN"
            f" ({FIRST}.weight)"
        )
    some = ", ".join([*tensors][:3]) or "no tensors"
    raise BadCheckpoint(f"{where} is no upscaler that msd knows (it has {some} …); give {KINDS}")


def _rrdb(where: str, tensors: Tensors) -> RrdbConfig:
    features, channels = _shape(where, tensors, FIRST)[:2]
    scales = {CHANNELS: 4, 4 * CHANNELS: 2, 16 * CHANNELS: 1}
    if channels not in scales:
        raise BadCheckpoint(
            f"{where} reads {counted(channels, 'channel')} ({FIRST}.weight);"
            " of an image a Real-ESRGAN reads 3 or 12"
        )
    _require_scale(where, scales[channels])
    growth = _shape(where, tensors, "body.0.rdb1.conv1")[0]
    return RrdbConfig(
        scale=scales[channels],
        features=_modest(where, "channels", features, WIDEST),
        growth=_modest(where, "channels a layer", growth, WIDEST),
        blocks=_modest(where, "blocks", _count(tensors), MOST_BLOCKS),
    )


def _compact(where: str, tensors: Tensors) -> CompactConfig:
    last = _count(tensors) - 1
    if last % 2:
        raise BadCheckpoint(f"{where} ends with body.{last}; an SRVGGNetCompact ends with a convolution")
    features, outputs = (_shape(where, tensors, f"body.{i}")[0] for i in (0, last))
    scale = isqrt(outputs // CHANNELS)
    if CHANNELS * scale**2 != outputs:
        raise BadCheckpoint(
            f"{where} ends with {counted(outputs, 'channel')} (body.{last}.weight), which make no image;"
            " 3 for each of 2x2 or 4x4 pixels were expected"
        )
    _require_scale(where, scale)
    return CompactConfig(
        scale=scale,
        features=_modest(where, "channels", features, WIDEST),
        convs=_modest(where, "convolutions", last // 2 - 1, MOST_BLOCKS),
    )


def _require_scale(where: str, scale: int) -> None:
    if scale not in SCALES:
        raise BadCheckpoint(
            f"{where} enlarges images {scale} times; upscalers of 2 and 4 times are supported"
        )


def _count(tensors: Tensors) -> int:
    """Return the number of entries of `body`: one more than the largest number among the names."""
    numbers = [int(match[1]) for name in tensors if (match := BLOCK.match(name))]
    return max(numbers, default=-1) + 1


def _modest(where: str, what: str, count: int, most: int) -> int:
    if not 1 <= count <= most:
        raise BadCheckpoint(f"{where} has {count} {what}, and from 1 to {most} are supported")
    return count


def _shape(where: str, tensors: Tensors, layer: str) -> tuple[int, ...]:
    """Return the shape OIHW of a convolution's filters."""
    name = f"{layer}.weight"
    if name not in tensors:
        raise BadCheckpoint(f"{where} lacks {name}, which every network of its kind has")
    if len(tensors[name].shape) != 4:
        raise BadCheckpoint(
            f"{where} has {name} of the shape {list(tensors[name].shape)}; filters have 4 axes"
        )
    return tensors[name].shape


def _unfolded(tensors: Tensors) -> dict[str, Weights]:
    """Return the tensors with the first filters as 6x6, for pixels that are not moved into channels.

    Torch's pixel_unshuffle makes channel 4·c + 2·dy + dx of the pixel (dy, dx) of each square.
    """
    filters = tensors[f"{FIRST}.weight"]
    outputs, _, height, width = filters.shape
    split = filters.reshape((outputs, CHANNELS, 2, 2, height, width)).transpose((0, 1, 4, 2, 5, 3))
    return {**tensors, f"{FIRST}.weight": split.reshape((outputs, CHANNELS, 2 * height, 2 * width))}


def _rearranged(tensors: Tensors, config: CompactConfig) -> dict[str, Weights]:
    """Return the tensors with slopes along channels, and the last channels as DEPTH_TO_SPACE reads them.

    Torch's pixel_shuffle takes channel s²·c + s·dy + dx for the pixel (dy, dx); TFLite 3·(s·dy + dx) + c.
    """
    found = dict(tensors)
    for name, tensor in tensors.items():
        match = BLOCK.match(name)
        if match and int(match[1]) % 2 and len(tensor.shape) == 1:
            found[name] = tensor.reshape((1, 1, *tensor.shape))
    for kind in ("weight", "bias"):
        name = f"body.{2 * config.convs + 2}.{kind}"
        if name in tensors:
            found[name] = _by_pixel(tensors[name], config.scale**2)
    return found


def _by_pixel(tensor: Weights, pixels: int) -> Weights:
    rest = tensor.shape[1:]
    if tensor.shape[0] != CHANNELS * pixels:
        return tensor
    split = tensor.reshape((CHANNELS, pixels, *rest))
    return split.transpose((1, 0, *range(2, 2 + len(rest)))).reshape(tensor.shape)
