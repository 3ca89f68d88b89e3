"""The structures that ship with msd: those of the public configurations and of the demo.

They are in the folder `structures`, one file per structure, beside an index that says what made them;
`scripts/ship_structures.py` writes both. The file's name is a fingerprint of the network's description and
its inputs, whatever versions of TensorFlow and Keras are installed. Only the code that made the structures
uses them: after a change of CODE a network is traced, until they are made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msd.files import schema
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.models.networks import Network

FOLDER = Path(__file__).parent / "structures"
INDEX = "index.json"
FORMAT = 1

CODE = (
    *(f"msd/models/{path.name}" for path in sorted(Path(__file__).parent.glob("*.py"))),
    "msd/conversion/sources/keras_cv",
)
"""Our source files that decide a structure, beside its network's description and inputs."""

LIBRARIES = ("tensorflow", "keras", "keras-cv")
"""The libraries that decide a structure when it is traced."""


@dataclass(frozen=True)
class StructureIndex:
    """What made the structures: `code` is the fingerprint of CODE, `libraries` their versions.

    `structures` has, by the name of each file without its ending, the networks that it is the structure of.
    """

    format: int
    code: str
    libraries: dict[str, str]
    structures: dict[str, tuple[str, ...]]


@cache
def read_index(path: Path = FOLDER / INDEX) -> StructureIndex:
    """Return the index; raises OSError and ValueError for a file that is no index."""
    return schema.load(StructureIndex, path, FORMAT, "an index of structures")


def shipped_name(network: Network) -> str:
    """Return the name, without its ending, of the file that has the structure of `network` if one ships."""
    return fingerprint([network.description, network.inputs])[:32]


def shipped_path(network: Network) -> Path | None:
    """Return the file that ships with the structure of `network`, or None where there is none."""
    path = FOLDER / f"{shipped_name(network)}.zip"
    return path if path.exists() and _made_by_this_code() else None


def _made_by_this_code() -> bool:
    """Return whether the code is that which made the structures; without an index, nobody knows."""
    try:
        return read_index().code == code_fingerprint(*CODE)
    except (OSError, ValueError):
        return False
