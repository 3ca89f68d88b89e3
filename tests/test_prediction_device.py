"""Devices: the convolution that the paper had to split, and where the known limits lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.compress.encoding import recipe
from msd.errors import BadConfig
from msd.graph.prediction.device import FIGURES, LIMITS, ConvSize, Device, find_device, read_device, shipped
from msd.graph.prediction.fit import fits, input_split, output_split, uses_winograd, weights_texture
from msd.graph.rewrite import Target

ROOT = Path(__file__).parents[1]
DEVICES = sorted((ROOT / "configs" / "devices").glob("*.toml"))

PAPER = ConvSize(inputs=1920, outputs=640, height=32, width=32, kernel=(3, 3))
"""The convolution of Stable Diffusion's U-Net that arXiv 2307.01193, section 3.1, serialises."""


def device(name: str) -> Device:
    return read_device(next(p for p in DEVICES if p.stem == name))


def conv(inputs: int, outputs: int, size: int, kernel: int = 3, plain: bool = True) -> ConvSize:
    return ConvSize(inputs, outputs, size, size, (kernel, kernel), plain)


def test_the_papers_numbers() -> None:
    """Two slices of the input or eight of the output, on an Adreno 740."""
    adreno = device("adreno-740")
    assert uses_winograd(adreno, PAPER)
    assert weights_texture(adreno, PAPER) == (160, 17280)
    assert not fits(adreno, PAPER)
    assert input_split(adreno, PAPER) == 2
    assert output_split(adreno, PAPER) == 8
    assert Target().device == replace(adreno, **dict.fromkeys(FIGURES)), "only figures have no default"


def test_where_it_fits_as_it_is() -> None:
    """At 448 pixels, without Winograd, on an older Adreno, and where weights lie in buffers."""
    assert fits(device("adreno-740"), ConvSize(1920, 640, 28, 28, (3, 3)))
    assert fits(device("adreno-740"), ConvSize(1920, 640, 32, 32, (3, 3), plain=False))
    assert fits(device("adreno-6xx"), PAPER)
    assert fits(device("mali-valhall"), PAPER)


def test_litert_counts_the_batch_and_more_tiles() -> None:
    """winograd_util.cc: 128 tiles, those of the batch together, on every Adreno since the 6xx."""
    both = replace(PAPER, batch=2)
    for name in ("adreno-740", "adreno-6xx", "adreno-8xx"):
        gpu = device(name).under("litert-gpu")
        assert (fits(gpu, PAPER), fits(gpu, both)) == (True, False)
        assert input_split(gpu, both) == 2
    assert fits(device("adreno-6xx").under("tflite-gpu"), both)
    assert not fits(device("adreno-740").under("tflite-gpu"), PAPER)


def test_a_description_stands_for_whichever_delegate_asks_more() -> None:
    assert not fits(device("adreno-6xx"), replace(PAPER, batch=2))
    assert not fits(device("adreno-740"), PAPER)


def test_litert_asks_for_more_slices_of_a_powervr() -> None:
    """16 by 16 slices are enough for TensorFlow Lite; LiteRT wants 16 by 32."""
    powervr = device("powervr")
    assert uses_winograd(powervr.under("tflite-gpu"), conv(64, 64, 32))
    assert not uses_winograd(powervr.under("litert-gpu"), conv(64, 64, 32))
    assert uses_winograd(powervr.under("litert-gpu"), conv(64, 128, 32))


def test_what_is_unknown_is_named_and_not_guessed() -> None:
    desktop = device("desktop-vulkan")
    assert "image2d_height" in desktop.unknown
    assert fits(desktop, PAPER)
    assert weights_texture(desktop, PAPER) == (160, 17280)
    assert device("adreno-740").unknown == ()


