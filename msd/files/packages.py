"""The packages that a part of msd needs and a lean installation lacks, and the versions there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msd.errors import BadConfig
from msd.files.wording import listed

Extra = Literal["plots", "regress", "trace", "train", "webgpu"]
"""The extras of pyproject.toml that a command may lack."""

MODULES = {"keras-cv": "keras_cv", "scikit-image": "skimage"}
"""The module of each package that is called otherwise."""
LAST_PYTHON = {"tensorflow": (3, 13)}
"""The newest Python that has wheels of a package, of the version that pyproject.toml names."""


def require_packages(what: str | Path, extra: Extra, *packages: str) -> None:
    """Raise BadConfig where a package that `what` needs is not installed, with the extra that brings it."""
    missing = [name for name in packages if find_spec(MODULES.get(name, name)) is None]
    if missing:
        raise BadConfig(
            f"{what} needs {listed(missing)}, and that is not installed; {_remedy(extra, missing)}"
        )


def _remedy(extra: Extra, missing: list[str]) -> str:
    """Return how the missing packages are installed: by the extra, or with another Python alone."""
    for name in missing:
        if (last := LAST_PYTHON.get(name, sys.version_info[:2])) < sys.version_info[:2]:
            return f"{name} exists for Python {last[0]}.{last[1]} and older"
    return f"pip install 'msd[{extra}]' installs it"


def installed_versions(*packages: str) -> dict[str, str]:
    """Return the version of each of the packages that is installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def load_triton() -> None:
    """Import Triton, where PyTorch for CUDA has brought it, before another library with an LLVM of its own.

    Triton 3.7.1 ends the process with a segmentation fault when it is imported behind TensorFlow 2.21 or a
    Vulkan driver that is software. Diffusers and transformers import it by way of PyTorch.
    """
    if find_spec("triton"):
        with suppress(ImportError):  # PyTorch, which would import it, copes with that too
            import_module("triton")


@contextmanager
def without_late_triton() -> Iterator[None]:
    """Keep Triton from being imported in the `with` block where TensorFlow has been without it.

    PyTorch, which would import it (see `load_triton`), then does without it as on a machine that lacks it.
    """
    late = "tensorflow" in sys.modules and "triton" not in sys.modules
    if late:
        sys.modules["triton"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if late:
            del sys.modules["triton"]
