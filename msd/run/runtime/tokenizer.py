"""CLIP's byte-level BPE tokenizer, read from a checkpoint's own files.

Its token ids are those of `transformers.CLIPTokenizer` for the same folder, without transformers. The method
is that of Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021),
section 2.4: lower-cased byte pair encoding after Sennrich et al. (2016), each word ending in `</w>`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import regex

from msd.errors import BadBundle
from msd.run.runtime.special_token import Special, normalize
from msd.run.runtime.tokenizer_files import DEFAULTS, END, LENGTH, START, Held, read_files

WORDS = regex.compile(
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
)


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

    def words(self, text: str) -> Iterator[str]:
        """Yield the words of `text`, normalised, without special tokens."""
        (raw, _), (late, _) = self._special_ids
        plain = (piece for piece, special in _cut(text, raw) if not special)
        for piece in plain:
            for part, special in _cut(normalize(piece), late):
                if not special:
                    yield from words(part)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the normalised text of `ids`, as far as they are whole characters.

        A token of several vectors is written once, as in a prompt, also where only the last ones are left.
        """
        contents, letters = self._contents, _bytes_by_letter()
        pieces: list[bytes] = []
        for token in map(self._tokens.__getitem__, self._written(ids)):
            word = token.removesuffix("</w>")
            blank = b" " if token in contents or word != token else b""
            known = (letters[letter] for letter in word if letter in letters)
            spelled = word.encode() if token in contents else bytes(known)
            pieces += [spelled, blank]
        return b"".join(pieces).decode("utf-8", "replace").strip(" ")

    def _written(self, ids: Sequence[int]) -> Iterator[int]:
        """Yield `ids` without those that follow from the ones before them."""
        for i, id in enumerate(ids):
            first, before = self._further.get(id, (id, None))
            if i == 0 or ids[i - 1] != before:
                yield id if i else first

    @functools.cached_property
    def _further(self) -> dict[int, tuple[int, int]]:
        """The id of each further vector of a special token: the id of its first, and of the one before it."""
        vectors = [self.vectors(content) for content in self._contents]
        return {id: (some[0], before) for some in vectors for before, id in pairwise(some)}

    @functools.cached_property
    def _tokens(self) -> dict[int, str]:
        return {id: token for token, id in self.vocabulary.items()}

    @functools.cached_property
    def _contents(self) -> set[str]:
        return {special.content for special in self.specials}

    @functools.cached_property
    def _special_ids(self) -> tuple[tuple[regex.Pattern[str] | None, dict[str, list[int]]], ...]:
        """The special tokens matched before normalising, then those after: a pattern, and ids by text."""
        stages = ([s for s in self.specials if s.normalized is late] for late in (False, True))
        return tuple(
            (_alternatives(some), {s.text: self.vectors(s.content) for s in some}) for some in stages
        )

    def vectors(self, content: str) -> list[int]:
        """Return the ids of a special token: its own, then those of its further vectors, if it has any."""
        further = takewhile(self._contents.__contains__, (f"{content}_{i}" for i in count(1)))
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
    """Return the tokenizer of a bundle's `tokenizer/`; raises BadBundle for a missing or malformed file."""
    return tokenizer_of(Held.of(folder))


def tokenizer_of(held: Held) -> Tokenizer:
    """Return the tokenizer in these files; raises BadBundle for a missing or malformed one."""
    files = read_files(held)
    added, named = files.added.values(), files.named
    vocabulary = {token.content: id for id, token in files.added.items()} | files.vocabulary
    for token in named.values():
        if token.content not in vocabulary:
            raise BadBundle(f"{held.place} names a special token {token.content!r} that its vocabulary lacks")
    # The last of several spellings of one token counts, as it does in the tokenizers library.
    specials = {token.content: token for token in [*added, *named.values()]}
    start, end, unknown, pad = (vocabulary[named[name].content] for name in DEFAULTS)
    return Tokenizer(
        vocabulary=vocabulary,
        ranks={pair: rank for rank, pair in enumerate(files.merges)},
        specials=tuple(specials.values()),
        start=start,
        end=end,
        unknown=unknown,
        pad=pad,
        length=files.length,
    )


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
