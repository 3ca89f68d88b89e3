"""Adds textual inversions to a checkpoint: new tokens with learnt vectors (Gal et al., arXiv:2208.01618).

The files are those that diffusers' `load_textual_inversion` reads, and the new rows follow the table of the
text encoder in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from msd.conversion.sources import pickled, safetensors
from msd.conversion.sources.added_tokens import files_with, read_tokenizer, size_of, with_tokens
from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.ir.weights import Array, Weights
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER
from msd.run.runtime.special_token import Special
from msd.run.runtime.tokenizer import Tokenizer

OPTION = re.compile(
    r"(?P<file>.*?\.(?:safetensors|pt|bin|ckpt|pth)):(?P<token>.*)", re.DOTALL | re.IGNORECASE
)
TABLE = "embeddings.token_embedding.weight"
NAMELESS = ("*", "emb_params")
"""The name of the vectors in AUTOMATIC1111's files, where it is not the token's."""

SEVERAL_ENCODERS = ("clip_g", "clip_l", "t5", "t5xxl")
"""The names of the vectors in files for models with several text encoders."""


def parse(text: str) -> tuple[Path, str | None]:
    """Return the file and the token, None for the file's own, of the option `FILE[:TOKEN]`.

    The token follows the first colon after the ending of a file's name. Raises BadConfig for an empty token.
    """
    match = None if Path(text).is_file() else OPTION.fullmatch(text)
    if not match:
        return Path(text), None
    if not match["token"].strip():
        raise BadConfig(f"{text} ends in an empty token; a token was expected, as in FILE:<cat>")
    return Path(match["file"]), match["token"]


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

    Reads only headers: rows are read when the table is. Raises BadConfig for a checkpoint of another family
    and for a token that the vocabulary has; BadCheckpoint for a file that is damaged, of another kind, or
    for a text encoder of another width.
    """
    if not files:
        return checkpoint
    if checkpoint.family is not STABLE_DIFFUSION:
        raise BadConfig(
            f"textual inversions can be added to {STABLE_DIFFUSION.title} only, not {checkpoint.family.title}"
        )
    tokenizer = read_tokenizer(checkpoint.tokenizer)
    first, table = size_of(tokenizer), checkpoint.weights[TEXT_ENCODER.name].get(TABLE)
    if table is None or len(table.shape) != 2 or first > table.shape[0]:
        actual = f"its shape is {list(table.shape)}" if table else "there is none"
        raise BadCheckpoint(
            f"{checkpoint.name}'s text encoder should have a table {TABLE} of {first} rows or more, one for"
            f" each token; {actual}"
        )
    inversions = []
    for path, token in files:
        inversions.append(_read(path, token, table.shape[1]))
        tokenizer = _with_inversion(tokenizer, inversions[-1])
    return _extended(checkpoint, tokenizer, inversions, first)


def _extended(
    checkpoint: Checkpoint, tokenizer: Tokenizer, inversions: Sequence[Inversion], first: int
) -> Checkpoint:
    """Return the checkpoint with the tokenizer, and with rows from the index `first` on."""
    name = TEXT_ENCODER.name
    shown: dict[str, Inversion] = {}
    for inversion in inversions:
        shown[checkpoint.free_name("embedding", inversion.path, shown)] = inversion
    weights = checkpoint.weights[name]
    table = _with_rows(weights[TABLE], inversions, first)
    config = replace(checkpoint.configs[name], vocabulary=table.shape[0])
    files = {file: inversion.path for file, inversion in shown.items()}
    return replace(
        checkpoint,
        configs={**checkpoint.configs, name: config},
        weights={**checkpoint.weights, name: {**weights, TABLE: table}},
        tokenizer=files_with(checkpoint.tokenizer, tokenizer),
        files={**checkpoint.files, **files},
        weight_files={**checkpoint.weight_files, name: (*checkpoint.weight_files[name], *files)},
        embeddings={file: tuple(inversion.tokens) for file, inversion in shown.items()},
    )


def _with_rows(table: Weights, inversions: Sequence[Inversion], first: int) -> Weights:
    def extended(array: Array) -> Array:
        return np.concatenate([array[:first], *(inversion.load() for inversion in inversions)])

    names = ", ".join(inversion.path.name for inversion in inversions)
    rows = first + sum(map(len, inversions))
    return table.map(f"and the rows of {names}", extended, (rows, table.shape[1]))


def _read(path: Path, token: str | None, width: int) -> Inversion:
    """Return the inversion in a file; refuse one of another kind or width."""
    if path.suffix.lower() == ".safetensors":
        contents = safetensors.read_contents(path)
    else:
        contents = pickled.read_contents(path)
    _refuse_others(path, contents.tensors)
    ((key, vectors),) = contents.tensors.items()
    own = contents.metadata.get("name") or path.stem if key in NAMELESS else key
    where = f"{path}'s {key} has the shape {list(vectors.shape)}"
    if vectors.dtype != np.float32:
        raise BadCheckpoint(f"{path}'s {key} is {vectors.dtype}, and only floating point is supported")
    if len(vectors.shape) not in (1, 2) or not vectors.size:
        raise BadCheckpoint(f"{where}; (width,) or (vectors, width) was expected")
    if vectors.shape[-1] != width:
        raise BadCheckpoint(
            f"{where}: made for a text encoder {vectors.shape[-1]} wide, and this checkpoint's is {width}"
            " wide (768 in Stable Diffusion 1.x, 1024 in 2.x); the embedding is for another model"
        )
    return Inversion(path, token or own, vectors.reshape((vectors.size // width, width)))


def _refuse_others(path: Path, tensors: Mapping[str, Weights]) -> None:
    """Refuse files for other models, and files that are no textual inversion."""
    if several := sorted(tensors.keys() & set(SEVERAL_ENCODERS)):
        raise BadCheckpoint(
            f"{path} is a textual inversion for Stable Diffusion XL or 3: it has {', '.join(several)}, "
            f"and only {STABLE_DIFFUSION.title} is supported"
        )
    if len(tensors) != 1:
        some = ", ".join(sorted(tensors)[:3]) or "none"
        raise BadCheckpoint(
            f"{path} is no textual inversion: it has {len(tensors)} tensors ({some}), and one was expected"
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
    return grown
