"""Adds textual inversions to a checkpoint: new tokens with learnt vectors (Gal et al., arXiv:2208.01618).

The files are those of msd/conversion/sources/embedding_file.py, and the new rows follow the table of the text
encoder as in diffusers' `load_textual_inversion`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from msd.conversion.sources.added_tokens import files_with, read_tokenizer, size_of, with_tokens
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.embedding_file import TokenVectors, not_one, read_of_encoders, read_vectors
from msd.errors import BadCheckpoint, BadConfig
from msd.files.wording import listed
from msd.graph.ir.weights import Array, Weights
from msd.run.runtime.special_token import Special
from msd.run.runtime.tokenizer import Tokenizer

OPTION = re.compile(
    r"(?P<file>.*?\.(?:safetensors|pt|bin|ckpt|pth|png|webp)):(?P<token>.*)", re.DOTALL | re.IGNORECASE
)
TABLE = "embeddings.token_embedding.weight"
OF_ENCODERS = ("clip_l", "clip_g")
"""The names of the vectors for Stable Diffusion XL's text encoders, in their order."""


def parse(text: str) -> tuple[Path, str | None]:
    """Return the file and the token, None for the file's own, of the option `FILE[:TOKEN]`.

    The token follows the first colon after the name of a file, or after the ending of such a name. Raises
    BadConfig for an empty token.
    """
    if Path(text).is_file():
        return Path(text), None
    places = (at for at, letter in enumerate(text) if letter == ":" and Path(text[:at]).is_file())
    match = OPTION.fullmatch(text)
    at = next(places, match.end("file") if match else None)
    if at is None:
        return Path(text), None
    if not text[at + 1 :].strip():
        raise BadConfig(f"{text} ends in an empty token; a token was expected, as in FILE:<cat>")
    return Path(text[:at]), text[at + 1 :]


@dataclass(frozen=True)
class Inversion:
    """The `vectors`, (count, width), of a token, from the file at `path`."""

    path: Path
    token: str
    vectors: Weights

    @property
    def tokens(self) -> list[str]:
        """The token of each vector: `t`, `t_1`, `t_2`, … as in diffusers."""
        return [self.token, *(f"{self.token}_{i}" for i in range(1, len(self)))]

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def load(self) -> Array:
        """Return the vectors; raises BadCheckpoint for values that are not finite."""
        array = self.vectors.load()
        if not np.isfinite(array).all():
            raise BadCheckpoint(f"{self.path} holds values that are not finite (NaN or infinity)")
        return array


def add(checkpoint: Checkpoint, files: Sequence[tuple[Path, str | None]]) -> Checkpoint:
    """Return the checkpoint with the textual inversions in `files`, each under its token or its file's own.

    Remarks say of one whose vectors are zeros. Raises BadConfig for a token that the vocabulary
    has; BadCheckpoint for a file that is damaged, of another kind, or for a text encoder of another width.
    """
    if not files:
        return checkpoint
    encoders = [encoder.name for encoder in checkpoint.family.text_encoders]
    shown: dict[str, list[Inversion]] = {}
    widths = {name: _table(checkpoint, name).shape[1] for name in encoders}
    for path, token in files:
        shown[checkpoint.free_name("embedding", path, shown)] = _read(checkpoint, path, token, widths)
    remarks = (remark for each in shown.values() for remark in _remarks(each))
    checkpoint = replace(checkpoint, remarks=(*checkpoint.remarks, *remarks))
    for at, name in enumerate(encoders):
        checkpoint = _extended(checkpoint, name, {file: each[at] for file, each in shown.items()})
    return checkpoint


def _remarks(of_encoders: Sequence[Inversion]) -> Iterator[str]:
    """Yield that a token has only zeros for vectors."""
    if not any(each.vectors.load().any() for each in of_encoders):
        path, token = of_encoders[0].path, of_encoders[0].token
        yield f"{path} says nothing: the vectors of its token {token!r} are all 0"


def _table(checkpoint: Checkpoint, encoder: str) -> Weights:
    """Return the table of a text encoder, with at least one row for each token."""
    (name,) = checkpoint.family.tokenizers_of(encoder)
    first = size_of(read_tokenizer(checkpoint.tokenizers[name]))
    table = checkpoint.weights[encoder].get(TABLE)
    if table is None or len(table.shape) != 2 or first > table.shape[0]:
        actual = f"its shape is {list(table.shape)}" if table else "there is none"
        raise BadCheckpoint(
            f"{checkpoint.name}'s {checkpoint.family.component(encoder).title} should have a table {TABLE} of"
            f" {first} rows or more, one for each token; {actual}"
        )
    return table


