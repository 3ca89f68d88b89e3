"""The vectors in a file of a textual inversion, in the forms that programs gave them.

{"<token>": vectors}                                          diffusers, .bin or .safetensors
{"string_to_token": …, "string_to_param": {"*": vectors}, "name": …}
                                    the original repository, with a ParameterDict, and AUTOMATIC1111
{"emb_params": vectors}, {"clip_l": vectors}                  kohya's sd-scripts, ComfyUI
{"clip_l": vectors, "clip_g": vectors}                        the same for Stable Diffusion XL's encoders
{"text_encoders_0": vectors, "text_encoders_1": vectors}      pivotal tuning for both of XL's
vectors                                                       a tensor alone, in a list or a dictionary
{"bundle_emb.<token>.string_to_param.*": vectors, …}          beside a LoRA of OneTrainer's
an image                                                      msd/conversion/sources/embedding_image.py
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msd.conversion.sources import pickled
from msd.conversion.sources.embedding_image import read_image
from msd.conversion.sources.pickled.legacy import is_legacy
from msd.conversion.sources.stored import first_bytes
from msd.conversion.sources.weight_file import ZIP, read_contents, what_else
from msd.errors import BadCheckpoint
from msd.files.wording import listed
from msd.graph.ir.weights import Weights

Keys = tuple[str | int, ...]
NAMELESS = {"*", "emb_params", "clip_l", "weight"}
"""Names of the vectors that are not the token's, in a file that has nothing else."""

NAMELESS_INSIDE = {
    *NAMELESS,
    *("string_to_param", "state_dict", "params", "data", "tensor"),
    *("emb", "embedding", "embeddings", "vector", "vectors", "learned_embeds"),
}
"""The same, of vectors that are inside of something else, and of what they are in."""

NUMBERED = "text_encoders_"
"""What the names of vectors begin with that count the encoders from 0."""

OF_SEVERAL_ENCODERS = ("clip_g", "t5", "t5xxl", f"{NUMBERED}1")
"""The names of vectors for models with several text encoders."""

PARAMETERS = "string_to_param"
BUNDLED = re.compile(r"bundle_emb\.(?P<token>.+?)\.(string_to_param\.\*|clip_l)")
IMAGES = (b"\x89PNG", b"RIFF")
ENDINGS = (".safetensors", ".bin", ".pt")
MOST_TOKENS = 1000
"""Of one file."""


@dataclass(frozen=True)
class TokenVectors:
    """Vectors, (count, width) or (width,), called `key` in their file; `token` is None if it names none."""

    key: str
    token: str | None
    weights: Weights


def read_vectors(path: Path) -> list[TokenVectors]:
    """Return the vectors in a file, of each of its tokens, of which there is usually one.

    Raises BadCheckpoint for a file that is damaged, or no textual inversion for one text encoder.
    """
    tensors, name = _opened(path)
    names = [keys[0] for keys in tensors if keys]
    if several := sorted({str(key) for key in names} & {*OF_SEVERAL_ENCODERS}):
        raise BadCheckpoint(
            f"{path} is a textual inversion for Stable Diffusion XL or 3: it has {', '.join(several)}, "
            "and only one for a single text encoder is supported"
        )
    if bundled := list(_bundled(tensors)):
        return bundled
    found = _likely(tensors)
    if not found or len(found) > MOST_TOKENS:
        raise not_one(path, [".".join(map(str, keys)) for keys in tensors])
    alone = len(found) == 1
    return [
        TokenVectors(".".join(map(str, keys)) or "tensor", _token(keys) or (name if alone else None), weights)
        for keys, weights in found.items()
    ]


def read_of_encoders(path: Path, keys: Collection[str]) -> list[TokenVectors]:
    """Return the vectors in a file of a model with several text encoders, one of each of these `keys`.

    Raises BadCheckpoint for a file that is damaged, or has other vectors than these.
    """
    tensors, name = _opened(path)
    numbered: dict[Keys, Keys] = {(f"{NUMBERED}{number}",): (key,) for number, key in enumerate(keys)}
    if tensors.keys() == numbered.keys():
        tensors = {numbered[each]: weights for each, weights in tensors.items()}
    found = {key: tensors[(key,)] for key in keys if (key,) in tensors}
    if len(found) < len(keys) or len(tensors) > len(keys):
        there = ", ".join(".".join(map(str, each)) for each in [*tensors][:3]) or "nothing"
        raise BadCheckpoint(
            f"{path} is no textual inversion for {len(keys)} text encoders: it has {there}, and"
            f" {listed(keys)} were expected"
        )
    return [TokenVectors(key, name, weights) for key, weights in found.items()]


def not_one(path: Path, names: Iterable[str]) -> BadCheckpoint:
    """Return the error for a file that has tensors of these names, and is no textual inversion."""
    names = sorted(names)
    some = ", ".join(names[:3]) or "none"
    return BadCheckpoint(
        f"{path} is no textual inversion: it has {len(names)} tensors ({some}), and one was expected"
    )


def bundled_tokens(names: Iterable[str]) -> list[str]:
    """Return the tokens whose vectors are beside a LoRA with tensors of these names."""
    matches = (BUNDLED.fullmatch(name) for name in names)
    return list(dict.fromkeys(match["token"] for match in matches if match))


def _opened(path: Path) -> tuple[dict[Keys, Weights], str | None]:
    """Return the tensors of a file by the keys that lead to them, and the name that it has beside them."""
    if path.is_dir():
        files = [each.name for each in sorted(path.iterdir()) if each.suffix.lower() in ENDINGS]
        holds = f", such as {files[0]}" if files else ""
        raise BadCheckpoint(f"{path} is a folder; give a textual inversion's file{holds}")
    start = first_bytes(path)
    if start.startswith(IMAGES):
        tensors, values = read_image(path)
        return tensors, _name(values)
    if (start.startswith(ZIP) or is_legacy(start)) and what_else(path) is None:
        saved = pickled.open_saved(path)
        return {keys: saved.weights(keys) for keys in _wanted(saved.calls)}, _name(saved.values)
    contents = read_contents(path)
    return {(name,): weights for name, weights in contents.tensors.items()}, contents.metadata.get("name")


def _name(values: Mapping[Keys, Any]) -> str | None:
    name = values.get(("name",))
    return name if isinstance(name, str) else None


def _wanted(keys: Iterable[Keys]) -> list[Keys]:
    """Return the keys of tensors in "string_to_param", if there are any, or else of all."""
    every = list(keys)[: MOST_TOKENS + 1]
    return [each for each in every if PARAMETERS in each] or every


def _bundled(tensors: Mapping[Keys, Weights]) -> Iterable[TokenVectors]:
    for keys, weights in tensors.items():
        if match := BUNDLED.fullmatch(str(keys[-1])) if keys else None:
            yield TokenVectors(str(keys[-1]), match["token"], weights)


def _likely(tensors: Mapping[Keys, Weights]) -> dict[Keys, Weights]:
    """Return the tensors that may be vectors: those of floats in one axis or more, where there are such."""
    found = {keys: tensors[keys] for keys in _wanted(tensors)}
    vectors = {keys: w for keys, w in found.items() if w.shape and w.dtype == np.float32}
    return vectors or found


def _token(keys: Keys) -> str | None:
    """Return the token that the keys of some vectors name."""
    nameless = NAMELESS if len(keys) == 1 else NAMELESS_INSIDE
    named = (key for key in reversed(keys) if isinstance(key, str) and key not in nameless)
    return next(named, None)
