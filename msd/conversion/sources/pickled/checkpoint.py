"""A checkpoint of torch.save as lazy tensors.

The format is a zip file. In its data.pkl each tensor is a call of `torch._utils._rebuild_tensor_v2` on a
storage; each storage is an entry data/<key> (torch/serialization.py, torch/csrc/jit/docs/serialization.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from msd.conversion.sources.pickled.archive import Archive, ArchiveEntry, open_archive
from msd.conversion.sources.pickled.machine import BadPickle, Global, Persistent, PickledCall, describe
from msd.conversion.sources.stored import Contents, as_float32
from msd.graph.ir.weights import Array, Weights

DTYPES: dict[str, np.dtype[Any]] = {
    "torch DoubleStorage": np.dtype("<f8"),
    "torch FloatStorage": np.dtype("<f4"),
    "torch HalfStorage": np.dtype("<f2"),
    "torch BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "torch LongStorage": np.dtype("<i8"),
    "torch IntStorage": np.dtype("<i4"),
    "torch ShortStorage": np.dtype("<i2"),
    "torch CharStorage": np.dtype("i1"),
    "torch ByteStorage": np.dtype("u1"),
    "torch BoolStorage": np.dtype("?"),
}
MOST_AXES = 8
MOST_TENSORS = 50_000
"""A Stable Diffusion checkpoint with EMA weights has some 2,000."""

TENSORS_IN = ("state_dict", "string_to_param")
METADATA = {"global_step": int, "name": str}
"""The values beside the tensors that are read, with their type."""


def read_contents(path: Path) -> Contents:
    """Return the contents of a .ckpt file, with all float tensors as float32.

    The tensors are those of its "state_dict" or, in a textual inversion, "string_to_param", if it has one;
    the metadata is its "global_step" and "name". Reads only the pickle; each `load()` opens the file and
    reads one tensor. Raises BadCheckpoint for a file that is damaged, or whose pickle names anything that no
    checkpoint needs.
    """
    archive = open_archive(path)
    if "byteorder" in archive.entries and archive.read("byteorder") != b"little":
        raise archive.file.wrong("its numbers are big-endian, and only little-endian ones are supported")
    try:
        saved = _items(describe(archive.read("data.pkl")))
        tensors_by_name = _items(next((saved[name] for name in TENSORS_IN if name in saved), saved))
        described = {
            name: _tensor(name, value) for name, value in tensors_by_name.items() if _is_tensor(name, value)
        }
        if len(described) > MOST_TENSORS:
            raise BadPickle(f"it has {len(described)} tensors, and at most {MOST_TENSORS} are read")
    except BadPickle as error:
        raise archive.file.wrong(f"of its data.pkl, {error}") from error
    check = cache(archive.check)
    tensors = {name: _weights(archive, tensor, check) for name, tensor in described.items()}
    metadata = {name: str(saved[name]) for name, kind in METADATA.items() if type(saved.get(name)) is kind}
    return Contents(tensors, metadata)


@dataclass(frozen=True)
class _PickledTensor:
    """A tensor's description in the pickle.

    `offset` and `strides` count elements of the storage `key`, which has `stored` elements.
    """

    name: str
    key: str
    dtype: np.dtype[Any]
    stored: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def span(self) -> int:
        """The number of elements of the storage from the tensor's first to its last."""
        reach = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        return reach + 1 if math.prod(self.shape) else 0


def _items(value: Any) -> dict[Any, Any]:
    """Return the items of a dictionary, ordered or not."""
    if isinstance(value, dict):
        return value
    if (
        isinstance(value, PickledCall)
        and value.function.name == "collections OrderedDict"
        and not value.arguments
    ):
        return value.items
    raise BadPickle("its top level or its state_dict is not a dictionary of tensors")


def _is_tensor(name: Any, value: Any) -> bool:
    return (
        isinstance(name, str)
        and isinstance(value, PickledCall)
        and value.function.name.startswith("torch._utils ")
    )


def _tensor(name: str, value: PickledCall) -> _PickledTensor:
    """Return the description of the tensor that a call would create; refuse one that exceeds its storage."""
    if value.function.name == "torch._utils _rebuild_parameter":
        match value.arguments:
            case (PickledCall() as inner, *_) if inner.function.name == "torch._utils _rebuild_tensor_v2":
                return _tensor(name, inner)
        raise BadPickle(f"{name} is a parameter without a tensor")
    match value.arguments:
        case (
            Persistent(id=("storage", Global() as kind, str(key), str(), stored)),
            offset,
            shape,
            strides,
            *_,
        ):
            pass
        case _:
            raise BadPickle(f"{name} is a tensor without a storage, an offset, a shape or strides")
    if kind.name not in DTYPES:
        raise BadPickle(f"{name} is of the type {kind.name.replace(' ', '.')}, which is not supported")
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        raise BadPickle(f"{name} has a shape and strides that do not fit each other")
    if len(shape) > MOST_AXES or not all(
        type(n) is int and n >= 0 for n in (stored, offset, *shape, *strides)
    ):
        raise BadPickle(
            f"{name} has a shape, strides or an offset that are not {MOST_AXES} integers from 0 at most"
        )
    tensor = _PickledTensor(
        name=name,
        key=key,
        dtype=DTYPES[kind.name],
        stored=stored,
        shape=shape,
        strides=strides,
        offset=offset,
    )
    if max(offset + tensor.span, math.prod(shape)) > stored:
        raise BadPickle(f"{name} has {list(shape)} elements from {offset} on, but its storage holds {stored}")
    return tensor


def _weights(archive: Archive, tensor: _PickledTensor, check: Callable[[ArchiveEntry], None]) -> Weights:
    """Return a tensor's weights; the first read of a storage verifies its checksum."""
    entry = archive.entry(f"data/{tensor.key}")
    width = tensor.dtype.itemsize
    if entry.size != tensor.stored * width:
        raise archive.file.wrong(
            f"{tensor.name} needs a storage of {tensor.stored * width} bytes; {entry.name} has {entry.size}"
        )

    def read() -> Array:
        check(entry)
        begin = entry.begin + tensor.offset * width
        read = np.frombuffer(archive.file.read(tensor.name, begin, tensor.span * width), tensor.dtype)
        strides = tuple(stride * width for stride in tensor.strides)
        return as_strided(read, tensor.shape, strides, writeable=False).copy()

    recipe = f"{archive.file.path.name}:{tensor.name}"
    return as_float32(Weights(shape=tensor.shape, dtype=tensor.dtype, read=read, recipe=recipe))
