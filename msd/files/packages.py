"""The packages that a part of msd needs and a lean installation lacks, and the versions there are."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msd.errors import BadConfig

Extra = Literal["plots", "regress", "trace", "train", "webgpu"]
"""The extras of pyproject.toml that a command may lack."""

MODULES = {"keras-cv": "keras_cv", "scikit-image": "skimage"}
"""The module of each package that is called otherwise."""


def require_packages(what: str | Path, extra: Extra, *packages: str) -> None:
    """Raise BadConfig where a package that `what` needs is not installed, with the extra that brings it."""
    missing = [name for name in packages if find_spec(MODULES.get(name, name)) is None]
    if missing:
        raise BadConfig(
            f"{what} needs {' and '.join(missing)}, and that is not installed; pip install 'msd[{extra}]'"
            " installs it"
        )


def installed_versions(*packages: str) -> dict[str, str]:
    """Return the version of each of the packages that is installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
