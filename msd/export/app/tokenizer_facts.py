"""What sd-manifest.json says of an app's tokenizers, which share one vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig
from msd.export.app.tokenizer_files import tokenizer_texts
from msd.run.runtime.tokenizer import Tokenizer, open_tokenizer


@dataclass(frozen=True)
class SpecialToken:
    """A token that is matched before the text is split into words, after lower-casing it if `normalized`.

    `further`: the ids after `id` of a token with several vectors.
    """

    content: str
    id: int
    normalized: bool
    further: tuple[int, ...] = ()


@dataclass(frozen=True)
class TokenizerFacts:
    """The ids of the start, end, unknown and padding tokens, the sequence length, and the special tokens."""

    start: int
    end: int
    unknown: int
    pad: int
    length: int
    specials: tuple[SpecialToken, ...]


def open_tokenizers(bundle: Bundle) -> dict[str, Tokenizer]:
    """Return the bundle's tokenizers by name; raises BadBundle for several vocabularies."""
    opened = {name: open_tokenizer(bundle.folder / name) for name in bundle.wiring.tokenizers}
    texts = {name: tokenizer_texts(tokenizer) for name, tokenizer in opened.items()}
    first, *others = texts
    for other in others:
        if texts[other] != texts[first]:
            raise BadBundle(
                f"{bundle.folder} has the tokenizers {first} and {other} with vocabularies of their own, and"
                " apps read one vocabulary"
            )
    return opened


def tokenizer_facts(tokenizer: Tokenizer) -> TokenizerFacts:
    """Return what an app needs of a tokenizer; raises BadConfig for a token that apps do not match."""
    single_words = [special.content for special in tokenizer.specials if special.single_word]
    if single_words:
        raise BadConfig(
            f"the tokenizer matches {single_words[0]!r} as a word of its own; apps do not support that"
        )
    ids = {special: tokenizer.vectors(special.content) for special in tokenizer.specials}
    specials = (SpecialToken(s.text, first, s.normalized, tuple(rest)) for s, (first, *rest) in ids.items())
    return TokenizerFacts(
        start=tokenizer.start,
        end=tokenizer.end,
        unknown=tokenizer.unknown,
        pad=tokenizer.pad,
        length=tokenizer.length,
        specials=tuple(specials),
    )
