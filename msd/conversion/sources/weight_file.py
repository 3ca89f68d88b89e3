"""A file of weights of any format, known by its first bytes: what its name ends in decides nothing.

Scaled float8, as ComfyUI writes it, becomes what it stands for here: the tensor `layer.weight` times
`layer.scale_weight` or `layer.weight_scale`. The scales of activations beside them are for kernels that
multiply in float8, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from msd.conversion.sources import pickled, safetensors
from msd.conversion.sources.pickled.legacy import is_legacy
from msd.conversion.sources.stored import HDF5, Contents, first_bytes
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Array, Weights

SAFE, OF_TORCH = ".safetensors", (".ckpt", ".pt", ".pth", ".bin")
"""Endings of names, which decide only whose complaint about a damaged file is shown."""

COMPILED = re.compile(r"(?:(?<=\.)|^)_orig_mod\.")
PARALLEL = "module."
ZIP = b"PK\x03\x04"
FOREIGN: tuple[tuple[bytes, str], ...] = (
    (HDF5, "an HDF5 file, as Keras writes; give the folder with keras-cv's .h5 files"),
    (b"GGUF", "a GGUF file, whose weights are quantised; give the .safetensors file that it was made of"),
    (b"version https://git-lfs", "a pointer of Git LFS; 'git lfs pull' fetches the file that it stands for"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"RIFF", "a RIFF file, as WebP images are"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (b"Rar!", "a RAR archive; unpack it"),
    (b"\x1f\x8b", "a gzip archive; unpack it"),
    (b"\xfd7zXZ", "an xz archive; unpack it"),
)
"""The first bytes of files that hold no weights that we read, and what these are."""

PAGE = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
TFLITE = slice(4, 8), b"TFL3"
SCALED = re.compile(r"(?P<layer>.+)\.(scale_weight|weight_scale)")
FOR_ACTIVATIONS = re.compile(r"(.+\.)?(scaled_fp8|scale_input|input_scale|comfy_quant)")


def is_weight_file(path: Path) -> bool:
    """Whether a file begins as one that safetensors or torch wrote."""
    start = first_bytes(path)
    return start.startswith(ZIP) or is_legacy(start) or _is_safetensors(start)


def read_contents(path: Path) -> Contents:
    """Return the contents of a file of safetensors or torch, with all float tensors as float32.

    Reads only headers. Raises BadCheckpoint for a file that is missing or damaged, and for one of another
    format, which the message names.
    """
    contents = _reader(path)(path)
    return Contents(_unscaled(path, _unwrapped(contents.tensors)), contents.metadata)


def _reader(path: Path) -> Callable[[Path], Contents]:
    """Return the function that reads a file, or that says best what is wrong with it."""
    start, suffix = first_bytes(path), path.suffix.lower()
    if what := what_else(path):
        raise BadCheckpoint(f"{path} cannot be read as weights: it is {what}")
    if start.startswith(ZIP) or is_legacy(start):
        return pickled.read_contents
    if _is_safetensors(start) or suffix == SAFE or not path.is_file():
        return safetensors.read_contents
    if suffix in OF_TORCH:
        return pickled.read_contents
    raise BadCheckpoint(
        f"{path} is not a file of weights: it begins as neither safetensors nor torch begins one"
    )


def what_else(path: Path) -> str | None:
    """Return what a file is instead of weights; None for weights, and for what first bytes do not tell."""
    start = first_bytes(path)
    if not start:
        return "empty" if path.is_file() else None
    if PAGE.match(start):
        return "a web page, as a download gives that wants a login"
    if start[TFLITE[0]] == TFLITE[1]:
        return "a .tflite file, which is converted already"
    return next((what for first, what in FOREIGN if start.startswith(first)), None)


def _is_safetensors(start: bytes) -> bool:
    """Whether the first bytes are a length of 8 bytes and an object of JSON."""
    return start[8:].lstrip()[:1] == b"{"


def _unwrapped(tensors: Mapping[str, Weights]) -> dict[str, Weights]:
    """Return the tensors without what torch.compile and its data parallelism put into all names."""
    names = {name: COMPILED.sub("", name) for name in tensors}
    if tensors and all(name.startswith(PARALLEL) for name in tensors):
        names = {name: new.removeprefix(PARALLEL) for name, new in names.items()}
    if len({*names.values()}) != len(names):
        return dict(tensors)
    return {new: tensors[name] for name, new in names.items()}


def _unscaled(path: Path, tensors: Mapping[str, Weights]) -> dict[str, Weights]:
    """Return the tensors with their scales applied, and without these."""
    scales = {f"{match['layer']}.weight": name for name in tensors if (match := SCALED.fullmatch(name))}
    scales = {name: scale for name, scale in scales.items() if name in tensors}
    if not scales:
        return {name: t for name, t in tensors.items() if not FOR_ACTIVATIONS.fullmatch(name)}
    left_out = {*scales.values(), *filter(FOR_ACTIVATIONS.fullmatch, tensors)}
    return {
        name: _scaled(path, name, tensor, tensors[scales[name]]) if name in scales else tensor
        for name, tensor in tensors.items()
        if name not in left_out
    }


def _scaled(path: Path, name: str, tensor: Weights, scale: Weights) -> Weights:
    """Return a tensor times its scale, which is one number, or one for each row."""
    rows = tensor.shape[0] if tensor.shape else 1
    one_a_row = scale.size == rows and scale.shape[:1] == (rows,)
    if tensor.dtype != np.float32 or scale.dtype != np.float32 or not (scale.size == 1 or one_a_row):
        raise BadCheckpoint(
            f"{path} has {name} of {tensor.dtype} with a scale of the shape {list(scale.shape)} and of"
            f" {scale.dtype}; only float8 with one scale, or with one a row, is supported"
        )
    shape = (rows, *[1] * (len(tensor.shape) - 1)) if one_a_row else ()

    def times(array: Array) -> Array:
        product: Array = array * scale.load().reshape(shape).astype(np.float32)
        return product

    return tensor.map("its scale", times)
