import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from scripts.lab.demo_training import data
from scripts.lab.demo_training.vocabulary import END, LENGTH, START, byte_letters, grow, write
from tests.late import transformers


@pytest.fixture(scope="module")
def shipped():
    return transformers.CLIPTokenizer.from_pretrained(CHECKPOINT / "tokenizer")


def test_bytes_come_in_clips_order():
    letters = byte_letters()
    assert len(set(letters)) == 256
    assert letters[:3] == ["!", '"', "#"]
    assert letters.index("Ġ") == 220  # CLIP's own vocab.json says so of the space


def test_frequent_pairs_merge_first_and_every_word_becomes_one_token():
    grown = grow(["aab aab ab", "c"])
    assert grown.merges == (("a", "b</w>"), ("a", "ab</w>"))
    assert len(grown.tokens) == 512 + 2 + 2
    assert grown.tokens[-4:] == ("ab</w>", "aab</w>", START, END)


def test_a_written_vocabulary_is_what_transformers_reads(tmp_path):
    write(grow(["red red circle"]), tmp_path)
    read = transformers.CLIPTokenizer.from_pretrained(tmp_path)
    assert read.convert_ids_to_tokens(read("Red circle")["input_ids"]) == [
        START,
        "red</w>",
        "circle</w>",
        END,
    ]
    assert read.pad_token_id == 0


def test_the_shipped_vocabulary_is_the_one_training_grows(tmp_path):
    write(data.vocabulary(), tmp_path)
    for name in ("vocab.json", "merges.txt", "special_tokens_map.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (CHECKPOINT / "tokenizer" / name).read_bytes()


def test_every_word_of_a_held_back_caption_is_one_token(shipped):
    for text in captions("held-back", 300, seed=1):
        assert len(shipped(text)["input_ids"]) == 2 + len(text.replace(",", " ,").split())


@given(st.text(max_size=60))
def test_any_text_becomes_known_tokens_of_one_length(shipped, text):
    ids = shipped(text, padding="max_length", max_length=LENGTH, truncation=True)["input_ids"]
    assert len(ids) == LENGTH
    assert ids[0] == shipped.bos_token_id
    assert shipped.unk_token_id not in ids[1 : ids.index(shipped.eos_token_id)]


@given(st.text(alphabet="abcxyz àéßøдж漢字한😀0189.,?", max_size=20))
def test_nothing_but_spaces_and_capitals_is_lost(shipped, text):
    ids = shipped(text)["input_ids"]
    assert shipped.decode(ids, skip_special_tokens=True).replace(" ", "") == text.replace(" ", "")


def test_an_exclamation_mark_is_padding_as_in_stable_diffusion_2_1(shipped):
    assert shipped("star!")["input_ids"][2] == shipped.pad_token_id == 0
