"""Keras's older H5 layout of weights, read lazily (keras/src/legacy/saving/legacy_h5_format.py).

The root's attribute `layer_names` lists groups in the order of `model.layers`; the attribute `weight_names`
of each group lists datasets below it. Another process reads these lists and the position of each array in the
file (`msd.conversion.sources.h5_index`); loading an array reads its bytes there. A file may be malicious:
links, arrays in other files and incomplete arrays are refused.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from msd.conversion.sources.stored import StoredFile, stamp_of, unreadable
from msd.files.packages import require_packages
from msd.graph.ir.weights import Array, Weights

KIND = "H5 file of Keras weights"
TIMEOUT = 60
"""Seconds; the largest files of keras-cv take less than one."""


def open_file(path: Path) -> list[Weights]:
    """Return the weights in a file, in Keras's order, with all float arrays as float32.

    The history of each names the file and the dataset. Raises BadCheckpoint for a file that is missing,
    damaged or of another layout.
    """
    require_packages(path, "trace", "h5py")
    try:
        with path.open("rb") as file:
            stored = StoredFile(path, KIND, stamp_of(file))
    except OSError as error:
        raise unreadable(path, KIND, f"it cannot be read ({error.strerror})") from error
    return [_weights(stored, *described) for described in _arrays(stored)]


def _arrays(stored: StoredFile) -> list[Any]:
    """Return the name, dtype, shape and first byte of each array."""
    try:
        process = run_index(stored.path.absolute())
        index = json.loads(process.stdout)
    except subprocess.TimeoutExpired as error:
        raise stored.wrong(f"the HDF5 library does not finish reading it in {TIMEOUT} s") from error
    except ValueError as error:
        if process.returncode == -signal.SIGXCPU:
            raise stored.wrong("the HDF5 library takes too long to read it") from error
        raise stored.wrong(f"the HDF5 library crashes on it (exit code {process.returncode})") from error
    if "wrong" in index:
        raise stored.wrong(index["wrong"])
    arrays: list[Any] = index["arrays"]
    return arrays


def run_index(path: Path) -> subprocess.CompletedProcess[bytes]:
    """Return the process of `msd.conversion.sources.h5_index` with what it printed; raises TimeoutExpired."""
    command = [sys.executable, "-m", "msd.conversion.sources.h5_index", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, env=environment, timeout=TIMEOUT)


def _weights(stored: StoredFile, name: str, dtype: str, shape: list[int], begin: int) -> Weights:
    """Return the array whose first byte is at `begin`."""
    stored_dtype, sizes = np.dtype(dtype), tuple(shape)
    size = math.prod(sizes) * stored_dtype.itemsize

    def read() -> Array:
        return np.frombuffer(stored.read(name, begin, size), stored_dtype).reshape(sizes)

    return Weights.stored(shape=sizes, dtype=stored_dtype, read=read, history=f"{stored.path.name}:{name}")
