"""The tokenizer of an app: tokens.txt and merges.txt, which a phone reads line by line."""

from __future__ import annotations

from msd.bounds import MOST_IDS
from msd.errors import BadConfig
from msd.run.runtime.tokenizer import Tokenizer

VOCABULARY, MERGES = "tokens.txt", "merges.txt"


def tokenizer_texts(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the texts of tokens.txt and merges.txt, whatever files the tokenizer was read from.

    tokens.txt has a line for each id from 0, empty where no token has it: a phone reads it without a parser.
    A special token whose id another token has stands in the manifest alone. Raises BadConfig for a token that
    does not fit on a line of its own.
    """
    ranked = sorted(tokenizer.ranks, key=tokenizer.ranks.__getitem__)
    merges = "".join(f"{left} {right}\n" for left, right in ranked)
    return {VOCABULARY: "".join(f"{token}\n" for token in _tokens(tokenizer)), MERGES: merges}


def _tokens(tokenizer: Tokenizer) -> list[str]:
    highest = max(tokenizer.vocabulary.values())
    if not 0 <= min(tokenizer.vocabulary.values()) <= highest < MOST_IDS:
        raise BadConfig(f"the tokenizer has the id {highest}; ids should be from 0 to {MOST_IDS - 1}")
    tokens = [""] * (highest + 1)
    special = {token.content for token in tokenizer.specials}
    for token, number in sorted(tokenizer.vocabulary.items(), key=lambda item: item[0] in special):
        if token in special and tokens[number]:
            continue
        if not token or "\n" in token or "\r" in token:
            raise BadConfig(f"the tokenizer has a token {token!r}; apps need tokens without line breaks")
        if tokens[number]:
            both = f"{tokens[number]!r} and {token!r}"
            raise BadConfig(f"the tokenizer's {both} have the same id {number}; apps need one token for each")
        tokens[number] = token
    return tokens
