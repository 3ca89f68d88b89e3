"""A family of the tests, found beside those that msd has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import msd.models.families
from msd.models.families import Family, find_family


@contextmanager
def added_family(name: str, folder: Path) -> Iterator[Family]:
    """Yield the family `name` of a module in `folder`, which is searched too in the `with` block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(msd.models.families, "__path__", [*msd.models.families.__path__, str(folder)])
        yield find_family(name)
