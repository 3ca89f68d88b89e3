"""Small upscalers with random weights: Real-ESRGAN's two networks in PyTorch, and ncnn's files of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional

from msd.bundle import Bundle, open_bundle
from msd.cli.convert import convert
from tests import checkpoints


class DenseBlock(nn.Module):
    """Five convolutions, each of all before it (Wang et al., 2018, arXiv 1809.00219, figure 4)."""

    def __init__(self, features: int, growth: int) -> None:
        super().__init__()
        for i in range(1, 6):
            outputs = features if i == 5 else growth
            setattr(self, f"conv{i}", nn.Conv2d(features + (i - 1) * growth, outputs, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = [x]
        for i in range(1, 5):
            found.append(functional.leaky_relu(getattr(self, f"conv{i}")(torch.cat(found, 1)), 0.2))
        return x + 0.2 * self.conv5(torch.cat(found, 1))


class Block(nn.Module):
    """Three dense blocks, a fifth of whose result is added to their input."""

    def __init__(self, features: int, growth: int) -> None:
        super().__init__()
        for i in range(1, 4):
            setattr(self, f"rdb{i}", DenseBlock(features, growth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.2 * self.rdb3(self.rdb2(self.rdb1(x)))


class Rrdb(nn.Module):
    """The large network: (N, 3, rows, columns) in [0, 1] to `scale` times the rows and columns."""

    def __init__(self, scale: int = 4, features: int = 8, growth: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.scale = scale
        self.conv_first = nn.Conv2d(3 * (4 // scale) ** 2, features, 3, padding=1)
        self.body = nn.Sequential(*(Block(features, growth) for _ in range(blocks)))
        for name in ("conv_body", "conv_up1", "conv_up2", "conv_hr"):
            setattr(self, name, nn.Conv2d(features, features, 3, padding=1))
        self.conv_last = nn.Conv2d(features, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.conv_first(functional.pixel_unshuffle(x, 4 // self.scale))
        x = first + self.conv_body(self.body(first))
        for layer in (self.conv_up1, self.conv_up2):
            x = functional.leaky_relu(layer(functional.interpolate(x, scale_factor=2)), 0.2)
        return self.conv_last(functional.leaky_relu(self.conv_hr(x), 0.2))


class Compact(nn.Module):
    """The compact network; its result is added to the image with each pixel repeated."""

    def __init__(self, scale: int = 4, features: int = 8, convs: int = 3) -> None:
        super().__init__()
        self.scale = scale
        layers: list[nn.Module] = [nn.Conv2d(3, features, 3, padding=1), nn.PReLU(features)]
        for _ in range(convs):
            layers += [nn.Conv2d(features, features, 3, padding=1), nn.PReLU(features)]
        self.body = nn.ModuleList([*layers, nn.Conv2d(features, 3 * scale**2, 3, padding=1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x
        for layer in self.body:
            found = layer(found)
        return functional.pixel_shuffle(found, self.scale) + functional.interpolate(
            x, scale_factor=self.scale
        )


Kinds = Mapping[str, tuple[type[Rrdb] | type[Compact], dict[str, int]]]
"""Upscalers by their names: the network, and what `make` is given."""

KINDS: Kinds = {
    "large-4": (Rrdb, {"scale": 4, "features": 9, "growth": 5, "blocks": 2}),
    "large-2": (Rrdb, {"scale": 2, "features": 8, "growth": 4, "blocks": 1}),
    "compact-4": (Compact, {"scale": 4, "features": 10, "convs": 2}),
    "compact-2": (Compact, {"scale": 2, "features": 7, "convs": 3}),
}


def make(kind: type[Rrdb] | type[Compact], seed: int = 0, **settings: int) -> nn.Module:
    """Return a network of random weights, none of them 0; slopes have both signs."""
    torch.manual_seed(seed)
    network = kind(**settings)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return network.eval()


def write_sources(folder: Path, kinds: Kinds) -> None:
    """Write a tiny checkpoint as `source`, and an upscaler of each kind as NAME.pth."""
    checkpoints.write(folder / "source", checkpoints.TINY)
    for name, (kind, settings) in kinds.items():
        torch.save({"params": make(kind, **settings).state_dict()}, folder / f"{name}.pth")


def convert_alone(folder: Path, name: str, recipe: str) -> Bundle:
    """Return a bundle of the upscaler NAME.pth in `folder` alone, whose tiles are 64 by 48."""
    out = folder / f"{name}-{recipe}"
    sizes = ["--height", "64", "--width", "48"]
    options = ["--upscaler", folder / f"{name}.pth", "--component", "upscaler", "--recipe", recipe, *sizes]
    result = CliRunner().invoke(convert, [*map(str, [folder / "source", "-o", out, *options])])
    assert result.exit_code == 0, result.output
    return open_bundle(out)


def enlarged(network: nn.Module, image: np.ndarray) -> np.ndarray:
    """Return what the network makes of an image (rows, columns, 3) in [0, 1], float32 of the same layout."""
    with torch.no_grad():
        return network(torch.from_numpy(image).permute(2, 0, 1)[None])[0].permute(1, 2, 0).numpy()


def write_ncnn(path: Path, network: nn.Module, half: bool = False, fused: bool = True) -> Path:
    """Write `path`, a .param file, and the .bin beside it; activations are fused, or layers of their own."""
    layers = [*(_rrdb if isinstance(network, Rrdb) else _compact)(network, fused)]
    text = [f"{len(layers)} {len(layers)}", *layers]
    path.write_text("\n".join(["7767517", *text]) + "\n")
    path.with_suffix(".bin").write_bytes(b"".join(_weights(network, half)))
    return path


def _weights(network: nn.Module, half: bool) -> Iterator[bytes]:
    for module in network.modules():
        if isinstance(module, nn.PReLU):
            yield module.weight.detach().numpy().tobytes()
        elif isinstance(module, nn.Conv2d):
            filters = module.weight.detach().numpy().astype(np.float16 if half else np.float32).tobytes()
            yield (0x01306B47 if half else 0).to_bytes(4, "little") + filters + bytes(-len(filters) % 4)
            yield module.bias.detach().numpy().tobytes()


class _Writer:
    """Lines of a .param file, with a name for each blob."""

    def __init__(self, fused: bool) -> None:
        self.fused, self.lines, self.count = fused, ["Input image 0 1 x0"], 0

    def add(self, kind: str, inputs: Sequence[str], parameters: str = "") -> str:
        self.count += 1
        blob = f"x{self.count}"
        self.lines.append(f"{kind} layer{self.count} {len(inputs)} 1 {' '.join(inputs)} {blob} {parameters}")
        return blob

    def conv(self, x: str, module: nn.Conv2d, leaky: bool = False) -> str:
        form = f"0={module.out_channels} 1=3 4=1 5=1 6={module.weight.numel()}"
        if leaky and self.fused:
            return self.add("Convolution", [x], f"{form} 9=2 -23310=1,2.000000e-01")
        y = self.add("Convolution", [x], form)
        return self.add("ReLU", [y], "0=2.000000e-01") if leaky else y

    def share(self, x: str, y: str) -> str:
        """Add a fifth of x, plus y."""
        if self.fused:
            return self.add("Eltwise", [x, y], "0=1 -23301=2,2.000000e-01,1.000000e+00")
        return self.add("BinaryOp", [self.add("BinaryOp", [x], "0=2 1=1 2=2.000000e-01"), y], "0=0")


def _rrdb(network: Rrdb, fused: bool) -> list[str]:
    new = _Writer(fused)
    x = new.add("Reorg", ["x0"], "0=2") if network.scale == 2 else "x0"
    first = x = new.conv(x, network.conv_first)
    for block in network.body:
        outside = x
        for dense in (block.rdb1, block.rdb2, block.rdb3):
            found = [x]
            for i in range(1, 6):
                joined = new.add("Concat", found, "0=0") if i > 1 else x
                found.append(new.conv(joined, getattr(dense, f"conv{i}"), leaky=i < 5))
            x = new.share(found[-1], x)
        x = new.share(x, outside)
    x = new.add("BinaryOp", [first, new.conv(x, network.conv_body)], "0=0")
    for layer in (network.conv_up1, network.conv_up2):
        x = new.conv(new.add("Interp", [x], "0=1 1=2.0 2=2.0"), layer, leaky=True)
    new.conv(new.conv(x, network.conv_hr, leaky=True), network.conv_last)
    return new.lines


def _compact(network: Compact, fused: bool) -> list[str]:
    new, x = _Writer(fused), "x0"
    for layer in network.body:
        if isinstance(layer, nn.PReLU):
            x = new.add("PReLU", [x], f"0={layer.weight.numel()}")
        else:
            x = new.conv(x, layer)
    shuffled = new.add("PixelShuffle", [x], f"0={network.scale}")
    repeated = new.add("Interp", ["x0"], f"0=1 1={network.scale}.0 2={network.scale}.0")
    new.add("BinaryOp", [shuffled, repeated], "0=0")
    return new.lines
