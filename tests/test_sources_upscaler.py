"""--upscaler: the files that are read, and those that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.upscaler import add_upscaler
from msd.errors import BadCheckpoint, BadConfig
from msd.models.upscaler_config import CompactConfig, RrdbConfig
from tests import checkpoints, upscalers
from tests.upscalers import Compact, Rrdb

UPSCALER = "upscaler"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("source")
    checkpoints.write(folder, checkpoints.TINY)
    return open_checkpoint(folder)


def read(checkpoint: Checkpoint, path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the upscaler's configuration, and its tensors, which are loaded."""
    opened = add_upscaler(checkpoint, path)
    return opened.configs[UPSCALER], {name: t.load() for name, t in opened.weights[UPSCALER].items()}


def saved(path: Path, tensors: dict[str, torch.Tensor], wrapper: str | None = None) -> Path:
    torch.save({wrapper: tensors} if wrapper else tensors, path)
    return path


def shaped(**shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Return tensors of these shapes; a double underscore stands for a dot."""
    return {name.replace("__", "."): torch.ones(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("wrapper", ["params_ema", "params", None])
def test_a_large_network_of_torch(checkpoint: Checkpoint, tmp_path: Path, wrapper: str | None) -> None:
    network = upscalers.make(Rrdb, features=10, growth=6, blocks=3)
    config, tensors = read(checkpoint, saved(tmp_path / "x4.pth", network.state_dict(), wrapper))
    assert config == RrdbConfig(scale=4, features=10, growth=6, blocks=3)
    assert tensors.keys() == network.state_dict().keys()
    assert all(np.array_equal(tensors[name], tensor) for name, tensor in network.state_dict().items())


def test_the_averaged_weights_are_preferred(checkpoint: Checkpoint, tmp_path: Path) -> None:
    own, averaged = (upscalers.make(Rrdb, seed=seed).state_dict() for seed in (0, 1))
    torch.save({"params": own, "params_ema": averaged}, tmp_path / "both.pth")
    _, tensors = read(checkpoint, tmp_path / "both.pth")
    assert np.array_equal(tensors["conv_last.bias"], averaged["conv_last.bias"])


def test_a_compact_network_of_safetensors(checkpoint: Checkpoint, tmp_path: Path) -> None:
    network = upscalers.make(Compact, scale=2, features=10, convs=4)
    save_file(network.state_dict(), tmp_path / "x2.safetensors")
    config, tensors = read(checkpoint, tmp_path / "x2.safetensors")
    assert config == CompactConfig(scale=2, features=10, convs=4)
    own = network.state_dict()
    assert np.array_equal(tensors["body.3.weight"][0, 0], own["body.3.weight"])
    last = own["body.10.bias"].reshape(3, 4)
    assert np.array_equal(tensors["body.10.bias"].reshape(4, 3), last.T)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Rrdb, {"scale": 4, "blocks": 2}),
        (Rrdb, {"scale": 2, "features": 7, "growth": 3, "blocks": 1}),
        (Compact, {"scale": 4, "features": 5}),
        (Compact, {"scale": 2, "convs": 1}),
    ],
)
def test_files_of_ncnn_are_those_of_torch(
    checkpoint: Checkpoint, tmp_path: Path, kind: Any, settings: dict[str, int], fused: bool, half: bool
) -> None:
    network = upscalers.make(kind, **settings)
    wanted, expected = read(checkpoint, saved(tmp_path / "own.pth", network.state_dict()))
    param = upscalers.write_ncnn(tmp_path / "own.param", network, half, fused)
    for path in (param, param.with_suffix(".bin")):
        config, tensors = read(checkpoint, path)
        assert config == wanted
        assert tensors.keys() == expected.keys()
        for name, tensor in expected.items():
            rounded = tensor.astype(np.float16) if half and tensor.ndim == 4 else tensor
            assert np.array_equal(tensors[name], rounded), name


def test_all_files_are_named(checkpoint: Checkpoint, tmp_path: Path) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Compact))
    opened = add_upscaler(checkpoint, param)
    assert opened.weight_files[UPSCALER] == ("upscaler/own.param", "upscaler/own.bin")
    assert opened.files["upscaler/own.bin"] == tmp_path / "own.bin"
    assert opened.replaced == (UPSCALER,)


COMPACT = shaped(body__0__weight=(8, 3, 3, 3), body__1__weight=(8,), body__2__weight=(48, 8, 3, 3))
RRDB = shaped(conv_first__weight=(8, 3, 3, 3))
DENSE = shaped(body__0__rdb1__conv1__weight=(4, 8, 3, 3))


@pytest.mark.parametrize(
    ("tensors", "because"),
    [
        (
            shaped(encoder__conv_in__weight=(8, 3, 3, 3)),
            "is no upscaler that msd knows (it has encoder.conv_in",
        ),
        ({}, "is no upscaler that msd knows (it has no tensors …); give a .pth or .safetensors file of Real"),
        ({"model.1.sub.0.RDB1.conv1.0.weight": torch.ones(1)}, "has the names of the first ESRGAN"),
        (
            COMPACT | shaped(body__2__weight=(27, 8, 3, 3)),
            "enlarges images 3 times; upscalers of 2 and 4 times",
        ),
        (
            COMPACT | shaped(body__2__weight=(50, 8, 3, 3)),
            "ends with 50 channels (body.2.weight), which make no",
        ),
        (
            COMPACT | shaped(body__3__weight=(8,)),
            "ends with body.3; an SRVGGNetCompact ends with a convolution",
        ),
        (COMPACT | shaped(body__0__weight=(8,)), "has body.0.weight of the shape [8]; filters have 4 axes"),
        (COMPACT | shaped(body__200__weight=(48, 8, 3, 3)), "has 99 convolutions, and from 1 to 64 are"),
        (
            shaped(conv_first__weight=(8, 48, 3, 3)),
            "enlarges images 1 times; upscalers of 2 and 4 times",
        ),
        (shaped(conv_first__weight=(8, 5, 3, 3)), "reads 5 channels (conv_first.weight); of an image a Real"),
        (RRDB, "lacks body.0.rdb1.conv1.weight, which every network of its kind has"),
        (RRDB | DENSE | shaped(body__99__x=(1,)), "has 100 blocks, and from 1 to 64 are supported"),
        (DENSE | shaped(conv_first__weight=(2000, 3, 3, 3)), "has 2000 channels, and from 1 to 1024 are"),
    ],
)
def test_other_networks_are_refused(
    checkpoint: Checkpoint, tmp_path: Path, tensors: dict[str, torch.Tensor], because: str
) -> None:
    path = saved(tmp_path / "other.pth", tensors)
    with pytest.raises(BadCheckpoint, match=re.escape(f"{path} {because}")):
        add_upscaler(checkpoint, path)


def test_a_missing_file_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(
        BadCheckpoint, match=r"is not a file; give a \.pth or .safetensors file of Real-ESRGAN"
    ):
        add_upscaler(checkpoint, tmp_path / "nothing.pth")


def test_not_behind_networks_of_keras_cv(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = saved(tmp_path / "x4.pth", upscalers.make(Rrdb).state_dict())
    with pytest.raises(BadConfig, match="cannot follow networks of keras-cv; leave out --source"):
        add_upscaler(replace(checkpoint, networks="keras-cv"), path)


def test_not_of_a_family_without_one(checkpoint: Checkpoint, tmp_path: Path) -> None:
    calls = tuple(call for call in checkpoint.family.calls if call.component != UPSCALER)
    components = tuple(each for each in checkpoint.family.components if each.name != UPSCALER)
    family = replace(checkpoint.family, calls=calls, components=components)
    with pytest.raises(BadConfig, match=r"Stable Diffusion 1\.x and 2\.x has no upscaler"):
        add_upscaler(replace(checkpoint, family=family), tmp_path / "x4.pth")


Edit = Callable[[str], str]


def swap(old: str, new: str) -> Edit:
    """Return an edit of a .param file, which has `old`."""

    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return edit


@pytest.mark.parametrize(
    ("edit", "because"),
    [
        (swap("7767517", "7767518"), "not a file of weights"),
        (swap("PReLU", "Swish"), "(Swish) is of a kind that no Real-ESRGAN has; there are Input, Split,"),
        (swap("1=3 4=1", "1=3 3=2 4=1"), "has 3=2, the stride; upscalers have 1"),
        (swap("1=3 4=1", "1=3 13=2 4=1"), "has 3=1, the stride; upscalers have 1"),
        (swap("1=3 4=1", "1=5 4=1"), "has 1=5, the filters' width; upscalers have 3"),
        (swap("6=216", "6=217"), "has 217 weights, which make no 3x3 filters for 8 channels"),
        (swap("0=8 1=3", "0=8.5 1=3"), "has 0=8.5, where a whole number was expected"),
        (swap("0=8 1=3", "0=-8 1=3"), "has 0=-8, where a count was expected"),
        (swap("1 1 x0 x1", "1 1 y9 x1"), "takes 'y9', which no layer before it gives"),
        (swap("PixelShuffle", "Split"), "connected in another way"),
        (swap("0=1 1=4.0 2=4.0", "0=3 1=0.5 2=0.5"), "resizes by 0.5x0.5 in the way 3; the nearest pixel"),
        (swap("0=1 1=4.0 2=4.0", "0=1 1=2.0 2=2.0"), "connected in another way"),
        (swap("1 1 x0 x1 ", "1 1 x0 x1 9=1 "), "has the activation 9=1; none and a leaky ReLU (2) are"),
        (swap("1 1 x1 x2", "2 1 x1 x0 x2"), "takes 2 blobs, where one was expected"),
        (swap("1 1 x0 x1", "9 1 x0 x1"), "line 4, "),
        (swap("0=8 1=3", "0=nan 1=3"), "line 4, it has the number nan"),
        (lambda text: text + "Input more 0 1 unused\n", "has 2 results; an upscaler has one"),
    ],
)
def test_other_layers_of_ncnn_are_refused(
    checkpoint: Checkpoint, tmp_path: Path, edit: Edit, because: str
) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Compact))
    param.write_text(edit(param.read_text()))
    with pytest.raises(BadCheckpoint, match=re.escape(because)):
        add_upscaler(checkpoint, param)


@pytest.mark.parametrize(
    ("edit", "because"),
    [
        (swap("0=1 -23301=2", "0=2 -23301=2"), "has 0=2 and 2 factors; a sum, 1, was expected"),
        (swap("-23301=2,2.000000e-01,1.000000e+00", "-23301=1,1.0"), "has 0=1 and 1 factors"),
        (swap("-23301=2,2.000000e-01", "-23301=2,3.000000e-01"), "connected in another way"),
        (swap("0=0\nConvolution", "0=1\nConvolution"), "joins along the axis 1; channels, 0, were expected"),
        (swap("-23310=1,2.000000e-01", "-23310=1,1.000000e-01"), "connected in another way"),
    ],
)
def test_other_sums_of_ncnn_are_refused(
    checkpoint: Checkpoint, tmp_path: Path, edit: Edit, because: str
) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Rrdb))
    param.write_text(edit(param.read_text()))
    with pytest.raises(BadCheckpoint, match=re.escape(because)):
        add_upscaler(checkpoint, param)


def test_products_of_ncnn_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Rrdb), fused=False)
    param.write_text(param.read_text().replace("0=2 1=1 2=", "0=3 1=1 2="))
    with pytest.raises(
        BadCheckpoint, match=re.escape("has 0=3; sums (0) and products with a number (2) are")
    ):
        add_upscaler(checkpoint, param)


def test_another_number_of_convolutions_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    network = upscalers.make(Compact)
    param = upscalers.write_ncnn(tmp_path / "own.param", network)
    lines = [line for line in param.read_text().splitlines() if not line.startswith("PReLU")]
    param.write_text("\n".join(re.sub(r"\bx3\b", "x1", line) for line in lines))
    with pytest.raises(BadCheckpoint, match="which no layer before it gives"):
        add_upscaler(checkpoint, param)
    param.write_text("7767517\n2 2\nInput image 0 1 x0\nConvolution a 1 1 x0 y 0=3 1=3 4=1 5=1 6=81\n")
    param.with_suffix(".bin").write_bytes(bytes(4 + 4 * 84))
    with pytest.raises(
        BadCheckpoint, match="has 1 convolutions; an RRDBNet has 6, and 15 more for each block"
    ):
        add_upscaler(checkpoint, param)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (lambda content: content + bytes(4), "bytes, and the layers' weights"),
        (lambda content: content[:-4], "bytes, and ends within the layer layer9"),
        (lambda content: b"\x01" + content[1:], "layer1 has the tag 0x1; float32 and float16 are read"),
    ],
)
def test_other_weights_of_ncnn_are_refused(
    checkpoint: Checkpoint, tmp_path: Path, change: Callable[[bytes], bytes], because: str
) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Compact))
    weights = param.with_suffix(".bin")
    weights.write_bytes(change(weights.read_bytes()))
    with pytest.raises(BadCheckpoint, match=f"{re.escape(str(weights))} is not a readable .*{because}"):
        add_upscaler(checkpoint, param)


def test_layers_without_weights_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Compact))
    param.with_suffix(".bin").unlink()
    with pytest.raises(BadCheckpoint, match=r"lists layers, and own\.bin with their weights is not there"):
        add_upscaler(checkpoint, param)


def test_too_many_layers_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    param = upscalers.write_ncnn(tmp_path / "own.param", upscalers.make(Compact))
    param.write_text("7767517\n1 1\n" + "Split a 1 1 x x\n" * 5000)
    with pytest.raises(BadCheckpoint, match="has 5000 layers, and at most 4096 are read"):
        add_upscaler(checkpoint, param)
