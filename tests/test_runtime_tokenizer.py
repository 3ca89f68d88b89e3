"""Our tokenizer against transformers' CLIPTokenizer, token by token, on the same files."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.errors import BadBundle
from msd.run.runtime.special_token import Special, normalize
from msd.run.runtime.tokenizer import Tokenizer, merge, open_tokenizer
from msd.run.runtime.tokenizer_files import END, START, Held, read_files
from tests.clip_files import SD15, SD21, SD21_MAP, added, write_tokenizer

DECODER = {
    "0": added("!", normalized=False, special=True),
    "33": added("B", normalized=False),
    "674": added("cat", single_word=True),
}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "plain": (SD15, None),
    "sd15": (SD15, {"bos_token": added(START), "eos_token": added(END), "pad_token": END}),
    "sd21": (SD21, SD21_MAP),
    "late": (SD15, {"eos_token": END, "unk_token": END, "pad_token": added(END)}),
    "added": ({**SD15, "added_tokens_decoder": DECODER}, {"pad_token": "?"}),
    "short": ({**SD15, "model_max_length": 9}, None),
}
ASSIGNED = st.characters(exclude_categories=("Cs", "Cn"))
ENGLISH = ["the", "'s", "'LL", "don't", "!", "!!", "  ", "\t\n", START, END, END.upper(), "cat", "Cat2", "B"]
OTHER = [
    "ΑΣ",
    "İ",
    "é",
    "e\u0301",
    "ﬁ",
    "🦊",
    "👩\u200d🚀",
    "日本",
    "１２",
    "²",
    "\u3000",
    "\x85",
    "\x00",
    "\ufeff",
]
PIECES = st.sampled_from([*ENGLISH, *OTHER])
TEXT = st.lists(st.one_of(PIECES, st.text(ASSIGNED, max_size=6)), max_size=12).map("".join)


@functools.cache
def both(variant: str) -> tuple[Tokenizer, Any]:
    from transformers import CLIPTokenizer

    folder = write_tokenizer(Path(tempfile.mkdtemp()) / "tokenizer", *VARIANTS[variant])
    return open_tokenizer(folder), CLIPTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=300, derandomize=True)
@given(text=TEXT)
def test_every_text_gives_the_ids_of_transformers(variant: str, text: str) -> None:
    ours, theirs = both(variant)
    assert ours.ids(text) == theirs(text)["input_ids"]
    padded = theirs(text, padding="max_length", truncation=True)["input_ids"]
    assert ours.encode(text).tolist() == padded


def test_letters_merge_and_rare_ones_fall_back_to_bytes() -> None:
    ours, theirs = both("sd15")
    assert len(ours.ids("the")) == 3
    assert len(ours.ids("🦊")) == 2 + 4
    assert theirs.convert_ids_to_tokens(ours.ids("the")) == [START, "the</w>", END]


def test_what_is_too_long_is_cut_and_still_ends() -> None:
    ours, _ = both("sd15")
    ids = ours.encode("dog " * 200)
    assert ids.shape == (77,)
    assert ids.dtype == np.int32
    assert (ids[0], ids[-1]) == (ours.start, ours.end)
    assert len(set(ids[1:-1])) == 1


@pytest.mark.parametrize(("variant", "pad"), [("sd15", END), ("sd21", "!"), ("added", END)])
def test_the_pad_token_is_the_checkpoint_s(variant: str, pad: str) -> None:
    ours, _ = both(variant)
    assert ours.encode("")[2:].tolist() == [ours.vocabulary[pad]] * 75


@pytest.mark.parametrize("variant", ["sd15", "sd21"])
def test_a_folder_that_transformers_wrote_reads_the_same(variant: str, tmp_path: Path) -> None:
    ours, theirs = both(variant)
    theirs.save_pretrained(tmp_path)
    again = open_tokenizer(tmp_path)
    for text in ["The quick fox!", f"a{END.upper()}b {START}", "naïve CAFÉ"]:
        assert again.encode(text).tolist() == ours.encode(text).tolist()


@pytest.mark.parametrize("whole", [False, True])
def test_tokens_that_earlier_versions_of_transformers_added(whole: bool, tmp_path: Path) -> None:
    """A textual inversion's are matched after lower-casing, and special ones as they are."""
    from transformers import CLIPTokenizer

    folder = write_tokenizer(tmp_path)
    if whole:
        CLIPTokenizer.from_pretrained(folder).save_pretrained(folder)
    config = folder / "tokenizer_config.json"
    special = {"additional_special_tokens": ["<New>", "<Old>"]}
    config.write_text(json.dumps(json.loads(config.read_text()) | special))
    size = len(json.loads((folder / "vocab.json").read_text()))
    tokens = ["<Cat-Toy>", "<New>", "sks", "<Old>"]
    (folder / "added_tokens.json").write_text(json.dumps({t: size + i for i, t in enumerate(tokens)}))
    ours, theirs = open_tokenizer(folder), CLIPTokenizer.from_pretrained(folder)
    assert ours.ids("a <cat-TOY> SKS<New>") == [*ours.ids("a")[:-1], size, size + 2, size + 1, ours.end]
    for text in ["<New> <new> <Old><OLD>", f"x<cat-toy>sks {END}", "a cat-toy"]:
        assert ours.ids(text) == theirs(text)["input_ids"]


