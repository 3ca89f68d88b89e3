"""A special token of a tokenizer, and the normalisation of text before it is split into words."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import regex

SPACES = regex.compile(r"\s+")


@dataclass(frozen=True)
class Special:
    """A token that is matched before the text is split into words.

    `normalized`: matched after lower-casing, not before. `single_word`: only where no letter touches it.
    """

    content: str
    normalized: bool = False
    single_word: bool = False

    @property
    def text(self) -> str:
        """The text that it matches."""
        return normalize(self.content) if self.normalized else self.content


def normalize(text: str) -> str:
    """Return `text` composed (NFC), each run of white space one blank, lower-cased letter by letter.

    Letter by letter, as the reference does: a Greek capital sigma becomes σ at the end of a word too.
    """
    return "".join(c.lower() for c in SPACES.sub(" ", unicodedata.normalize("NFC", text)))