def _extended(checkpoint: Checkpoint, name: str, shown: Mapping[str, Inversion]) -> Checkpoint:
    """Return the checkpoint with the tokens of inversions, and with their rows behind those of the others."""
    (of,) = checkpoint.family.tokenizers_of(name)
    tokenizer = read_tokenizer(checkpoint.tokenizers[of])
    first, inversions = size_of(tokenizer), [*shown.values()]
    for inversion in inversions:
        tokenizer = _with_inversion(tokenizer, inversion)
    weights = checkpoint.weights[name]
    table = _with_rows(_table(checkpoint, name), inversions, first)
    config = replace(checkpoint.configs[name], vocabulary=table.shape[0])
    return replace(
        checkpoint,
        configs={**checkpoint.configs, name: config},
        weights={**checkpoint.weights, name: {**weights, TABLE: table}},
        tokenizers={**checkpoint.tokenizers, of: files_with(checkpoint.tokenizers[of], tokenizer)},
        files={**checkpoint.files, **{file: inversion.path for file, inversion in shown.items()}},
        weight_files={**checkpoint.weight_files, name: (*checkpoint.weight_files[name], *shown)},
        embeddings={file: tuple(inversion.tokens) for file, inversion in shown.items()},
    )


def _with_rows(table: Weights, inversions: Sequence[Inversion], first: int) -> Weights:
    def extended(array: Array) -> Array:
        return np.concatenate([array[:first], *(inversion.load() for inversion in inversions)])

    names = ", ".join(inversion.path.name for inversion in inversions)
    rows = first + sum(map(len, inversions))
    return table.map(f"and the rows of {names}", extended, (rows, table.shape[1]))


def _read(
    checkpoint: Checkpoint, path: Path, token: str | None, widths: Mapping[str, int]
) -> list[Inversion]:
    """Return the inversion in a file for each text encoder, whose tables are so wide."""
    if len(widths) == 1:
        (width,) = widths.values()
        return [_inversion(path, token, _chosen(path, token, read_vectors(path), width), width)]
    try:
        found = read_of_encoders(path, OF_ENCODERS)
    except BadCheckpoint as error:
        raise BadCheckpoint(f"{error}; {checkpoint.name} is a {checkpoint.family.title}") from error
    of_each = [_inversion(path, token, *each) for each in zip(found, widths.values(), strict=True)]
    if len({*map(len, of_each)}) > 1:
        counts = listed(f"{len(each)} in {key}" for each, key in zip(of_each, OF_ENCODERS, strict=True))
        raise BadCheckpoint(f"{path} has vectors {counts}; as many were expected for each text encoder")
    return of_each


def _inversion(path: Path, token: str | None, found: TokenVectors, width: int) -> Inversion:
    """Return the inversion that some vectors are; refuse those of another kind or width."""
    vectors = found.weights
    where = f"{path}'s {found.key} has the shape {list(vectors.shape)}"
    if vectors.dtype != np.float32:
        raise BadCheckpoint(f"{path}'s {found.key} is {vectors.dtype}, and only floating point is supported")
    if len(vectors.shape) not in (1, 2) or not vectors.size:
        raise BadCheckpoint(f"{where}; (width,) or (vectors, width) was expected")
    if vectors.shape[-1] != width:
        raise BadCheckpoint(
            f"{where}: made for a text encoder {vectors.shape[-1]} wide, and this checkpoint's is {width}"
            " wide (768 in Stable Diffusion 1.x, 1024 in 2.x); the embedding is for another model"
        )
    rows = vectors.reshape((vectors.size // width, width))
    return Inversion(path, token or found.token or path.stem, rows)


def _chosen(path: Path, token: str | None, found: Sequence[TokenVectors], width: int) -> TokenVectors:
    """Return the only vectors of a file, or those of the token; refuse to choose among several."""
    if len(found) == 1:
        return found[0]
    if named := [each for each in found if token in (each.token, each.key) and token is not None]:
        return named[0]
    if any(each.weights.shape[-1:] != (width,) for each in found):
        raise not_one(path, (each.key for each in found))
    tokens = [each.token or each.key for each in found]
    raise BadCheckpoint(
        f"{path} has the vectors of {len(found)} tokens: {', '.join(tokens)}; choose one, as in"
        f" {path.name}:{tokens[0]}"
    )


def _with_inversion(tokenizer: Tokenizer, inversion: Inversion) -> Tokenizer:
    """Return the tokenizer with the inversion's tokens; raises BadConfig where it cannot tell them apart."""
    known = {*tokenizer.vocabulary, *(special.text for special in tokenizer.specials)}
    remedy = f"choose another token, as in {inversion.path.name}:<my-token>"
    for token in inversion.tokens:
        text = Special(token, normalized=True).text
        if not text.strip():
            raise BadConfig(f"{inversion.path} has an empty token; {remedy}")
        if {token, text} & known:
            raise BadConfig(f"{inversion.path}: {token!r} is in the vocabulary already; {remedy}")
    grown = with_tokens(tokenizer, inversion.tokens)
    before = {special.content: tokenizer.vectors(special.content) for special in tokenizer.specials}
    expected = {**before, inversion.token: [grown.vocabulary[token] for token in inversion.tokens]}
    for token, ids in expected.items():
        if grown.vectors(token) != ids:
            raise BadConfig(f"{inversion.path}: {inversion.token!r} would be a vector of {token!r}; {remedy}")
    if grown.inner_ids(inversion.token) != expected[inversion.token]:
        raise BadConfig(
            f"{inversion.path}: no prompt has the token {inversion.token!r}, in which another token is found"
            f" first; {remedy}"
        )
    return grown
