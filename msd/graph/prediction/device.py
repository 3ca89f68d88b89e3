"""The target GPU of a conversion: the limits that decide whether a convolution fits.

Image limits and the thresholds of the Winograd choice are those of TensorFlow Lite's GPU delegate
(tensorflow/lite/delegates/gpu/common: selectors/operation_selector.cc, tasks/conv_generic.cc), of LiteRT's
(ml_drift/common/winograd_util.cc) and of public clinfo dumps; configs/devices lists the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msd.errors import BadConfig
from msd.files.configs import CONFIGS, find_config, read_config, shipped_names
from msd.graph.prediction.phones import find_phone, phones

FOLDER = CONFIGS / "devices"
"""The folder of msd's own device descriptions, in a checkout or inside the installed package."""

STORAGES = {
    "weights_storage": ("texture_2d", "buffer"),
    "activations_storage": ("texture_2d", "texture_array", "image_buffer", "buffer"),
}
"""The storage types that a device may use for convolution weights and for computed tensors."""

LIMITS = (
    "image2d_width",
    "image2d_height",
    "image2d_layers",
    "image3d_width",
    "image3d_height",
    "image3d_depth",
    "image_buffer_pixels",
    "allocation_bytes",
)
"""The keys that may be unknown for a device."""

FIGURES = ("memory_bandwidth", "half_flops", "float_flops")
"""The keys of a roofline, which may be unknown too, and are where a description leaves them out."""

OTHERS = (*FIGURES, "file_bytes")
"""The keys of further numbers that may be unknown."""

LARGEST_FILE = 1 << 31
"""Bytes: FlatBuffers' offsets have 31 bits, and constants beyond are only found by newer readers."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ConvSize:
    """The size of a convolution; `height`, `width` and `batch` are those of its result.

    `inputs` is the number of channels that one filter reads; `plain` means no stride, dilation or groups.
    """

    inputs: int
    outputs: int
    height: int
    width: int
    kernel: tuple[int, int]
    plain: bool = True
    batch: int = 1

    @property
    def tiles(self) -> int:
        """The number of 4x4 tiles that cover one result."""
        return -(-self.height // 4) * -(-self.width // 4)

    @staticmethod
    def of(source: Shape, weights: Shape, result: Shape, attrs: Mapping[str, Any]) -> ConvSize:
        """Return the size of a CONV_2D (NHWC by OHWI)."""
        steps = ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor")
        plain = all(attrs[step] == 1 for step in steps) and source[3] == weights[3]
        outputs, kh, kw, inputs = weights
        return ConvSize(
            inputs=inputs,
            outputs=outputs,
            height=result[1],
            width=result[2],
            kernel=(kh, kw),
            plain=plain,
            batch=result[0],
        )


@dataclass(frozen=True)
class Device:
    """One GPU. Image sizes in pixels of four channels; None where a limit is unknown.

    `winograd_*` are the smallest sizes for which TensorFlow Lite's delegate chooses Winograd; LiteRT's has
    its own minimum of tiles, and of input slices times output slices. `image_buffer_pixels` is 0 where there
    are no image buffers. `memory_bandwidth` in bytes, `half_flops` and `float_flops` in additions and
    multiplications, all a second, are the most that the GPU reaches. `file_bytes` is the largest file that
    may be mapped and opened there. `delegate` is the one that uses the
    device; with None, as in a description, the stricter of the delegates counts.
    """

    name: str = "adreno-740"
    weights_storage: str = "texture_2d"
    activations_storage: str = "texture_2d"
    image2d_width: int | None = 16384
    image2d_height: int | None = 16384
    image2d_layers: int | None = 2048
    image3d_width: int | None = 16384
    image3d_height: int | None = 16384
    image3d_depth: int | None = 2048
    image_buffer_pixels: int | None = 134217728
    allocation_bytes: int | None = 977272832
    winograd_input_slices: int = 32
    winograd_output_slices: int = 32
    winograd_tiles: int = 64
    litert_winograd_slices: int = 1
    litert_winograd_tiles: int = 128
    memory_bandwidth: int | None = None
    half_flops: int | None = None
    float_flops: int | None = None
    file_bytes: int | None = LARGEST_FILE
    delegate: str | None = None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the limits that are unknown; exceeding only these goes undetected."""
        return tuple(key for key in LIMITS if getattr(self, key) is None)

    def under(self, delegate: str) -> Device:
        """Return the device as one delegate, by its name, uses it."""
        return replace(self, delegate=delegate)


def within(size: int, limit: int | None) -> bool:
    """Whether `size` is at most `limit`; an unknown limit never fails."""
    return limit is None or size <= limit


def slices(channels: int) -> int:
    """Return the number of slices, pixels of four channels, that hold `channels`."""
    return -(-channels // 4)


def shipped() -> list[str]:
    """Return the names of msd's own device descriptions."""
    return shipped_names(FOLDER)


def phone_names() -> list[str]:
    """Return the names of the phones whose GPU has a description."""
    return [phone.name for phone in phones()]


def find_device(name_or_path: str) -> Device:
    """Return the device of that name, of that phone, or described in that file.

    Raises BadConfig listing the names.
    """
    phone = find_phone(name_or_path)
    return read_device(find_config(phone.device if phone else name_or_path, FOLDER, "device", phone_names()))


def read_device(path: Path) -> Device:
    """Return the device described in a TOML file; raises BadConfig naming the key at fault.

    Limits may be "unknown"; missing keys have the values of an Adreno 740.
    """
    table = read_config(path, "a device description")
    known = set(Device.__dataclass_fields__) - {"delegate"}
    if unknown := set(table) - known:
        raise BadConfig(f"{path} has no use for {sorted(unknown)}; known keys are {sorted(known)}")
    values = {key: _value(key, value, path) for key, value in table.items()}
    return Device(**{"name": path.stem, **values})


def _value(key: str, value: Any, path: Path) -> Any:
    if key in (*LIMITS, *OTHERS) and value == "unknown":
        return None
    kind = int if key in OTHERS else type(getattr(Device(), key))
    least = 0 if key == "image_buffer_pixels" else 1
    if type(value) is not kind or (kind is int and value < least):
        expected = "a positive integer" if kind is int else "a string"
        raise BadConfig(f"{path}: {key} is {value!r}; {expected} was expected")
    if key in STORAGES and value not in STORAGES[key]:
        raise BadConfig(f"{path}: {key} is {value!r}; choose from {list(STORAGES[key])}")
    return value
