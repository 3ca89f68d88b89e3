"""Adds tokens to a checkpoint's tokenizer, in the files that transformers' CLIPTokenizer reads too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msd.errors import BadBundle, BadCheckpoint
from msd.run.runtime.special_token import Special
from msd.run.runtime.tokenizer import Tokenizer, tokenizer_of
from msd.run.runtime.tokenizer_files import DEFAULTS, Held

Files = Mapping[str, Callable[[], bytes]]
"""A function that returns the content of each of a tokenizer's files, by name."""

CONFIG, WHOLE = "tokenizer_config.json", "tokenizer.json"
NAMED = {"bos_token": "start", "eos_token": "end", "unk_token": "unknown", "pad_token": "pad"}
"""The fields of `Tokenizer` for the tokens that a configuration names."""


def read_tokenizer(files: Files) -> Tokenizer:
    """Return the tokenizer in these files; raises BadCheckpoint where they are none."""
    try:
        return tokenizer_of(Held(Path("tokenizer"), files))
    except BadBundle as error:
        raise BadCheckpoint(f"the checkpoint's tokenizer is not one that we can use: {error}") from error


def size_of(tokenizer: Tokenizer) -> int:
    """Return the id that the next token gets."""
    return max(tokenizer.vocabulary.values()) + 1


def with_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """Return the tokenizer with new tokens, matched in lower-cased text, their ids after all others."""
    ids = {token: size_of(tokenizer) + i for i, token in enumerate(tokens)}
    specials = (Special(token, normalized=True) for token in tokens)
    return replace(
        tokenizer, vocabulary={**tokenizer.vocabulary, **ids}, specials=(*tokenizer.specials, *specials)
    )


def files_with(files: Files, tokenizer: Tokenizer) -> dict[str, Callable[[], bytes]]:
    """Return the files of the tokenizer, of which `files` lack the last tokens.

    The list of added tokens in tokenizer_config.json makes readers ignore special_tokens_map.json, so the
    configuration names the start, end, unknown and padding tokens, too.
    """
    by_id = {id: token for token, id in tokenizer.vocabulary.items()}
    named = {name: by_id[getattr(tokenizer, NAMED[name])] for name in DEFAULTS}
    added = {
        tokenizer.vocabulary[special.content]: _spelled(special, special.content in named.values())
        for special in tokenizer.specials
    }
    decoder = {str(id): added[id] for id in sorted(added)}
    config = {**_parsed(files, CONFIG), **named, "added_tokens_decoder": decoder}
    changed = {**files, CONFIG: lambda: _json(config)}
    if WHOLE in files:
        listed = [{"id": id, **added[id]} for id in sorted(added)]
        whole = {**_parsed(files, WHOLE), "added_tokens": listed}
        changed[WHOLE] = lambda: _json(whole)
    return changed


def _spelled(special: Special, is_named: bool) -> dict[str, Any]:
    return {
        "content": special.content,
        "lstrip": False,
        "normalized": special.normalized,
        "rstrip": False,
        "single_word": special.single_word,
        "special": is_named,
    }


def _parsed(files: Files, name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(files[name]()) if name in files else {}
    return parsed


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode()
