"""Files that torch.save writes, or might have written, and what our reader makes of them."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msd.conversion.sources.pickled import read_contents
from msd.errors import BadCheckpoint


def saved(path: Path, value: Any, **options: Any) -> Path:
    torch.save(value, path, **options)
    return path


def require_same(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Require that the file opens to `tensors`, floats as float32."""
    found = read_contents(path).tensors
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        wanted = tensor.detach()
        wanted = wanted.float() if wanted.is_floating_point() else wanted
        array = found[name].load()
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        assert array.dtype == wanted.numpy().dtype
        np.testing.assert_array_equal(array, wanted.numpy())


def load_all(path: Path) -> dict[str, Any]:
    return {name: weights.load() for name, weights in read_contents(path).tensors.items()}


def refuse(path: Path, message: str) -> None:
    with pytest.raises(BadCheckpoint, match=re.escape(message)):
        load_all(path)


def archive(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return path
