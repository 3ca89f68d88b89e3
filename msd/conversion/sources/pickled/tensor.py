"""The tensors in a pickle of torch: each is a call that makes a view of a storage.

`torch._utils._rebuild_tensor_v2` takes a storage, which has a dtype, an offset, a shape and strides;
`_rebuild_tensor_v3`, for dtypes that are newer than storages with one, has the dtype in addition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from msd.conversion.sources.pickled.machine import BadPickle, Global, Persistent, PickledCall
from msd.conversion.sources.stored import StoredFile
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
NEW_DTYPES: dict[str, np.dtype[Any]] = {
    "torch float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "torch float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "torch float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "torch float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "torch float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "torch uint16": np.dtype("<u2"),
    "torch uint32": np.dtype("<u4"),
    "torch uint64": np.dtype("<u8"),
}
"""Of tensors in storages without a dtype, which count bytes."""

UNTYPED = "torch.storage UntypedStorage"
WRAPPED = {
    "torch._utils _rebuild_parameter": 0,
    "torch._utils _rebuild_parameter_with_state": 0,
    "torch._tensor _rebuild_from_type_v2": 2,
}
"""Calls that make a tensor of another one, or of its arguments, and the place of these."""

PLAIN = ("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3")
MOST_AXES = 8


@dataclass(frozen=True)
class PickledTensor:
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


@dataclass(frozen=True)
class Storage:
    """The `size` bytes of a storage from `begin` on; `check()` raises BadCheckpoint if they are damaged."""

    name: str
    begin: int
    size: int
    check: Callable[[], None]


def is_tensor(value: Any) -> bool:
    """Whether a value in a description is a tensor or a parameter."""
    return isinstance(value, PickledCall) and value.function.name in (*PLAIN, *WRAPPED)


def tensor_of(name: str, value: PickledCall) -> PickledTensor:
    """Return the description of the tensor that a call would create; refuse one that exceeds its storage."""
    if value.function.name in WRAPPED:
        return tensor_of(name, _inside(name, value))
    match value.arguments:
        case (
            Persistent(id=("storage", Global() as kind, str(key), str(), stored, *_)),
            offset,
            shape,
            strides,
            *rest,
        ):
            dtype = _dtype(name, kind, rest)
        case _:
            raise BadPickle(f"{name} is a tensor without a storage, an offset, a shape or strides")
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        raise BadPickle(f"{name} has a shape and strides that do not fit each other")
    if len(shape) > MOST_AXES or not all(
        type(n) is int and n >= 0 for n in (stored, offset, *shape, *strides)
    ):
        raise BadPickle(
            f"{name} has a shape, strides or an offset that are not {MOST_AXES} integers from 0 at most"
        )
    if any(isinstance(each, dict) and each.get("neg") for each in rest):
        raise BadPickle(f"{name} is the negative of what is stored, as torch marks it; save its clone")
    if kind.name == UNTYPED:
        stored //= dtype.itemsize
    tensor = PickledTensor(
        name=name, key=key, dtype=dtype, stored=stored, shape=shape, strides=strides, offset=offset
    )
    if max(offset + tensor.span, math.prod(shape)) > stored:
        raise BadPickle(f"{name} has {list(shape)} elements from {offset} on, but its storage holds {stored}")
    return tensor


def weights_of(file: StoredFile, tensor: PickledTensor, storage: Storage) -> Weights:
    """Return a tensor's weights, whose first read verifies the storage; raises BadCheckpoint for a short."""
    width, needed = tensor.dtype.itemsize, tensor.stored * tensor.dtype.itemsize
    if storage.size != needed:
        raise file.wrong(
            f"{tensor.name} needs a storage of {needed} bytes; {storage.name} has {storage.size}"
        )

    def read() -> Array:
        storage.check()
        begin = storage.begin + tensor.offset * width
        # NumPy strides over integers, but not over every type that it does not have itself.
        read = np.frombuffer(file.read(tensor.name, begin, tensor.span * width), f"u{width}")
        strides = tuple(stride * width for stride in tensor.strides)
        return as_strided(read, tensor.shape, strides, writeable=False).copy().view(tensor.dtype)

    history = f"{file.path.name}:{tensor.name}"
    return Weights.stored(shape=tensor.shape, dtype=tensor.dtype, read=read, history=history)


def storage_width(kind: str) -> int:
    """Return the bytes of an element of a storage of this kind; raises BadPickle for an unknown one."""
    if kind != UNTYPED and kind not in DTYPES:
        raise BadPickle(f"it has a storage of the type {kind.replace(' ', '.')}, which is not supported")
    return 1 if kind == UNTYPED else DTYPES[kind].itemsize


def _inside(name: str, value: PickledCall) -> PickledCall:
    """Return the call of the tensor that another one wraps."""
    place = WRAPPED[value.function.name]
    match value.arguments:
        case (Global() as function, Global(), tuple() as arguments, *_) if place and function.name in PLAIN:
            return PickledCall(function, arguments)
        case (PickledCall() as inner, *_) if not place and inner.function.name in PLAIN:
            return inner
    raise BadPickle(f"{name} is a parameter without a tensor")


def _dtype(name: str, kind: Global, rest: list[Any]) -> np.dtype[Any]:
    if kind.name in DTYPES:
        return DTYPES[kind.name]
    if kind.name == UNTYPED:
        for each in rest:
            if isinstance(each, Global) and each.name in NEW_DTYPES:
                return NEW_DTYPES[each.name]
    raise BadPickle(f"{name} is of the type {kind.name.replace(' ', '.')}, which is not supported")
