"""The packages that run PyTorch's networks, which are not among those that msd always has."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from msd.errors import BadConfig


def require_packages(what: str | Path, *packages: str) -> None:
    """Raise BadConfig where a package that `what` needs is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise BadConfig(
            f"{what} needs {' and '.join(missing)}, and that is not installed; pip install 'msd[train]'"
            " installs it"
        )
