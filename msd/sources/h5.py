"""Keras's older H5 layout of weights, read lazily (keras/src/legacy/saving/legacy_h5_format.py).

The root's attribute `layer_names` lists groups in the order of `model.layers`; the attribute `weight_names`
of each group lists datasets below it. The HDF5 library reads attributes, shapes and where in the file each
array's bytes are; those are read from there when the array is loaded. A file may come from a stranger: links,
arrays that lie in other files, and arrays that are not there in full are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from msd.sources.stored import StoredFile, as_float32, stamp_of, unreadable
from msd.weights import Array, Weights

KIND = "H5 file of Keras weights"
LONGEST_LIST = 1 << 20
"""Bytes of an attribute; Keras cuts longer lists into attributes of less than 64 KiB."""


def open_file(path: Path) -> list[Weights]:
    """Return the weights in a file, in Keras's order, float32 where the file has another float dtype.

    Each one's recipe names the file and the dataset. Raises BadCheckpoint for a file that is missing, damaged
    or of another layout.
    """
    try:
        with path.open("rb") as file:
            stored = StoredFile(path, KIND, stamp_of(file))
        with h5py.File(path, "r", locking=False) as root:
            return [_weights(stored, dataset) for dataset in _datasets(stored, root)]
    # All that h5py makes of what the HDF5 library says of a damaged file.
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError) as error:
        raise unreadable(path, KIND, str(error).strip("'\"")) from error


def _datasets(stored: StoredFile, root: Any) -> Iterator[Any]:
    """Yield every listed dataset, in order."""
    if "model_weights" in root:
        root = _member(stored, root, "model_weights")
    layers = _names(stored, root, "layer_names")
    if not layers:
        raise stored.wrong("it lists no layer_names; weights in Keras's older layout were expected")
    for layer in layers:
        group = _member(stored, root, layer)
        for name in _names(stored, group, "weight_names"):
            yield _member(stored, group, name)


def _weights(stored: StoredFile, dataset: Any) -> Weights:
    """Return the weights in `dataset`, once all of their bytes are known to be in the file."""
    if not isinstance(dataset, h5py.Dataset) or not dataset.shape or dataset.dtype.kind not in "fiu":
        raise stored.wrong(f"{dataset.name} is not an array of numbers")
    name, shape, dtype, size = dataset.name, tuple(dataset.shape), dataset.dtype, int(dataset.nbytes)
    begin = None if dataset.external or dataset.is_virtual else dataset.id.get_offset()
    if begin is None:
        raise stored.wrong(f"{name} is not stored in one uncompressed piece, as Keras does")
    if begin + size > stored.path.stat().st_size:
        raise stored.wrong(f"{name} lies at bytes {begin} to {begin + size}, past the end of the file")

    def load() -> Array:
        return np.frombuffer(stored.read(name, begin, size), dtype).reshape(shape)

    return as_float32(Weights(shape, dtype, load, f"{stored.path.name}:{name}"))


def _member(stored: StoredFile, group: Any, name: str) -> Any:
    """Return what is at `name` below `group`, reached without a link that leads elsewhere."""
    for part in filter(None, name.split("/")):
        if not isinstance(group, h5py.Group) or part not in group:
            raise stored.wrong(f"{name} is listed, but not there")
        if group.get(part, getclass=True, getlink=True) is not h5py.HardLink:
            raise stored.wrong(f"{name} is a link to somewhere else")
        group = group[part]
    return group


def _names(stored: StoredFile, group: Any, key: str) -> list[str]:
    """Return a list of names, which Keras cuts into several attributes where it is long."""
    if key in group.attrs:
        return _listed(stored, group, key)
    names: list[str] = []
    count = 0
    while f"{key}{count}" in group.attrs:
        names += _listed(stored, group, f"{key}{count}")
        count += 1
    return names


def _listed(stored: StoredFile, group: Any, key: str) -> list[str]:
    attribute = group.attrs.get_id(key)
    listed = len(attribute.shape) == 1 and attribute.shape[0] * attribute.dtype.itemsize <= LONGEST_LIST
    values = list(group.attrs[key]) if listed else [None]
    if not all(isinstance(value, bytes | str) for value in values):
        raise stored.wrong(f"the attribute {key} of {group.name} is not a list of names")
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]
