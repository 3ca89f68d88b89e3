"""The convolutions and attention products of Stable Diffusion's U-Nets and decoder, with counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution of one image, padded so that stride 1 keeps its size."""

    height: int
    width: int
    channels: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    upsample: int = 1
    gate: bool = False

    def __str__(self) -> str:
        size = f"{self.height}x{self.width} {self.channels}>{self.outputs} {self.kernel}x{self.kernel}"
        extra = f" /{self.stride}" * (self.stride > 1) + f" *{self.upsample}" * (self.upsample > 1)
        return size + extra + " gate" * self.gate


@dataclass(frozen=True)
class ProductShape:
    """A product of attention: queries with keys, or probabilities with values."""

    heads: int
    queries: int
    keys: int
    size: int
    with_values: bool = False

    def __str__(self) -> str:
        what = "p v" if self.with_values else "q k"
        return f"{what} {self.heads} heads {self.queries}x{self.keys} of {self.size}"


Shapes = Counter[ConvolutionShape | ProductShape]


def networks() -> dict[str, Shapes]:
    """Return the shapes of one evaluation of each network: latents of 64x64, batch 1."""
    return {
        "SD 2.1 U-Net": _unet(1024, (5, 10, 20, 20)),
        "SD 1.5 U-Net": _unet(768, (8, 8, 8, 8)),
        "decoder 512x512": _decoder(),
    }


def _unet(context: int, heads: tuple[int, ...]) -> Shapes:
    shapes: Shapes = Counter()
    widths = (320, 640, 1280, 1280)
    shapes[ConvolutionShape(64, 64, 4, 320, kernel=3)] += 1
    shapes[ConvolutionShape(1, 1, 320, 1280)] += 1
    shapes[ConvolutionShape(1, 1, 1280, 1280)] += 1
    skips, channels, side = [320], 320, 64
    for level, width in enumerate(widths):
        for _ in range(2):
            _resnet(shapes, side, channels, width, 1280)
            if level < 3:
                _transformer(shapes, side, width, context, heads[level])
            channels = width
            skips.append(channels)
        if level < 3:
            shapes[ConvolutionShape(side, side, width, width, kernel=3, stride=2)] += 1
            side //= 2
            skips.append(channels)
    for _ in range(2):
        _resnet(shapes, side, channels, channels, 1280)
    _transformer(shapes, side, channels, context, heads[3])
    for level in (3, 2, 1, 0):
        for _ in range(3):
            _resnet(shapes, side, channels + skips.pop(), widths[level], 1280)
            channels = widths[level]
            if level < 3:
                _transformer(shapes, side, channels, context, heads[level])
        if level:
            shapes[ConvolutionShape(side, side, channels, channels, kernel=3, upsample=2)] += 1
            side *= 2
    shapes[ConvolutionShape(64, 64, 320, 4, kernel=3)] += 1
    return shapes


def _decoder() -> Shapes:
    shapes: Shapes = Counter()
    shapes[ConvolutionShape(64, 64, 4, 4)] += 1
    shapes[ConvolutionShape(64, 64, 4, 512, kernel=3)] += 1
    _resnet(shapes, 64, 512, 512, 0)
    shapes[ConvolutionShape(64, 64, 512, 1536)] += 1
    shapes[ConvolutionShape(64, 64, 512, 512)] += 1
    _attention(shapes, 1, 4096, 4096, 512)
    _resnet(shapes, 64, 512, 512, 0)
    side, channels = 64, 512
    for level, width in enumerate((512, 512, 256, 128)):
        for _ in range(3):
            _resnet(shapes, side, channels, width, 0)
            channels = width
        if level < 3:
            shapes[ConvolutionShape(side, side, width, width, kernel=3, upsample=2)] += 1
            side *= 2
    shapes[ConvolutionShape(512, 512, 128, 3, kernel=3)] += 1
    return shapes


def _resnet(shapes: Shapes, side: int, channels: int, outputs: int, time: int) -> None:
    shapes[ConvolutionShape(side, side, channels, outputs, kernel=3)] += 1
    shapes[ConvolutionShape(side, side, outputs, outputs, kernel=3)] += 1
    if time:
        shapes[ConvolutionShape(1, 1, time, outputs)] += 1
    if channels != outputs:
        shapes[ConvolutionShape(side, side, channels, outputs)] += 1


def _transformer(shapes: Shapes, side: int, width: int, context: int, heads: int) -> None:
    tokens = side * side
    square = ConvolutionShape(side, side, width, width)
    shapes[square] += 5  # into and out of the block, of both attentions, and the queries of the second
    shapes[ConvolutionShape(side, side, width, 3 * width)] += 1
    shapes[ConvolutionShape(1, 77, context, 2 * width)] += 1
    shapes[ConvolutionShape(side, side, width, 8 * width, gate=True)] += 1
    shapes[ConvolutionShape(side, side, 4 * width, width)] += 1
    _attention(shapes, heads, tokens, tokens, width // heads)
    _attention(shapes, heads, tokens, 77, width // heads)


def _attention(shapes: Shapes, heads: int, queries: int, keys: int, size: int) -> None:
    shapes[ProductShape(heads, queries, keys, size)] += 1
    shapes[ProductShape(heads, queries, keys, size, with_values=True)] += 1
