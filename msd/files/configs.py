"""The folder of the configurations that come with msd: recipes, devices, suites of images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msd.errors import BadConfig, BadValue
from msd.files.bounded import read_toml
from msd.files.nearest import nearest

PACKAGE = Path(__file__).parents[1]

CONFIGS = PACKAGE / "configs" if (PACKAGE / "configs").is_dir() else PACKAGE.parent / "configs"
"""Inside an installed package, and beside it in a checkout."""


def shipped_names(folder: Path) -> list[str]:
    """Return the names of msd's own configurations in a folder."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def find_config(
    name_or_path: str,
    folder: Path,
    kind: str,
    others: Sequence[str] = (),
    meant: Mapping[str, str] | None = None,
) -> Path:
    """Return the file of msd's own configuration of that name, or the path itself.

    Raises BadValue, which says what `kind` of configuration is missing, and the names, with `others` that
    the caller takes. `meant` has the names that people type for others.
    """
    names = shipped_names(folder)
    if name_or_path in names:
        return folder / f"{name_or_path}.toml"
    if name_or_path.endswith(".toml") or Path(name_or_path).is_file():
        return Path(name_or_path)
    names = [*names, *others]
    hint = nearest((meant or {}).get(name_or_path.lower(), name_or_path), names)
    raise BadValue(
        f"no {kind} is called {name_or_path!r}; there are {', '.join(names)}, or give a .toml file{hint}"
    )


def read_config(path: Path, what: str) -> dict[str, Any]:
    """Return the table in a TOML file, which is `what`, such as "a recipe"; raises BadConfig for no such."""
    try:
        return read_toml(path)
    except (OSError, ValueError) as problem:
        raise BadConfig(f"{path} is not {what}: {problem}") from problem
