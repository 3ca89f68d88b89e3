"""Prompts of random words, for a calibration without data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from msd.errors import BadCalibration

RANDOM_WORDS = "random-words"
"""What stands for such prompts where a calibration is asked for, unless a file has this name."""

PROMPTS = 16
"""The number of prompts."""

WORDS = (4, 12)
"""The fewest and the most words of a prompt."""

_END_OF_WORD = "</w>"


def random_prompts(vocabulary: Mapping[str, int], seed: int) -> tuple[str, ...]:
    """Return `PROMPTS` prompts of whole words of a CLIP tokenizer's `vocabulary`, the same for the same seed.

    Each word is as likely as any other. Raises BadCalibration where the vocabulary has no whole words.
    """
    words = sorted(filter(None, map(_word, vocabulary)))
    if not words:
        raise BadCalibration(
            f"the tokenizer's vocabulary has no whole words for {RANDOM_WORDS}; give a file of prompts"
        )
    random = np.random.default_rng(seed)
    lengths = random.integers(WORDS[0], WORDS[1], size=PROMPTS, endpoint=True)
    return tuple(" ".join(random.choice(words, length)) for length in lengths)


def _word(token: str) -> str:
    """Return the word that a token is, or "" for a part of one, a sign, or letters beyond ASCII."""
    word = token.removesuffix(_END_OF_WORD)
    return word if word != token and word.isalpha() and word.isascii() else ""
