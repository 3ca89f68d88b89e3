"""Our reader of safetensors agrees with the reference library, and refuses damaged files in a sentence."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from msd.conversion.sources.safetensors import read_contents
from msd.errors import BadCheckpoint

FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip
OTHERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.bool]
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__")
TENSORS = st.dictionaries(
    NAMES, st.tuples(st.sampled_from(FLOATS + OTHERS), st.lists(st.integers(0, 5), max_size=4)), max_size=5
)


@given(described=TENSORS, metadata=st.dictionaries(st.text(max_size=4), st.text(max_size=4)))
def test_agrees_with_the_reference(
    described: dict[str, tuple[torch.dtype, list[int]]],
    metadata: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.safetensors"
    tensors = {name: (torch.randn(shape) * 9).to(dtype) for name, (dtype, shape) in described.items()}
    # Of no tensors and no metadata the reference makes a file that it cannot read itself.
    save_file(tensors, path, metadata or None)
    found = read_contents(path).tensors
    with safe_open(path, "pt") as reference:
        assert found.keys() == set(reference.keys())
        for name, weights in found.items():
            wanted = reference.get_tensor(name)
            wanted = wanted.float() if wanted.is_floating_point() else wanted
            assert weights.dtype == weights.load().dtype == wanted.numpy().dtype
            assert weights.shape == tuple(wanted.shape)
            np.testing.assert_array_equal(weights.load(), wanted.numpy())


def test_only_the_header_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    elements = 1 << 38
    write(path, {"a": entry(shape=(elements,), offsets=(0, 4 * elements))}, b"")
    os.truncate(path, path.stat().st_size + 4 * elements)
    (weights,) = read_contents(path).tensors.values()
    assert (weights.size, weights.history) == (elements, "a.safetensors:a")


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def write(path: Path, header: Any, data: bytes = bytes(8), length: int | None = None) -> Path:
    """Write a file with any header, and any length for it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


REFUSED: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{'a': 1}", "header is not JSON"),
    "not UTF-8": (b'{"\xff": 1}', "header is not JSON"),
    "deep": (b'{"a":' + b"[" * 100_000, "header is not JSON"),
    "long number": (b'{"a":' + b"9" * 5000 + b"}", "header is not JSON"),
    "a list": ([], "header is not a JSON object"),
    "twice": (b'{"a": 1, "a": 2}', "its header names a twice"),
    "not an entry": ({"a": 3}, "entry for a lacks a dtype"),
    "three offsets": ({"a": entry(offsets=(0, 4, 8))}, "entry for a lacks a dtype"),
    "unknown dtype": ({"a": entry("F4", (16,))}, "a has the dtype F4, and only F64, F32"),
    "negative shape": ({"a": entry(shape=(-2,))}, "not integers from 0"),
    "fraction": ({"a": entry(shape=(2.0,))}, "not integers from 0"),
    "truth": ({"a": entry(shape=(True, 2))}, "not integers from 0"),
    "negative offset": ({"a": entry(offsets=(-8, 0))}, "not integers from 0"),
    "backwards": ({"a": entry(offsets=(8, 0))}, "a lies at bytes 8 to 0 of the 8"),
    "beyond the end": ({"a": entry(offsets=(0, 16), shape=(4,))}, "a lies at bytes 0 to 16 of the 8"),
    "too many bytes": ({"a": entry(shape=(1,))}, r"a has 8 bytes where F32 \[1\] needs 4"),
    "too few bytes": ({"a": entry(shape=(1 << 40, 1 << 40))}, "a has 8 bytes where F32"),
    "overlap": (
        {"a": entry(), "b": entry(shape=(1,), offsets=(4, 8))},
        "b at byte 4 overlaps the tensor before it, which ends at 8",
    ),
    "gap": ({"b": entry(shape=(1,), offsets=(4, 8))}, "b at byte 4 comes after a gap, which ends at 0"),
    "left over": ({"a": entry(shape=(1,), offsets=(0, 4))}, "its tensors end at byte 4 of 8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path) -> None:
    header, message = REFUSED[case]
    path = write(tmp_path / "bad.safetensors", header)
    with pytest.raises(BadCheckpoint, match=message) as refused:
        read_contents(path)
    assert str(refused.value).startswith(f"{path} is not a readable safetensors file: ")


@pytest.mark.parametrize("length", [1 << 63, 100_000_001, 300])
def test_an_absurd_header_length_is_refused(length: int, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.safetensors", {"a": entry()}, length=length)
    with pytest.raises(BadCheckpoint, match=f"its header of {length} bytes does not fit"):
        read_contents(path)


@given(data=st.data())
def test_a_file_cut_short_is_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cut") / "cut.safetensors"
    save_file({"a": torch.zeros(3, 2), "b": torch.ones(4)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(BadCheckpoint):
        read_contents(path)


@given(noise=st.binary(max_size=60), place=st.integers(0, 80))
def test_any_bytes_are_read_or_refused(
    noise: bytes, place: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("noise") / "noise.safetensors"
    save_file({"a": torch.zeros(3, 2), "b": torch.ones(4)}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + noise + whole[place + len(noise) :])
    try:
        for weights in read_contents(path).tensors.values():
            assert weights.load().shape == weights.shape
    except BadCheckpoint:
        pass


def test_a_file_that_changes_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.zeros(3)}, path)
    weights = read_contents(path).tensors["a"]
    save_file({"b": torch.zeros(2), "a": torch.zeros(3)}, path)
    with pytest.raises(BadCheckpoint, match="it has changed since it was opened"):
        weights.load()
    path.unlink()
    with pytest.raises(BadCheckpoint, match="a cannot be read"):
        weights.load()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"it cannot be read \(No such file"):
        read_contents(tmp_path / "none.safetensors")
