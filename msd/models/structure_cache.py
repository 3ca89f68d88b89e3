"""Structures kept from one conversion to the next, so that the second needs no TensorFlow.

They lie in the user's cache folder, or where MSD_CACHE says, one file each, named by what decides them: the
network, its sizes, our code and the versions of the libraries. Deleting any of them only costs time.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from msd.errors import BadModelFile, OutputUnwritable
from msd.files.atomic import complete
from msd.files.cache import cache_root
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.models.networks import Network
from msd.models.structure import Structure, load_structure, save_structure
from msd.models.trace import trace

MOST = 64
"""The structures that are kept; the longest unused go first."""

CODE = ("msd/models",)
LIBRARIES = ("tensorflow", "keras", "keras-cv")


def structure_of(network: Network) -> Structure:
    """Return the structure of `network`, from the cache or traced, and kept for the next time."""
    path = cache_folder() / f"{network_key(network)}.zip"
    if path.exists():
        # A damaged one is traced again, and replaced.
        with suppress(BadModelFile):
            structure = load_structure(path)
            _touch(path)
            return structure
    structure = trace(network.build, network.inputs)
    _keep(structure, path)
    return structure


def is_cached(network: Network) -> bool:
    """Return whether the structure of `network` need not be traced."""
    return (cache_folder() / f"{network_key(network)}.zip").exists()


def cache_folder() -> Path:
    """Return where structures are kept."""
    return cache_root() / "structures"


def network_key(network: Network) -> str:
    """Return the fingerprint of all that decides the structure of `network`."""
    versions = {name: version(name) for name in LIBRARIES}
    return fingerprint([network.description, network.inputs, versions, code_fingerprint(*CODE)])


def _keep(structure: Structure, path: Path) -> None:
    """Write the structure if that is possible: where it is not, the next conversion traces again."""
    with suppress(OSError, OutputUnwritable):
        path.parent.mkdir(parents=True, exist_ok=True)
        with complete(path) as temporary:
            save_structure(structure, temporary)
        for old in sorted(path.parent.glob("*.zip"), key=_used, reverse=True)[MOST:]:
            old.unlink()


def _touch(path: Path) -> None:
    """Note that it was used; a folder that others own is good for reading too."""
    with suppress(OSError):
        path.touch()


def _used(path: Path) -> float:
    return path.stat().st_mtime
