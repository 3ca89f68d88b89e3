"""The folder of the configurations that come with msd: recipes, devices, suites of images."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from msd.errors import BadConfig

PACKAGE = Path(__file__).parents[1]

CONFIGS = PACKAGE / "configs" if (PACKAGE / "configs").is_dir() else PACKAGE.parent / "configs"
"""Inside an installed package, and beside it in a checkout."""


def shipped_names(folder: Path) -> list[str]:
    """Return the names of msd's own configurations in a folder."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def find_config(name_or_path: str, folder: Path, kind: str, others: Sequence[str] = ()) -> Path:
    """Return the file of msd's own configuration of that name, or the path itself.

    Raises BadConfig, which says what `kind` of configuration is missing, and the names, with `others` that
    the caller takes.
    """
    names = shipped_names(folder)
    if name_or_path in names:
        return folder / f"{name_or_path}.toml"
    if name_or_path.endswith(".toml") or Path(name_or_path).is_file():
        return Path(name_or_path)
    names = [*names, *others]
    near = get_close_matches(name_or_path, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise BadConfig(
        f"no {kind} is called {name_or_path!r}; there are {', '.join(names)}, or give a .toml file{hint}"
    )
