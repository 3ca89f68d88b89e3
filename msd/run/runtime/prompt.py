"""A prompt as the text encoders read it: chunks of tokens, each token with a weight.

A prompt of several chunks is cut every 75 tokens, and each chunk has its own start and end token, as in
compel and in AUTOMATIC1111's web UI. The web UI also moves cuts to commas and in front of tokens of several
vectors, which this does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from msd.run.runtime.arrays import Float
from msd.run.runtime.prompt_syntax import pieces_of
from msd.run.runtime.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenizedPrompt:
    """The `tokens`, int32, and their `weights`, float32, both (chunks, length), and the text that was `cut`.

    Start, end and padding have the weight 1. `cut` is "" for a prompt that fits. A negative prompt that is
    empty is `absent`.
    """

    tokens: npt.NDArray[np.int32]
    weights: Float
    cut: str
    absent: bool = False


def tokenize(
    tokenizer: Tokenizer, text: str, syntax: str = "plain", chunks: int = 1, absent: bool = False
) -> TokenizedPrompt:
    """Return the tokens of a prompt in exactly `chunks` chunks, those that are not needed empty.

    Raises BadConfig for text that its `syntax` does not allow.
    """
    ids: list[int] = []
    weights: list[float] = []
    for piece in pieces_of(text, syntax):
        added = tokenizer.inner_ids(piece.text)
        ids += added
        weights += [piece.weight] * len(added)
    room = tokenizer.room
    starts = range(0, chunks * room, room)
    return TokenizedPrompt(
        tokens=np.stack([tokenizer.framed(ids[start : start + room]) for start in starts]),
        weights=np.stack([_framed(weights[start : start + room], tokenizer.length) for start in starts]),
        cut=tokenizer.decode(ids[chunks * room :]),
        absent=absent,
    )


def emphasized(rows: Float, weights: Float) -> Float:
    """Return text encoders' `rows` (chunks, …, length, width) multiplied by `weights` (chunks, length).

    The mean of each chunk is then restored by a factor, unless it has become zero. This is
    AUTOMATIC1111's "original" emphasis (modules/sd_emphasis.py, EmphasisOriginal).
    """
    if (weights == 1).all():
        return rows
    flat = rows.reshape(*weights.shape, -1).astype(np.float64)
    weighted = flat * weights[..., None]
    before, after = (x.mean((1, 2), keepdims=True) for x in (flat, weighted))
    restored = weighted * np.divide(before, after, out=np.ones_like(before), where=after != 0)
    result: Float = restored.reshape(rows.shape).astype(np.float32)
    return result


def _framed(weights: list[float], length: int) -> Float:
    padding = [1.0] * (length - 1 - len(weights))
    return np.array([1.0, *weights, *padding], np.float32)
