"""The structure of a network: the one that ships with msd, one that was traced before, or a new trace.

Only the last needs TensorFlow. What was traced is in the user's cache folder, or in the folder MSD_CACHE,
with one file per structure. The file's name is a fingerprint of the network, its sizes, our code and the
versions of the libraries. Deleting files only costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msd.errors import BadModelFile, OutputUnwritable
from msd.files.atomic import atomic_write
from msd.files.cache import cache_root
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.files.packages import installed_versions
from msd.files.staging import beside, sweep
from msd.models.networks import Network
from msd.models.shipped_structures import CODE, LIBRARIES, shipped_path
from msd.models.structure import Structure, load_structure, save_structure
from msd.models.trace import trace

MOST = 256
"""The largest number of structures; the least recently used are deleted first."""


def structure_of(network: Network, on_trace: Callable[[], None] = lambda: None) -> Structure:
    """Return the structure of `network` that ships with msd or is in the cache, or trace and cache it.

    `on_trace` is called before a trace, which may take a minute.
    """
    if shipped := shipped_path(network):
        # A damaged file is as good as none.
        with suppress(BadModelFile):
            return load_structure(shipped)
    path = cache_folder() / f"{network_key(network)}.zip"
    sweep(beside(path))
    if path.exists():
        # A damaged file is traced again and replaced.
        with suppress(BadModelFile):
            structure = load_structure(path)
            _touch(path)
            return structure
    on_trace()
    structure = trace(network.build, network.inputs)
    _store(structure, path)
    return structure


def is_cached(network: Network) -> bool:
    """Return whether the structure of `network` ships with msd or is in the cache."""
    return shipped_path(network) is not None or (cache_folder() / f"{network_key(network)}.zip").exists()


def cache_folder() -> Path:
    """Return the folder of the cache."""
    return cache_root() / "structures"


def network_key(network: Network) -> str:
    """Return the fingerprint of everything that determines the structure of `network` when it is traced."""
    return fingerprint(
        [network.description, network.inputs, installed_versions(*LIBRARIES), code_fingerprint(*CODE)]
    )


def _store(structure: Structure, path: Path) -> None:
    """Write the structure to the cache if possible; if not, the next conversion traces again."""
    with suppress(OSError, OutputUnwritable):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            save_structure(structure, temporary)
        for old in sorted(path.parent.glob("*.zip"), key=_last_use, reverse=True)[MOST:]:
            old.unlink()


def _touch(path: Path) -> None:
    """Mark the file as used, if the folder is writable."""
    with suppress(OSError):
        path.touch()


def _last_use(path: Path) -> float:
    return path.stat().st_mtime
