"""The files of CLIP's tokenizer, read and checked: they come with a checkpoint that anybody may have made.

vocab.json and merges.txt (or tokenizer.json where these are missing), tokenizer_config.json,
special_tokens_map.json and, by transformers before 4.34, added_tokens.json. Every value is of the type and
within the bounds that the tokenizer relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from msd.bounds import MOST_IDS
from msd.errors import BadBundle
from msd.files import bounded
from msd.run.runtime.special_token import Special

START = "<|startoftext|>"
END = "<|endoftext|>"
LENGTH = 77
DEFAULTS = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
FURTHER = ("additional_special_tokens", "extra_special_tokens")
"""The keys for lists of special tokens without names of their own."""

CONFIG = "tokenizer_config.json"
WHOLE, MERGES = "tokenizer.json", "merges.txt"
NAMED, ADDED = "special_tokens_map.json", "added_tokens.json"
FILES = ("vocab.json", MERGES, WHOLE, CONFIG, NAMED, ADDED)
"""All files that `read_files` may read: to copy a tokenizer, copy those that exist."""

MOST_MERGES = 500_000
"""CLIP has 48,894."""

MOST_SPECIALS = 2000
LONGEST_SPECIAL = 1000
"""Letters of a special token."""

SPECIAL_LETTERS = 100_000
"""Of all special tokens together: one pattern finds them, and ten million letters of it take gigabytes."""

MERGES_BYTES = 8 << 20


@dataclass(frozen=True)
class TokenizerFiles:
    """The id of each token, pairs of symbols in the order in which they merge, and the special tokens.

    `added`: tokens by the id that a file gives them. `named`: those of the names in `DEFAULTS`. `length` is
    that of a prompt in tokens, start and end included.
    """

    vocabulary: dict[str, int]
    merges: list[tuple[str, str]]
    added: dict[int, Special]
    named: dict[str, Special]
    length: int


@dataclass(frozen=True)
class Held:
    """Files that are read when they are needed: a function that returns the content of each, by its name.

    `place` is where they are, for people.
    """

    place: Path
    files: Mapping[str, Callable[[], bytes]]

    @staticmethod
    def of(folder: Path) -> Held:
        """Return those of a tokenizer's files that a folder has."""
        there = [name for name in FILES if (folder / name).exists()]
        return Held(folder, {name: partial(bounded.read_bytes, folder / name) for name in there})

    def text(self, name: str, most: int = bounded.TEXT_BYTES) -> str:
        """Return the UTF-8 text of a file of at most `most` bytes; raises BadBundle."""
        if name not in self.files:
            raise BadBundle(f"cannot read {self.place / name}: there is no such file")
        try:
            return bounded.decode(self.files[name](), most)
        except (OSError, ValueError) as error:
            raise BadBundle(f"cannot read {self.place / name}: {error}") from error

    def json(self, name: str, missing: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON object in a file, or `missing` where there is none; raises BadBundle."""
        if missing is not None and name not in self.files:
            return missing
        try:
            value = bounded.parse_json(self.text(name))
        except ValueError as error:
            raise BadBundle(f"{self.place / name} is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise BadBundle(
                f"{self.place / name} holds a JSON {type(value).__name__}; it should hold an object"
            )
        return value


def read_files(held: Held) -> TokenizerFiles:
    """Return what the files hold; raises BadBundle for a missing or malformed one."""
    vocabulary, merges = _vocabulary(held)
    config = held.json(CONFIG, missing={})
    _require_right_sides(held.place / CONFIG, config)
    added = _added_tokens(held, config)
    named = _named_tokens(held, config, {token.content: token for token in added.values()})
    return TokenizerFiles(
        vocabulary=vocabulary, merges=merges, added=added, named=named, length=_length(held.place, config)
    )


def _require_right_sides(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse prompts that begin with padding, or lose their beginning where they are too long."""
    for key in ("padding_side", "truncation_side"):
        if (side := config.get(key, "right")) != "right":
            raise BadBundle(f"{path}: {key} is {side!r}; only 'right' is supported")


def _vocabulary(held: Held) -> tuple[dict[str, int], list[tuple[str, str]]]:
    if "vocab.json" not in held.files and WHOLE in held.files:
        path = held.place / WHOLE
        model = _of_type(path, "model", held.json(WHOLE).get("model", {}), dict)
        if model.get("type") != "BPE":
            raise BadBundle(f"{path} holds no BPE model, which CLIP's tokenizer is")
        merges = _of_type(path, "merges", model.get("merges"), list)
        return _checked_ids(path, model.get("vocab")), _merges(path, merges)
    vocabulary = _checked_ids(held.place / "vocab.json", held.json("vocab.json"))
    lines = held.text(MERGES, MERGES_BYTES).splitlines()
    listed = [line for line in lines if line.strip() and not line.startswith("#version")]
    return vocabulary, _merges(held.place / MERGES, listed)


def _checked_ids(path: Path, vocabulary: Any) -> dict[str, int]:
    for token, id in _of_type(path, "vocab", vocabulary, dict).items():
        _require_id(path, token, id)
    ids: dict[str, int] = vocabulary
    return ids


def _require_id(path: Path, token: str, id: Any) -> None:
    if type(id) is not int or not 0 <= id < MOST_IDS:
        raise BadBundle(f"{path} gives {token!r} the id {id!r}; a whole number below {MOST_IDS} was expected")


def _merges(path: Path, lines: list[Any]) -> list[tuple[str, str]]:
    if len(lines) > MOST_MERGES:
        raise BadBundle(f"{path} has {len(lines)} merges, and at most {MOST_MERGES} are read")
    return [_pair(path, line) for line in lines]


def _pair(path: Path, line: Any) -> tuple[str, str]:
    match line:
        case str():
            left, _, right = line.partition(" ")
        case [str(left), str(right)]:
            pass
        case _:
            left = right = ""
    if not left or not right:
        raise BadBundle(f"{path} has a line {line!r}; each line should be two symbols")
    return left, right


def _added_tokens(held: Held, config: Mapping[str, Any]) -> dict[int, Special]:
    """Return, by id, the tokens that files list as added to the vocabulary."""
    if "added_tokens_decoder" in config:
        path = held.place / CONFIG
        listed = [*_of_type(path, "added_tokens_decoder", config["added_tokens_decoder"], dict).items()]
        tokens = [(int(id) if id.isdecimal() and len(id) < 10 else id, token) for id, token in listed]
        return _bounded(path, tokens)
    path = held.place / WHOLE
    entries = _of_type(path, "added_tokens", held.json(WHOLE, missing={}).get("added_tokens", []), list)
    later = [(_of_type(path, "added_tokens", entry, dict).get("id"), entry) for entry in entries]
    return {**_bounded(held.place / ADDED, _earlier_tokens(held, config)), **_bounded(path, later)}


def _earlier_tokens(held: Held, config: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the tokens of added_tokens.json, which has ids alone: what is not special is normalised."""
    named = {**config, **held.json(NAMED, missing={})}
    lists = [each for name in FURTHER if isinstance(each := named.get(name), list)]
    special = [*map(named.get, DEFAULTS), *chain.from_iterable(lists)]
    contents = [each.get("content") if isinstance(each, dict) else each for each in special]
    ids = held.json(ADDED, missing={})
    return [(id, {"content": token, "special": token in contents}) for token, id in ids.items()]


def _bounded(path: Path, tokens: list[tuple[Any, Any]]) -> dict[int, Special]:
    """Return the tokens that a file spells, by id; raises BadBundle where they are too many or too long."""
    if len(tokens) > MOST_SPECIALS:
        raise BadBundle(f"{path} adds {len(tokens)} tokens, and at most {MOST_SPECIALS} are read")
    specials = {id: _special(path, f"the added token {id!r}", token) for id, token in tokens}
    letters = sum(len(special.content) for special in specials.values())
    if letters > SPECIAL_LETTERS:
        raise BadBundle(f"{path} adds tokens of {letters} letters, and at most {SPECIAL_LETTERS} are read")
    for id, special in specials.items():
        _require_id(path, special.content, id)
    return specials


def _named_tokens(held: Held, config: Mapping[str, Any], added: Mapping[str, Special]) -> dict[str, Special]:
    """Return the four special tokens that have names.

    special_tokens_map.json wins unless tokenizer_config.json lists `added_tokens_decoder`: transformers
    reads old and new files in this way, so that Stable Diffusion 2.1 pads with "!", not with its end token.
    """
    table = {} if "added_tokens_decoder" in config else held.json(NAMED, missing={})
    values = {name: table.get(name) or config.get(name) or default for name, default in DEFAULTS.items()}
    tokens = {name: _special(held.place, name, value) for name, value in values.items()}
    return {name: added.get(token.content, token) for name, token in tokens.items()}


def _special(path: Path, name: str, value: Any) -> Special:
    """Return a token as tokenizer_config.json or special_tokens_map.json spells it."""
    spelled = {"content": value} if isinstance(value, str) else _of_type(path, name, value, dict)
    content = _of_type(path, f"content of {name}", spelled.get("content"), str)
    if not 1 <= len(content) <= LONGEST_SPECIAL:
        raise BadBundle(f"{path} has {name} of {len(content)} letters; 1 to {LONGEST_SPECIAL} were expected")
    if isinstance(value, str):
        return Special(content)
    is_special = _of_type(path, f"special of {name}", spelled.get("special", False), bool)
    normalized = _of_type(path, f"normalized of {name}", spelled.get("normalized", not is_special), bool)
    single = _of_type(path, f"single_word of {name}", spelled.get("single_word", False), bool)
    return Special(content, normalized, single)


def _length(folder: Path, config: Mapping[str, Any]) -> int:
    length = config.get("model_max_length", LENGTH)
    # Older files have 1e30, a float, for a length without limit.
    if type(length) not in (int, float) or not length >= 3:
        raise BadBundle(f"{folder / CONFIG}: model_max_length is {length!r}; a number from 3 was expected")
    return int(min(length, LENGTH))


def _of_type(path: Path, name: str, value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise BadBundle(f"{path}: {name} is {value!r}; {EXPECTED[kind]} was expected")
    return value


EXPECTED = {dict: "a JSON object", list: "a list", str: "a text", bool: "true or false"}
