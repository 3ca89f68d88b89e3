"""What model_index.json says of a checkpoint's components: their classes, or that there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msd.errors import BadCheckpoint

PLAIN, PROJECTING = "CLIPTextModel", "CLIPTextModelWithProjection"


def is_null(index: Mapping[str, Any], part: str) -> bool:
    """Whether a model_index.json says that there is no such component, which diffusers then does not load."""
    return part in index and index[part] in (None, [None, None])


def require_named(where: str, index: Mapping[str, Any], parts: Iterable[str]) -> None:
    """Raise BadCheckpoint for a component among `parts` that the file `where` says there is none of."""
    for part in parts:
        if is_null(index, part):
            raise BadCheckpoint(
                f"{where} says {part} = null, so that diffusers loads none, and every image needs it; the"
                " names of its library and its class are expected there"
            )


def with_named_class(
    where: str, index: Mapping[str, Any], part: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a component's parsed config.json, of the class that the file `where` names, as in diffusers.

    Raises BadCheckpoint where the config.json is that of another class, for diffusers cannot load it then.
    """
    entry = index.get(part)
    named = entry[1] if isinstance(entry, list) and len(entry) == 2 else None
    if not isinstance(named, str):
        return dict(config)
    key, of_library = ("architectures", [named]) if _is_of_transformers(config) else ("_class_name", named)
    own = config.get(key)
    # The projection comes after all that the plain class computes.
    if own in (None, of_library) or (named, own) == (PLAIN, [PROJECTING]):
        return {**config, key: of_library}
    raise BadCheckpoint(
        f"{where} says that {part} is a {named}, and {part}/config.json that it is of {key} {own!r}; they"
        " must be the same"
    )


def _is_of_transformers(config: Mapping[str, Any]) -> bool:
    return "_class_name" not in config and ("architectures" in config or "model_type" in config)