def test_a_convolutions_size_from_its_shapes() -> None:
    attrs = dict.fromkeys(("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"), 1)
    shapes = (2, 9, 7, 24), (16, 3, 5, 24), (2, 9, 7, 16)
    assert ConvSize.of(*shapes, attrs) == ConvSize(24, 16, 9, 7, (3, 5), batch=2)
    assert not ConvSize.of(*shapes, {**attrs, "stride_w": 2}).plain
    assert not ConvSize.of(*shapes, {**attrs, "dilation_h_factor": 2}).plain
    assert not ConvSize.of((2, 9, 7, 48), *shapes[1:], attrs).plain


def test_at_768_pixels_older_adreno_fail_too() -> None:
    large = ConvSize(1920, 640, 48, 48, (3, 3))
    assert weights_texture(device("adreno-6xx"), large) == (160, 17280)
    assert input_split(device("adreno-6xx"), large) == 2


def test_swiftshader_is_as_measured() -> None:
    """Right and wrong results of single convolutions, docs/delegates.md."""
    swiftshader = device("swiftshader")
    assert fits(swiftshader, conv(908, 64, 21))
    assert not fits(swiftshader, conv(912, 64, 21))
    assert fits(swiftshader, conv(960, 64, 20))
    assert fits(swiftshader, conv(960, 16, 21))
    assert weights_texture(swiftshader, PAPER)[1] == 17280
    assert input_split(swiftshader, PAPER) == 3


@pytest.mark.parametrize(
    ("size", "winograd"),
    [
        (conv(128, 128, 32), True),
        (conv(125, 125, 29), True),
        (conv(124, 128, 32), False),
        (conv(128, 124, 32), False),
        (conv(128, 128, 28), False),
        (ConvSize(128, 128, 4, 253, (3, 3)), True),
        (ConvSize(128, 128, 4, 252, (3, 3)), False),
        (conv(128, 128, 32, kernel=1), False),
        (ConvSize(128, 128, 32, 32, (3, 1)), False),
        (conv(128, 128, 32, plain=False), False),
    ],
)
def test_winograd_is_chosen_from_its_limits_on(size: ConvSize, winograd: bool) -> None:
    """32 slices of four channels in and out, 64 tiles of 4x4."""
    assert uses_winograd(device("adreno-740"), size) is winograd


def test_plain_convolutions_need_a_row_per_tap() -> None:
    adreno = device("adreno-740")
    assert weights_texture(adreno, conv(2560, 1281, 8)) == (321, 5760)
    assert fits(adreno, conv(7280, 64, 8))
    assert not fits(adreno, conv(7284, 64, 8))
    assert fits(adreno, conv(64, 65536, 8, kernel=1))
    assert not fits(adreno, conv(64, 65540, 8, kernel=1))


