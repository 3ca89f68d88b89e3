"""Faults of the disk while PyTorch's libraries write, which do not all say so with OSError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from msd.errors import OutputUnwritable


@contextmanager
def says_unwritable(path: Path) -> Iterator[None]:
    """Raise OutputUnwritable where what the `with` block writes to `path` cannot be written."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise OutputUnwritable(f"{path} cannot be written ({reason}); free some space") from problem
