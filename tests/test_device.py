"""Devices: the convolution that the paper had to split, and where the known limits lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.device import ConvSize, Device, Target, read_device
from msd.errors import BadConfig

DEVICES = sorted((Path(__file__).parents[1] / "configs" / "devices").glob("*.toml"))

PAPER = ConvSize(inputs=1920, outputs=640, height=32, width=32, kernel=(3, 3))
"""The convolution of Stable Diffusion's U-Net that arXiv 2307.01193, section 3.1, serialises."""


def device(name: str) -> Device:
    return read_device(next(p for p in DEVICES if p.stem == name))


def conv(inputs: int, outputs: int, size: int, kernel: int = 3, plain: bool = True) -> ConvSize:
    return ConvSize(inputs, outputs, size, size, (kernel, kernel), plain)


def test_the_papers_numbers() -> None:
    """Two slices of the input or eight of the output, on an Adreno 740."""
    adreno = device("adreno-740")
    assert adreno.uses_winograd(PAPER)
    assert adreno.weights_texture(PAPER) == (160, 17280)
    assert not adreno.fits(PAPER)
    assert adreno.input_split(PAPER) == 2
    assert adreno.output_split(PAPER) == 8
    assert Target().device == adreno


def test_where_it_fits_as_it_is() -> None:
    """At 448 pixels, without Winograd, on an older Adreno, and where weights lie in buffers."""
    assert device("adreno-740").fits(ConvSize(1920, 640, 28, 28, (3, 3)))
    assert device("adreno-740").fits(ConvSize(1920, 640, 32, 32, (3, 3), plain=False))
    assert device("adreno-6xx").fits(PAPER)
    assert device("mali-valhall").fits(PAPER)


def test_at_768_pixels_older_adreno_fail_too() -> None:
    large = ConvSize(1920, 640, 48, 48, (3, 3))
    assert device("adreno-6xx").weights_texture(large) == (160, 17280)
    assert device("adreno-6xx").input_split(large) == 2


def test_swiftshader_is_as_measured() -> None:
    """Right and wrong results of single convolutions, docs/delegates.md."""
    swiftshader = device("swiftshader")
    assert swiftshader.fits(conv(908, 64, 21))
    assert not swiftshader.fits(conv(912, 64, 21))
    assert swiftshader.fits(conv(960, 64, 20))
    assert swiftshader.fits(conv(960, 16, 21))
    assert swiftshader.weights_texture(PAPER)[1] == 17280
    assert swiftshader.input_split(PAPER) == 3


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
    assert device("adreno-740").uses_winograd(size) is winograd


def test_plain_convolutions_need_a_row_per_tap() -> None:
    adreno = device("adreno-740")
    assert adreno.weights_texture(conv(2560, 1281, 8)) == (321, 5760)
    assert adreno.fits(conv(7280, 64, 8))
    assert not adreno.fits(conv(7284, 64, 8))
    assert adreno.fits(conv(64, 65536, 8, kernel=1))
    assert not adreno.fits(conv(64, 65540, 8, kernel=1))


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
        (inputs, gpu.input_split(whole), lambda n: conv(inputs // n, outputs, size, kernel)),
        (outputs, gpu.output_split(whole), lambda n: conv(inputs, outputs // n, size, kernel)),
    ):
        equal = [1] + [n for n in range(2, channels + 1) if channels % n == 0 and channels // n % 4 == 0]
        fitting = [n for n in equal if gpu.fits(cut(n))]
        assert parts == (fitting[0] if fitting else None)


def test_what_no_split_helps() -> None:
    """Channels that are not a multiple of four cannot be cut; an output split leaves a plain one as high."""
    assert device("adreno-740").input_split(conv(7285, 64, 8)) is None
    assert device("adreno-740").output_split(conv(7284, 64, 8)) is None


@pytest.mark.parametrize("path", DEVICES, ids=lambda p: p.stem)
def test_every_device_described_is_read(path: Path) -> None:
    gpu = read_device(path)
    assert gpu.name == path.stem
    assert path.read_text().startswith("# ")


def test_there_are_devices_of_both_kinds() -> None:
    assert {read_device(p).weights_storage for p in DEVICES} == {"texture_2d", "buffer"}


def test_what_is_not_said_is_as_on_an_adreno_740(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("image2d_height = 4096\n")
    assert read_device(path) == Device(name="small", image2d_height=4096)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image2d_hieght = 4096", r"has no use for \['image2d_hieght'\]; known keys are \['image2d_height'"),
        ('image2d_height = "4096"', "image2d_height is '4096'; a positive integer was expected"),
        ("image2d_height = 40.5", r"image2d_height is 40\.5; a positive integer was expected"),
        ("image2d_height = true", "image2d_height is True; a positive integer was expected"),
        ("winograd_tiles = 0", "winograd_tiles is 0; a positive integer was expected"),
        ("name = 740", "name is 740; a string was expected"),
        ('weights_storage = "texture"', r"'texture'; choose from \['texture_2d', 'buffer'\]"),
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
