"""The 3x3 convolutions of Stable Diffusion 2.1's U-Net, written down from its architecture."""

from __future__ import annotations

from msd.graph.prediction.device import ConvSize

WIDTHS = (320, 640, 1280, 1280)


def unet(latent: int, batch: int = 1) -> list[ConvSize]:
    """Return those of a square latent image, in order of execution."""
    found: list[ConvSize] = []

    def conv(inputs: int, outputs: int, size: int, plain: bool = True) -> None:
        found.append(ConvSize(inputs, outputs, size, size, (3, 3), plain, batch))

    def block(inputs: int, outputs: int, size: int) -> None:
        conv(inputs, outputs, size)
        conv(outputs, outputs, size)

    conv(4, 320, latent)
    width, skips = 320, [320]
    for level, outputs in enumerate(WIDTHS):
        for _ in range(2):
            block(width, outputs, latent)
            width = outputs
            skips.append(width)
        if level < 3:
            latent //= 2
            conv(width, width, latent, plain=False)
            skips.append(width)
    block(width, width, latent)
    block(width, width, latent)
    for level, outputs in enumerate(WIDTHS[::-1]):
        for _ in range(3):
            block(width + skips.pop(), outputs, latent)
            width = outputs
        if level < 3:
            latent *= 2
            conv(width, width, latent)
    conv(320, 4, latent)
    return found
