"""The index of a Keras H5 file: each array's name, dtype, shape and position in the file.

The HDF5 library crashes on some damaged files, so `msd.conversion.sources.h5` runs this module as a separate
process, which prints the index, or an error, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

MEMORY = 1 << 30
"""Bytes of address space beyond those of the imported library; the largest files need a tenth of it."""

SECONDS = 4
"""Of processor time; the largest files take less than one. The HDF5 library loops on some damaged ones."""

MOST_ARRAYS = 20_000
"""Stable Diffusion's largest network has 700."""
DEEPEST = 32
"""Groups of a name; keras-cv has 3."""

MOST_PIECES = 1000
"""Attributes of one list of names."""

LONGEST_LIST = 1 << 20
"""Bytes of an attribute; Keras splits longer lists into attributes of less than 64 KiB."""


class Wrong(Exception):
    """The file is invalid; the message says why."""


def main(path: str) -> None:
    """Print {"arrays": …} or {"wrong": …}."""
    most = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, used + SECONDS + 1))  # SIGXCPU before SIGKILL
    try:
        with h5py.File(path, "r", locking=False) as root:
            index: dict[str, Any] = {"arrays": [_described(dataset) for dataset in _bounded(_datasets(root))]}
    except MemoryError:
        index = {"wrong": f"reading its structure takes more than {MEMORY >> 30} GiB of memory"}
    # The exceptions into which h5py converts the HDF5 library's errors about a damaged file.
    except (Wrong, OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError) as error:
        index = {"wrong": str(error).strip("'\"")}
    json.dump(index, sys.stdout)


def _address_space() -> int:
    """Return the bytes of this process's address space, 0 where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else MEMORY


def _bounded(datasets: Iterator[Any]) -> Iterator[Any]:
    """Yield the datasets; refuse more than `MOST_ARRAYS`: lists may name the same ones again and again."""
    for number, dataset in enumerate(datasets, 1):
        if number > MOST_ARRAYS:
            raise Wrong(f"it lists more than {MOST_ARRAYS} arrays")
        yield dataset


def _datasets(root: Any) -> Iterator[Any]:
    """Yield every listed dataset, in order."""
    if "model_weights" in root:
        root = _member(root, "model_weights")
    layers = _names(root, "layer_names")
    if not layers:
        raise Wrong("it lists no layer_names; weights in Keras's older layout were expected")
    for layer in layers:
        group = _member(root, layer)
        if not isinstance(group, h5py.Group):
            raise Wrong(f"{layer} is listed, but has no weight_names")
        for name in _names(group, "weight_names"):
            yield _member(group, name)


def _described(dataset: Any) -> list[Any]:
    """Return the name, dtype, shape and first byte of a dataset; refuse one not completely in this file."""
    if not isinstance(dataset, h5py.Dataset) or not dataset.shape or dataset.dtype.kind not in "fiu":
        raise Wrong(f"{dataset.name} is not an array of numbers")
    begin = None if dataset.external or dataset.is_virtual else dataset.id.get_offset()
    if begin is None:
        raise Wrong(f"{dataset.name} is not stored in one uncompressed piece, as Keras does")
    return [dataset.name, dataset.dtype.str, list(dataset.shape), begin]


def _member(group: Any, name: str) -> Any:
    """Return the member `name` below `group`; refuse soft and external links on the way."""
    parts = [*filter(None, name.split("/"))]
    if len(parts) > DEEPEST:
        raise Wrong(f"{name} is listed in {len(parts)} groups; there may be {DEEPEST}")
    for part in parts:
        if not isinstance(group, h5py.Group) or part not in group:
            raise Wrong(f"{name} is listed, but not there")
        if group.get(part, getclass=True, getlink=True) is not h5py.HardLink:
            raise Wrong(f"{name} is a link to somewhere else")
        group = group[part]
    return group


def _names(group: Any, key: str) -> list[str]:
    """Return a list of names, which Keras splits into several attributes if it is long."""
    if key in group.attrs:
        return _listed(group, key)
    names: list[str] = []
    count = 0
    while f"{key}{count}" in group.attrs:
        names += _listed(group, f"{key}{count}")
        count += 1
        if count > MOST_PIECES:
            raise Wrong(f"the list {key} of {group.name} has more than {MOST_PIECES} attributes")
    return names


def _listed(group: Any, key: str) -> list[str]:
    attribute = group.attrs.get_id(key)
    listed = len(attribute.shape) == 1 and attribute.shape[0] * attribute.dtype.itemsize <= LONGEST_LIST
    values = list(group.attrs[key]) if listed else [None]
    if not all(isinstance(value, bytes | str) for value in values):
        raise Wrong(f"the attribute {key} of {group.name} is not a list of names")
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


if __name__ == "__main__":
    main(sys.argv[1])
