"""A JSON file of a bundle whose contents its manifest states too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msd.errors import BadBundle
from msd.files import bounded, schema


def require_stated(path: Path, stated: Mapping[str, Any]) -> None:
    """Raise BadBundle where the object in a file is not the one that is stated, as when one was edited.

    Where there is no file, or nothing is stated, nothing can differ. An infinity in the file, as diffusers
    writes it, is the largest number of the manifest.
    """
    if not stated or not path.is_file():
        return
    try:
        held = schema.to_json(bounded.read_json(path))
    except (OSError, ValueError) as error:
        raise BadBundle(f"cannot read {path}: {error}") from error
    if not isinstance(held, dict):
        raise BadBundle(f"{path} holds {type(held).__name__}, not an object")
    for key in {**stated, **held}:
        if key not in held or key not in stated or held[key] != stated[key]:
            raise BadBundle(
                f"{path} says {_stated_value(held, key)}, and manifest.json {_stated_value(stated, key)};"
                " make both alike, or convert the checkpoint again"
            )


def _stated_value(contents: Mapping[str, Any], key: str) -> str:
    """Return what an object says of a key, as a sentence shows it."""
    return f"{key} = {contents[key]!r}" if key in contents else f"no {key}"
