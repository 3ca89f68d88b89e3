"""Real-ESRGAN in ncnn's files: its tensors by BasicSR's names, once its layers are seen to be the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msd.conversion.sources.esrgan import UpscalerConfig, upscaler_of
from msd.conversion.sources.ncnn.expression import Expressions, evaluate
from msd.conversion.sources.ncnn.param import is_param, read_layers
from msd.conversion.sources.ncnn.stored_weights import NcnnWeights, read_weights
from msd.conversion.sources.stored import first_bytes
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights
from msd.models.upscaler_config import SHARE, SLOPE, CompactConfig, RrdbConfig

AFTER = ("conv_body", "conv_up1", "conv_up2", "conv_hr", "conv_last")
OF_BLOCK = tuple(f"rdb{i}.conv{j}" for i in range(1, 4) for j in range(1, 6))


def ncnn_files(path: Path) -> tuple[Path, Path] | None:
    """Return the .param and the .bin file that `path` is one of; None for a file that is not ncnn's.

    Raises BadCheckpoint where the other one is missing.
    """
    param, weights = path.with_suffix(".param"), path.with_suffix(".bin")
    if is_param(first_bytes(path)):
        if not weights.is_file():
            raise BadCheckpoint(f"{path} lists layers, and {weights.name} with their weights is not there")
        return path, weights
    return (param, path) if path == weights and is_param(first_bytes(param)) else None


def read_upscaler(param: Path, weights: Path) -> tuple[UpscalerConfig, dict[str, Weights]]:
    """Return the network and its weights; raises BadCheckpoint for layers that are not those of its kind."""
    layers = read_layers(param)
    numbers = Expressions()
    computed = evaluate(layers, numbers)
    config, tensors = upscaler_of(str(param), _named(param, read_weights(weights, layers)))
    expected = _rrdb(config, numbers) if isinstance(config, RrdbConfig) else _compact(config, numbers)
    if computed != expected:
        raise BadCheckpoint(
            f"{param} has the layers of {type(config).__name__.removesuffix('Config')}, connected in another"
            " way, or followed by others, as where x2 is an x4 made smaller; give the network as published"
        )
    return config, tensors


def tensor_names(where: str, kinds: Sequence[str]) -> list[str]:
    """Return BasicSR's names of the layers that have weights, which are of these kinds in their order.

    Raises BadCheckpoint for a number of them that no network has; `where` names the file.
    """
    if "PReLU" in kinds:
        return [f"body.{i}" for i in range(len(kinds))]
    blocks = (len(kinds) - 1 - len(AFTER)) // len(OF_BLOCK)
    inside = [f"body.{block}.{layer}" for block in range(blocks) for layer in OF_BLOCK]
    names = ["conv_first", *inside, *AFTER]
    if len(names) != len(kinds):
        raise BadCheckpoint(
            f"{where} has {len(kinds)} convolutions; an RRDBNet has 6, and 15 more for each block"
        )
    return names


def _named(param: Path, found: Sequence[NcnnWeights]) -> dict[str, Weights]:
    """Return the tensors under BasicSR's names, which follow from their order."""
    names = tensor_names(str(param), [each.layer.kind for each in found])
    return {
        f"{name}.{kind}": tensor
        for name, each in zip(names, found, strict=True)
        for kind, tensor in zip(("weight", "bias"), each.tensors, strict=False)
    }


def _rrdb(config: RrdbConfig, numbers: Expressions) -> int:
    """Return the expression of msd/models/upscaler.py's `rrdb`, without the scale of its pixels."""
    count = iter(range(len(OF_BLOCK) * config.blocks + 1 + len(AFTER)))

    def conv(x: int) -> int:
        return numbers.of("weighted", next(count), x)

    def dense_block(x: int) -> int:
        found = [x]
        for _ in range(4):
            found.append(numbers.leaky(conv(_joined(found, numbers)), SLOPE))
        return numbers.sum([(conv(_joined(found, numbers)), SHARE), (x, 1.0)])

    image = numbers.of("input")
    first = conv(numbers.of("Reorg", 2, 0, image) if config.scale == 2 else image)
    x = first
    for _ in range(config.blocks):
        x = numbers.sum([(dense_block(dense_block(dense_block(x))), SHARE), (x, 1.0)])
    x = numbers.sum([(conv(x), 1.0), (first, 1.0)])
    for _ in range(2):
        x = numbers.leaky(conv(numbers.of("nearest", 2, x)), SLOPE)
    return conv(numbers.leaky(conv(x), SLOPE))


def _joined(found: Sequence[int], numbers: Expressions) -> int:
    return numbers.of("joined", *found) if len(found) > 1 else found[0]


def _compact(config: CompactConfig, numbers: Expressions) -> int:
    """Return the expression of msd/models/upscaler.py's `compact`, without the scale of its pixels."""
    image = x = numbers.of("input")
    for i in range(2 * config.convs + 3):
        x = numbers.of("weighted", i, x)
    enlarged = numbers.of("PixelShuffle", config.scale, 0, x), numbers.of("nearest", config.scale, image)
    return numbers.sum([(each, 1.0) for each in enlarged])
