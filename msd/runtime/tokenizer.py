"""CLIP's byte-level BPE tokenizer, read from a checkpoint's own files.

Its token ids are those of `transformers.CLIPTokenizer` for the same folder, without transformers. The method
is that of Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021),
section 2.4: lower-cased byte pair encoding after Sennrich et al. (2016), each word ending in `</w>`.
"""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from msd.errors import BadBundle

START = "<|startoftext|>"
END = "<|endoftext|>"
LENGTH = 77

WORDS = regex.compile(
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
)
SPACES = regex.compile(r"\s+")
DEFAULTS = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
FILES = ("vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
"""All files that `open_tokenizer` may read: to copy a tokenizer, copy those that exist."""


@dataclass(frozen=True)
class Special:
    """A token that is matched before the text is split into words.

    `normalized`: matched after lower-casing, not before. `single_word`: only where no letter touches it.
    """

    content: str
    normalized: bool = False
    single_word: bool = False

    @staticmethod
    def of(value: str | Mapping[str, Any]) -> Special:
        """Return a token as tokenizer_config.json or special_tokens_map.json spells it."""
        if isinstance(value, str):
            return Special(value)
        normalized = value.get("normalized", not value.get("special", False))
        return Special(value["content"], normalized, value.get("single_word", False))

    @property
    def text(self) -> str:
        """The text that it matches."""
        return normalize(self.content) if self.normalized else self.content


@dataclass(frozen=True)
class Tokenizer:
    """Text to token ids.

    `ranks`: each pair of symbols that merges, and how early. `pad`, `start`, `end`, `unknown`: token ids.
    """

    vocabulary: Mapping[str, int]
    ranks: Mapping[tuple[str, str], int]
    specials: tuple[Special, ...]
    start: int
    end: int
    unknown: int
    pad: int
    length: int = LENGTH
    _words: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def room(self) -> int:
        """The number of ids that fit between start and end."""
        return self.length - 2

    def ids(self, text: str) -> list[int]:
        """Return the ids of `text` between start and end, neither truncated nor padded."""
        return [self.start, *self.inner_ids(text), self.end]

    def encode(self, text: str) -> npt.NDArray[np.int32]:
        """Return int32 ids of shape (length,): truncated before the end token, padded on the right."""
        return self.framed(self.inner_ids(text)[: self.room])

    def framed(self, inner: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return `inner`, at most `room` ids, between start and end, padded: int32 of shape (length,)."""
        ids = [self.start, *inner, self.end]
        return np.array(ids + [self.pad] * (self.length - len(ids)), np.int32)

    def inner_ids(self, text: str) -> list[int]:
        """Return the ids of `text` without start and end, not truncated.

        A token `t` of a textual inversion with several vectors becomes the ids of `t`, `t_1`, `t_2`, … as in
        diffusers' `maybe_convert_prompt`.
        """
        (raw, raw_ids), (late, late_ids) = self._special_ids
        ids: list[int] = []
        for piece, special in _cut(text, raw):
            if special:
                ids += raw_ids[piece]
                continue
            for part, late_special in _cut(normalize(piece), late):
                ids += late_ids[part] if late_special else self._words_of(part)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the normalised text of `ids`, as far as they are whole characters."""
        contents = {special.content for special in self.specials}
        pieces: list[bytes] = []
        for token in map(self._tokens.__getitem__, ids):
            word = token.removesuffix("</w>")
            blank = b" " if token in contents or word != token else b""
            spelled = word.encode() if token in contents else bytes(map(_bytes_by_letter().__getitem__, word))
            pieces += [spelled, blank]
        return b"".join(pieces).decode("utf-8", "replace").strip()

    @functools.cached_property
    def _tokens(self) -> dict[int, str]:
        return {id: token for token, id in self.vocabulary.items()}

    @functools.cached_property
    def _special_ids(self) -> tuple[tuple[regex.Pattern[str] | None, dict[str, list[int]]], ...]:
        """The special tokens matched before normalising, then those after: a pattern, and ids by text."""
        stages = ([s for s in self.specials if s.normalized is late] for late in (False, True))
        return tuple(
            (_alternatives(some), {s.text: self.vectors(s.content) for s in some}) for some in stages
        )

    def vectors(self, content: str) -> list[int]:
        """Return the ids of a special token: its own, then those of its further vectors, if it has any."""
        contents = {special.content for special in self.specials}
        further = takewhile(contents.__contains__, (f"{content}_{i}" for i in count(1)))
        return [self.vocabulary[token] for token in (content, *further)]

    def _words_of(self, text: str) -> Iterator[int]:
        for word in words(text):
            if word not in self._words:
                self._words[word] = tuple(self._merge_word(word))
            yield from self._words[word]

    def _merge_word(self, word: str) -> Iterator[int]:
        alphabet = byte_alphabet()
        symbols = [alphabet[byte] for byte in word.encode("utf-8", "surrogatepass")]
        symbols[-1] += "</w>"
        for symbol in merge(symbols, self.ranks):
            yield self.vocabulary.get(symbol, self.unknown)


def open_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a checkpoint's or a bundle's `tokenizer/`.

    Reads vocab.json and merges.txt (or tokenizer.json where these are missing), tokenizer_config.json and
    special_tokens_map.json. Raises BadBundle for a missing or malformed file.
    """
    vocabulary, merges = _vocabulary(folder)
    added = _added_tokens(folder)
    vocabulary = {token.content: id for id, token in added.items()} | vocabulary
    named = _named_tokens(folder, {token.content: token for token in added.values()})
    for token in named.values():
        if token.content not in vocabulary:
            raise BadBundle(f"{folder} names a special token {token.content!r} that its vocabulary lacks")
    # The last of several spellings of one token counts, as it does in the tokenizers library.
    specials = {token.content: token for token in [*added.values(), *named.values()]}
    start, end, unknown, pad = (vocabulary[named[name].content] for name in DEFAULTS)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    return Tokenizer(
        vocabulary=vocabulary,
        ranks=ranks,
        specials=tuple(specials.values()),
        start=start,
        end=end,
        unknown=unknown,
        pad=pad,
        length=_length(folder),
    )


def normalize(text: str) -> str:
    """Return `text` composed (NFC), each run of white space one blank, lower-cased letter by letter.

    Letter by letter, as the reference does: a Greek capital sigma becomes σ at the end of a word too.
    """
    return "".join(c.lower() for c in SPACES.sub(" ", unicodedata.normalize("NFC", text)))


def words(text: str) -> Iterator[str]:
    """Yield the words of normalised text: contractions, runs of letters, digits, runs of other characters."""
    for word in WORDS.findall(text):
        # Spelled in capitals these are no special tokens; the reference then cuts them a second time.
        yield from ("<|", word[2:-2], "|>") if word in (START, END) else (word,)


def merge(symbols: Sequence[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Return `symbols` with neighbours merged, the pair of the lowest rank first, until no pair is known."""
    symbols = list(symbols)
    while True:
        known = (pair for pair in pairwise(symbols) if pair in ranks)
        best = min(known, key=ranks.__getitem__, default=None)
        if best is None:
            return symbols
        symbols = _merge_pair(symbols, best)


@functools.cache
def byte_alphabet() -> tuple[str, ...]:
    """Return the printable letter that stands for each of the 256 bytes (GPT-2's `bytes_to_unicode`)."""
    plain = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    spare = iter(range(256, 512))
    return tuple(chr(byte if byte in plain else next(spare)) for byte in range(256))


def _merge_pair(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    result: list[str] = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            result.append("".join(pair))
            i += 2
        else:
            result.append(symbols[i])
            i += 1
    return result


@functools.cache
def _bytes_by_letter() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(byte_alphabet())}


def _alternatives(specials: Sequence[Special]) -> regex.Pattern[str] | None:
    if not specials:
        return None
    longest_first = sorted(specials, key=lambda s: -len(s.content))
    edges = [(r"(?<!\w)", r"(?!\w)") if s.single_word else ("", "") for s in longest_first]
    parts = zip(edges, longest_first, strict=True)
    return regex.compile("|".join(f"{a}{regex.escape(special.text)}{b}" for (a, b), special in parts))


def _cut(text: str, pattern: regex.Pattern[str] | None) -> Iterator[tuple[str, bool]]:
    """Yield the pieces from left to right, each with whether it is a special token."""
    at = 0
    for match in pattern.finditer(text) if pattern else ():
        yield text[at : match.start()], False
        yield match.group(), True
        at = match.end()
    yield text[at:], False


def _vocabulary(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    if not (folder / "vocab.json").exists() and (folder / "tokenizer.json").exists():
        model = _json(folder / "tokenizer.json").get("model", {})
        if model.get("type") != "BPE":
            raise BadBundle(f"{folder / 'tokenizer.json'} holds no BPE model, which CLIP's tokenizer is")
        return model["vocab"], [_pair(line, folder) for line in model["merges"]]
    vocabulary = _json(folder / "vocab.json")
    lines = _text(folder / "merges.txt").splitlines()
    return vocabulary, [
        _pair(line, folder) for line in lines if line.strip() and not line.startswith("#version")
    ]


def _pair(line: str | list[str], folder: Path) -> tuple[str, str]:
    left, _, right = line.partition(" ") if isinstance(line, str) else (line[0], " ", line[1])
    if not left or not right:
        raise BadBundle(f"{folder / 'merges.txt'} has a line {line!r}; each line should be two symbols")
    return left, right


def _added_tokens(folder: Path) -> dict[int, Special]:
    """Return, by id, the tokens that files list as added to the vocabulary."""
    config = _json(folder / "tokenizer_config.json", missing={})
    if "added_tokens_decoder" in config:
        return {int(id): Special.of(token) for id, token in config["added_tokens_decoder"].items()}
    tokens = _json(folder / "tokenizer.json", missing={}).get("added_tokens", [])
    return {token["id"]: Special.of(token) for token in tokens}


def _named_tokens(folder: Path, added: Mapping[str, Special]) -> dict[str, Special]:
    """Return the four special tokens that have names.

    special_tokens_map.json wins unless tokenizer_config.json lists `added_tokens_decoder`: transformers
    reads old and new files in this way, so that Stable Diffusion 2.1 pads with "!", not with its end token.
    """
    config = _json(folder / "tokenizer_config.json", missing={})
    table = {} if "added_tokens_decoder" in config else _json(folder / "special_tokens_map.json", missing={})
    values = {name: table.get(name) or config.get(name) or default for name, default in DEFAULTS.items()}
    tokens = {name: Special.of(value) for name, value in values.items()}
    return {name: added.get(token.content, token) for name, token in tokens.items()}


def _length(folder: Path) -> int:
    config = _json(folder / "tokenizer_config.json", missing={})
    return min(int(config.get("model_max_length", LENGTH)), LENGTH)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadBundle(f"cannot read {path}: {error}") from error


def _json(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.exists():
        return missing
    try:
        value = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise BadBundle(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadBundle(f"{path} holds a JSON {type(value).__name__}; it should hold an object")
    return value
