"""Folders that are made once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KEPT = "SHARED_TEST_FOLDERS"
"""The environment's name of a folder that several runs of the same code share; others have their own."""


def shared_root(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of this run, the same in all worker processes of pytest-xdist."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder `name`, which the first process that asks for it makes by `make(path)`; read only.

    The others wait for it. One that could not be made is tried again by the next process.
    """
    parent = Path(os.environ.get(KEPT) or shared_root(factory) / "shared")
    parent.mkdir(exist_ok=True)
    folder = parent / name
    with (parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = parent / f"{name}.{os.getpid()}"
            make(unfinished)
            unfinished.rename(folder)
    return folder


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Make a folder, which no other process that asks for it uses meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