def test_white_space_and_case_are_made_one() -> None:
    assert normalize(" Ä\t\n B\u00a0\u3000ΑΣ ") == " ä b ας ".replace("ς", "σ")


def test_the_earliest_merge_goes_first() -> None:
    ranks = {("b", "c"): 0, ("a", "b"): 1, ("a", "bc"): 2}
    assert merge(["a", "b", "c", "a", "b"], ranks) == ["abc", "ab"]
    assert merge(["a", "a", "a"], {("a", "a"): 0}) == ["aa", "a"]


@pytest.mark.parametrize(
    ("spelled", "normalized"),
    [("!", False), ({"content": "!"}, True), ({"content": "!", "special": True}, False)],
)
def test_a_special_token_reads_as_transformers_spells_it(
    spelled: object, normalized: bool, tmp_path: Path
) -> None:
    folder = write_tokenizer(tmp_path, {"pad_token": spelled})
    assert read_files(Held.of(folder)).named["pad_token"] == Special("!", normalized=normalized)


def test_refuses_a_missing_or_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"cannot read .*vocab\.json"):
        open_tokenizer(tmp_path)
    folder = write_tokenizer(tmp_path / "tokenizer")
    (folder / "vocab.json").write_text('{"a": 1')
    with pytest.raises(BadBundle, match=r"vocab\.json is not JSON"):
        open_tokenizer(folder)
    (folder / "vocab.json").write_text("[]")
    with pytest.raises(BadBundle, match=r"vocab\.json holds a JSON list; it should hold an object"):
        open_tokenizer(folder)


def test_refuses_a_tokenizer_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
    with pytest.raises(BadBundle, match="holds no BPE model"):
        open_tokenizer(tmp_path)


@pytest.mark.parametrize("key", ["padding_side", "truncation_side"])
def test_refuses_padding_and_cuts_on_the_left(key: str, tmp_path: Path) -> None:
    from transformers import CLIPTokenizer

    left, right = (write_tokenizer(tmp_path / side, {**SD15, key: side}) for side in ("left", "right"))
    text = {"padding_side": "a dog", "truncation_side": f"a {'dog ' * 80}"}[key]
    ids = [
        CLIPTokenizer.from_pretrained(folder)(text, padding="max_length", truncation=True)["input_ids"]
        for folder in (left, right)
    ]
    assert open_tokenizer(right).encode(text).tolist() == ids[1] != ids[0]
    with pytest.raises(BadBundle, match=f"{key} is 'left'; only 'right' is supported"):
        open_tokenizer(left)


def test_refuses_a_merge_of_one_symbol(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    with (folder / "merges.txt").open("a") as merges:
        merges.write("lonely\n")
    with pytest.raises(BadBundle, match="'lonely'; each line should be two symbols"):
        open_tokenizer(folder)


def test_refuses_a_special_token_outside_the_vocabulary(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, SD15 | {"pad_token": "[PAD]"})
    with pytest.raises(BadBundle, match=r"special token '\[PAD\]' that its vocabulary lacks"):
        open_tokenizer(folder)


def test_a_symbol_outside_the_vocabulary_becomes_the_unknown_token(tmp_path: Path) -> None:
    from transformers import CLIPTokenizer

    folder = write_tokenizer(tmp_path)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    del vocabulary["ð"]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    ours, theirs = open_tokenizer(folder), CLIPTokenizer.from_pretrained(folder)
    assert ours.ids("🦊 fox") == theirs("🦊 fox")["input_ids"]
    assert ours.ids("🦊")[1] == ours.unknown
