"""Textual inversions: the table and the tokens that diffusers makes of the same files; what is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.embedding import TABLE, add, parse
from msd.errors import BadCheckpoint, BadConfig, MsdError
from msd.run.runtime.tokenizer import Tokenizer, open_tokenizer
from tests import checkpoints
from tests.clip_files import SD15, SD21, SD21_MAP, added, write_tokenizer
from tests.late import diffusers, transformers

WIDTH = 48
VECTORS = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(4)) * 0.1
TEXTS = [
    "a <cat> on <CAT> <cat>_1",
    "<cat><cat>",
    "the <dog>s, mystyle! MyStyle_2 don't",
    "",
    "<|endoftext|> ! B b cats",
]
CONVERTED = ["a <cat> on the moon", "mystyle, <dog>s"]
"""Texts in which diffusers expands every token: in capitals, or beside their own vectors, it does not."""


def automatic1111(path: Path, vectors: torch.Tensor, name: str | None) -> None:
    """Write what AUTOMATIC1111's web UI saves as .pt."""
    saved = {
        "string_to_token": {"*": 265},
        "string_to_param": {"*": vectors},
        "step": 7,
        "sd_checkpoint": None,
    }
    torch.save(saved | ({"name": name} if name else {}), path)


FILES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a.safetensors": (lambda path: save_file({"<cat>": VECTORS}, path), "<cat>", "<cat>"),
    "half.safetensors": (lambda path: save_file({"<cat>": VECTORS.half()}, path), "<cat>", "<cat>"),
    "learned_embeds.bin": (lambda path: torch.save({"<cat>": VECTORS[0]}, path), "<cat>", "<cat>"),
    "one.bin": (lambda path: torch.save({"<cat>": VECTORS[:1]}, path), "<cat>", "<cat>"),
    "b.pt": (lambda path: automatic1111(path, VECTORS[:2], "mystyle"), "mystyle", "mystyle"),
    "parameter.pt": (lambda path: automatic1111(path, torch.nn.Parameter(VECTORS), "c d"), "c d", "c d"),
    "no-name.pt": (lambda path: automatic1111(path, VECTORS, None), "no-name", ""),
    "MyStyle.safetensors": (lambda path: save_file({"emb_params": VECTORS}, path), "MyStyle", ""),
}
"""Files in each format: how to write it, its token, and the token that diffusers reads in it, if any."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding") / "tiny"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


def table_of(checkpoint: Checkpoint) -> np.ndarray:
    return checkpoint.weights["text_encoder"][TABLE].load()


def tokenizer_of(checkpoint: Checkpoint, folder: Path) -> Tokenizer:
    folder.mkdir()
    for name, read in checkpoint.tokenizers["tokenizer"].items():
        (folder / name).write_bytes(read())
    return open_tokenizer(folder)


@pytest.mark.parametrize("name", FILES)
def test_the_table_and_the_ids_are_those_of_diffusers(name: str, folder: Path, tmp_path: Path) -> None:
    write, token, read_by_diffusers = FILES[name]
    write(tmp_path / name)
    found = add(open_folder(folder), [(tmp_path / name, None)])
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    state = torch.load(tmp_path / name) if name.endswith((".pt", ".bin")) else str(tmp_path / name)
    if isinstance(state, dict) and not read_by_diffusers:
        state["name"] = token
    pipeline.load_textual_inversion(state, token=None if read_by_diffusers else token)
    table = pipeline.text_encoder.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(table_of(found), table)
    assert found.configs["text_encoder"].vocabulary == len(table)
    (tokens,) = found.embeddings.values()
    assert tokens[0] == token
    assert pipeline.tokenizer.convert_tokens_to_ids(list(tokens)) == [*range(516, 516 + len(tokens))]
    assert tokenizer_of(found, tmp_path / "tokenizer").ids(f"a {token}")[2:-1] == [*range(516, len(table))]


def write_source(kind: str, folder: Path) -> None:
    """Write a tokenizer in the files of one generation of checkpoints."""
    shutil.rmtree(folder)
    write_tokenizer(folder, *{"sd15": (SD15, None), "sd21": (SD21, SD21_MAP), "json": (SD21, SD21_MAP)}.get(
        kind, ({**SD15, "added_tokens_decoder": {"33": added("B", normalized=False)}}, None)
    ))  # fmt: skip
    if kind == "json":
        tokenizer = transformers.CLIPTokenizer.from_pretrained(folder)
        shutil.rmtree(folder)
        tokenizer.save_pretrained(folder)


@pytest.mark.parametrize("kind", ["sd15", "sd21", "json", "added"])
def test_transformers_reads_the_same_ids_from_the_files(kind: str, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(folder, source)
    write_source(kind, source / "tokenizer")
    automatic1111(tmp_path / "mystyle.pt", VECTORS[:2], None)
    save_file({"<cat>": VECTORS}, tmp_path / "cat.safetensors")
    files = [(tmp_path / "cat.safetensors", None), (tmp_path / "mystyle.pt", None)]
    files.append((tmp_path / "cat.safetensors", "<dog>"))
    plain = replace(
        open_folder(source), configs={"text_encoder": open_folder(folder).configs["text_encoder"]}
    )
    wide = np.zeros((700, WIDTH), np.float32)
    weights = {"text_encoder": {TABLE: type(plain.weights["text_encoder"][TABLE]).of(wide)}}
    found = add(replace(plain, weights=weights), files)
    ours = tokenizer_of(found, tmp_path / "tokenizer")
    theirs: Any = transformers.CLIPTokenizer.from_pretrained(tmp_path / "tokenizer")
    before = open_tokenizer(source / "tokenizer")
    assert (ours.start, ours.end, ours.unknown, ours.pad) == (
        before.start, before.end, before.unknown, before.pad,
    )  # fmt: skip
    assert (theirs.pad_token_id, len(theirs)) == (ours.pad, 674 + 8)
    for text in TEXTS:
        expanded = re.sub("(?i)<(cat|dog)>(?!_1)", r"<\1> <\1>_1 <\1>_2", text)
        expanded = re.sub("(?i)mystyle(?!_1)", "mystyle mystyle_1", expanded)
        assert ours.ids(text) == theirs(expanded)["input_ids"], text
        assert ours.encode(text)[-1] == ours.pad
    for text in CONVERTED:
        converted = diffusers.StableDiffusionPipeline._maybe_convert_prompt(None, text, theirs)
        assert ours.ids(text) == theirs(converted)["input_ids"], text
    assert {file: tokens[0] for file, tokens in found.embeddings.items()} == {
        "embedding/cat.safetensors": "<cat>",
        "embedding/mystyle.pt": "mystyle",
        "embedding/2/cat.safetensors": "<dog>",
    }
    assert found.weight_files["text_encoder"][1:] == tuple(found.embeddings)


def test_the_option_is_a_file_and_maybe_a_token(tmp_path: Path) -> None:
    assert parse("a/b.pt") == (Path("a/b.pt"), None)
    assert parse("a/b.safetensors:<cat>") == (Path("a/b.safetensors"), "<cat>")
    assert parse("b.PT:a:b.pt:c") == (Path("b.PT"), "a:b.pt:c")
    odd = tmp_path / "b.pt:c"
    odd.touch()
    assert parse(str(odd)) == (odd, None)
    with pytest.raises(BadConfig, match=r"b\.bin: ends in an empty token; a token was expected"):
        parse("b.bin:")


REFUSED: dict[str, tuple[dict[str, torch.Tensor], str | None, str]] = {
    "another width": (
        {"<cat>": torch.zeros(2, 40)},
        None,
        r"\[2, 40\]: made for a text encoder 40 wide, and this checkpoint's is 48 wide \(768 in",
    ),
    "SDXL": ({"clip_g": VECTORS, "clip_l": VECTORS + 1}, None, "for Stable Diffusion XL or 3: it has clip_g"),
    "several": (
        {"a": VECTORS, "b": VECTORS + 1},
        None,
        r"has the vectors of 2 tokens: a, b; choose one, as in",
    ),
    "other things": (
        {"a": VECTORS, "b": torch.zeros(40)},
        "a9",
        r"no textual inversion: it has 2 tensors \(a, b\), and one",
    ),
    "integers": ({"<cat>": torch.zeros(2, 48, dtype=torch.int64)}, None, "is int64, and only floating"),
    "three axes": ({"<cat>": torch.zeros(1, 2, 48)}, None, r"\(width,\) or \(vectors, width\) was expected"),
    "a known token": ({"red</w>": VECTORS}, None, "'red</w>' is in the vocabulary already; choose another"),
    "a known letter": ({"<cat>": VECTORS}, "A", "'A' is in the vocabulary already"),
    "a special token": ({"<cat>": VECTORS}, "<|EndOfText|>", "is in the vocabulary already; choose another"),
    "with a special token inside": (
        {"<cat>": VECTORS},
        "a<|endoftext|>",
        r"no prompt has the token 'a<\|endoftext\|>', in which another token is found first; choose",
    ),
    "the start": ({"<|startoftext|>": VECTORS}, None, "is in the vocabulary already; choose another"),
    "the padding": ({"!": VECTORS}, None, "'!' is in the vocabulary already; choose another"),
    "blank": ({" ": VECTORS}, None, "has an empty token; choose another token, as in x.safetensors:<my-"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_files_and_tokens(name: str, folder: Path, tmp_path: Path) -> None:
    tensors, token, problem = REFUSED[name]
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(MsdError, match=problem) as refused:
        add(open_folder(folder), [(tmp_path / "x.safetensors", token)])
    assert "x.safetensors" in str(refused.value)


@pytest.mark.parametrize(("one", "other"), [("<cat>", "<CAT>"), ("<cat>", "<cat>_2"), ("<cat>_3", "<cat>")])
def test_refuses_tokens_that_would_be_confused(one: str, other: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"<cat>": VECTORS}, path)
    with pytest.raises(BadConfig, match=r"is in the vocabulary already|would be a vector of '<cat>'"):
        add(open_folder(folder), [(path, one), (path, other)])


def test_a_vector_that_continues_another_token_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"<cat>": VECTORS}, path)
    with pytest.raises(BadConfig, match=r"'<cat>_3' would be a vector of '<cat>'; choose another token"):
        add(open_folder(folder), [(path, "<cat>"), (path, "<cat>_3")])


def test_refuses_damaged_files_and_values(folder: Path, tmp_path: Path) -> None:
    for name in ("x.safetensors", "x.pt"):
        (tmp_path / name).write_bytes(b"not this")
        with pytest.raises(BadCheckpoint, match=f"{name} is not a readable"):
            add(open_folder(folder), [(tmp_path / name, None)])
    save_file({"<cat>": VECTORS * float("inf")}, tmp_path / "x.safetensors")
    found = add(open_folder(folder), [(tmp_path / "x.safetensors", None)])
    with pytest.raises(BadCheckpoint, match=r"x\.safetensors holds values that are not finite"):
        table_of(found)


def test_vectors_of_zeros_are_said(folder: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    save_file({"<cat>": VECTORS * 0}, path)
    save_file({"<dog>": torch.cat([VECTORS[:1], VECTORS[1:] * 0])}, other)
    found = add(open_folder(folder), [(path, None), (other, None)])
    before = open_folder(folder).remarks
    assert found.remarks == (*before, f"{path} says nothing: the vectors of its token '<cat>' are all 0")


def test_a_pickle_that_names_code_is_refused(folder: Path, tmp_path: Path) -> None:
    automatic1111(tmp_path / "x.pt", VECTORS, shutil.rmtree)  # type: ignore[arg-type]
    with pytest.raises(BadCheckpoint, match="rmtree"):
        add(open_folder(folder), [(tmp_path / "x.pt", None)])


def test_refuses_a_tokenizer_that_cannot_take_a_token(folder: Path, tmp_path: Path) -> None:
    save_file({"<cat>": VECTORS}, tmp_path / "x.safetensors")
    checkpoint, files = open_folder(folder), [(tmp_path / "x.safetensors", None)]
    with pytest.raises(BadCheckpoint, match=r"tokenizer is not one that we can use: .*merges\.txt"):
        add(replace(checkpoint, tokenizers={"tokenizer": {"vocab.json": lambda: b"{}"}}), files)
    none = replace(checkpoint, weights={"text_encoder": {}})
    with pytest.raises(BadCheckpoint, match=r"should have a table .* of 516 rows or more.*; there is none"):
        add(none, files)
    short = {"text_encoder": {TABLE: checkpoint.weights["text_encoder"][TABLE].slice(0, 0, 500)}}
    with pytest.raises(BadCheckpoint, match=r"of 516 rows or more, .*its shape is \[500, 48\]"):
        add(replace(checkpoint, weights=short), files)