@given(
    inputs=st.integers(1, 3000),
    outputs=st.integers(1, 3000),
    size=st.sampled_from([8, 28, 32, 48, 64]),
    kernel=st.sampled_from([1, 3, 5]),
    name=st.sampled_from([p.stem for p in DEVICES]),
)
def test_a_split_is_the_first_that_fits(inputs: int, outputs: int, size: int, kernel: int, name: str) -> None:
    gpu, whole = device(name), conv(inputs, outputs, size, kernel)
    for channels, parts, cut in (
        (inputs, input_split(gpu, whole), lambda n: conv(inputs // n, outputs, size, kernel)),
        (outputs, output_split(gpu, whole), lambda n: conv(inputs, outputs // n, size, kernel)),
    ):
        equal = [1] + [n for n in range(2, channels + 1) if channels % n == 0 and channels // n % 4 == 0]
        fitting = [n for n in equal if fits(gpu, cut(n))]
        assert parts == (fitting[0] if fitting else None)


def test_what_no_split_helps() -> None:
    """Channels that are not a multiple of four cannot be cut; an output split leaves a plain one as high."""
    assert input_split(device("adreno-740"), conv(7285, 64, 8)) is None
    assert output_split(device("adreno-740"), conv(7284, 64, 8)) is None


@pytest.mark.parametrize("path", DEVICES, ids=lambda p: p.stem)
def test_every_device_described_is_read_and_says_everything(path: Path) -> None:
    gpu = read_device(path)
    assert gpu.name == path.stem
    assert path.read_text().startswith("# ")
    assert set(tomllib.loads(path.read_text())) == set(Device.__dataclass_fields__) - {"delegate"}
    assert set(gpu.unknown) <= set(LIMITS)


def test_a_device_is_found_by_its_name_or_its_file(tmp_path: Path) -> None:
    assert shipped() == [p.stem for p in DEVICES]
    assert find_device("mali-valhall") == device("mali-valhall")
    path = tmp_path / "own"
    path.write_text("image2d_height = 4096\n")
    assert find_device(str(path)).image2d_height == 4096


def test_a_device_that_is_not_known_is_refused_with_the_names() -> None:
    with pytest.raises(
        BadConfig, match=r"no device is called 'adreno'; there are adreno-6xx, adreno-740, .*toml"
    ):
        find_device("adreno")
    with pytest.raises(BadConfig, match=r"missing\.toml is not a device description"):
        find_device("missing.toml")


def test_an_installed_msd_knows_the_devices_and_recipes(tmp_path: Path) -> None:
    """A wheel made of the sources, without the demo checkpoint, unpacked elsewhere."""
    source, installed = tmp_path / "source", tmp_path / "installed"
    for folder in ("msd", "graph_rewrites", "configs"):
        ignored = shutil.ignore_patterns("__pycache__", "checkpoint")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, source)
    build = "from hatchling import build; build.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = source.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    ask = (
        "from msd.compress.encoding import recipe; from msd.graph.prediction import device;"
        " print(device.__file__, device.find_device('powervr').name,"
        " device.shipped(), recipe.find_recipe('gpu-w8').name, recipe.shipped())"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    module = installed / "msd/graph/prediction/device.py"
    assert found.stdout.strip() == f"{module} powervr {shipped()} gpu-w8 {recipe.shipped()}"


def test_there_are_devices_of_both_kinds() -> None:
    assert {read_device(p).weights_storage for p in DEVICES} == {"texture_2d", "buffer"}


def test_what_is_not_said_is_as_on_an_adreno_740(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("image2d_height = 4096\n")
    assert read_device(path) == Device(name="small", image2d_height=4096)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "image2d_hieght = 4096",
            r"has no use for \['image2d_hieght'\]; known keys are \['activations_storage'",
        ),
        ('image2d_height = "4096"', "image2d_height is '4096'; a positive integer was expected"),
        ("image2d_height = 40.5", r"image2d_height is 40\.5; a positive integer was expected"),
        ("image2d_height = true", "image2d_height is True; a positive integer was expected"),
        ("winograd_tiles = 0", "winograd_tiles is 0; a positive integer was expected"),
        ("name = 740", "name is 740; a string was expected"),
        ('weights_storage = "texture"', r"'texture'; choose from \['texture_2d', 'buffer'\]"),
        ('activations_storage = "image"', r"'image'; choose from \['texture_2d', 'texture_array'"),
        ('winograd_tiles = "unknown"', "winograd_tiles is 'unknown'; a positive integer was expected"),
        ("allocation_bytes = 0", "allocation_bytes is 0; a positive integer was expected"),
        ("image_buffer_pixels = -1", "image_buffer_pixels is -1; a positive integer was expected"),
        ('delegate = "tflite-gpu"', r"has no use for \['delegate'\]"),
        ("image2d_height =", "is not a device description: Invalid value"),
    ],
)
def test_a_description_with_a_mistake_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(BadConfig, match=rf"wrong\.toml.*{message}"):
        read_device(path)


def test_a_description_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"none\.toml is not a device description: .*No such file"):
        read_device(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfig, match=r"bytes\.toml is not a device description: 'utf-8' codec"):
        read_device(tmp_path / "bytes.toml")
