"""torch's own files open to torch's own numbers; no other pickle does anything but be refused."""

from __future__ import annotations

import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.conversion.sources.pickled import read_contents
from msd.conversion.sources.pickled.archive import LONGEST_DIRECTORY, LONGEST_ENTRY_IN_MEMORY
from msd.conversion.sources.stored import StoredFile, stamp_of
from msd.errors import BadCheckpoint
from tests.pickles import archive, refuse, require_same, saved

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.uint16,
]  # fmt: skip


VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t,
    lambda t: t.flatten()[3:],
    lambda t: t.transpose(0, -1),
    lambda t: t[..., ::2],
    lambda t: t[-1:],
    lambda t: t.flatten()[:0],
    lambda t: t.flatten()[-1],
]


@settings(max_examples=60)
@given(
    described=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "state_dict"),
        st.tuples(
            st.sampled_from(DTYPES),
            st.lists(st.integers(2, 4), min_size=1, max_size=4),
            st.sampled_from(VIEWS),
        ),
        max_size=4,
    ),
    protocol=st.integers(2, 5),
    wrapped=st.booleans(),
    zipped=st.booleans(),
)
def test_agrees_with_torch(
    described: dict[str, Any],
    protocol: int,
    wrapped: bool,
    zipped: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tensors = {
        name: view((torch.randn(shape) * 9).to(dtype)) for name, (dtype, shape, view) in described.items()
    }
    path = tmp_path_factory.mktemp("any") / "any.ckpt"
    options = {"pickle_protocol": protocol} if zipped else {"_use_new_zipfile_serialization": False}
    saved(path, {"state_dict": tensors, "epoch": 3} if wrapped else tensors, **options)
    require_same(path, tensors)


def test_tensors_may_share_a_storage(tmp_path: Path) -> None:
    whole = torch.randn(6, 5)
    tensors = {"whole": whole, "row": whole[2], "column": whole[:, 3], "again": whole}
    path = saved(tmp_path / "a.ckpt", OrderedDict(tensors))
    with zipfile.ZipFile(path) as archive:
        assert sum("/data/" in name for name in archive.namelist()) == 1
    require_same(path, tensors)


def test_a_tensor_whose_sign_torch_turns_when_it_reads(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.ckpt", {"a": torch._neg_view(torch.ones(3))})
    assert torch.load(path)["a"].tolist() == [-1, -1, -1]
    refuse(path, "a is the negative of what is stored, as torch marks it; save its clone")


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """What Lightning's class is to a pickle: a name."""
    name = "pytorch_lightning.callbacks.model_checkpoint"
    made = type("ModelCheckpoint", (), {"__module__": name})
    for module in (name, name.rpartition(".")[0], "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(ModelCheckpoint=made))
    return made


def test_what_trainers_keep_beside(callback: type[Any], tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    beside = {
        "epoch": 1,
        "global_step": 875000,
        "loss": np.float64(0.5),
        "callbacks": {callback: {"best_model_score": torch.tensor(0.1), "best_model_path": "x"}},
        "array": np.arange(3),
        "optimizer_states": [optimizer.state_dict()],
        "hyper": {"lr": 1e-4, "betas": (0.9, None), "ema": True, "size": torch.Size([3])},
    }
    path = tmp_path / "a.ckpt"
    saved(path, {**beside, "state_dict": module.state_dict()})
    require_same(path, dict(module.state_dict()))
    assert read_contents(path).metadata == {"global_step": "875000"}
    saved(path, {"state_dict": dict(module.named_parameters())})
    require_same(path, dict(module.state_dict()))


def test_without_checksums(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        path = saved(tmp_path / "a.ckpt", {"a": torch.arange(5.0)})
    finally:
        torch.serialization.set_crc32_options(True)
    require_same(path, {"a": torch.arange(5.0)})


def test_only_the_pickle_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.ckpt", {"a": torch.ones(1 << 16), "b": torch.ones(3)})
    data = bytearray(path.read_bytes())
    data[data.index(np.float32(1).tobytes() * 9)] ^= 1
    path.write_bytes(data)
    found = read_contents(path).tensors
    np.testing.assert_array_equal(found["b"].load(), np.ones(3))
    with pytest.raises(BadCheckpoint, match="its a/data/0 is damaged: its checksum is not that"):
        found["a"].load()


def test_a_file_that_changes_while_it_is_open(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.ckpt", {"a": torch.ones(3)})
    weights = read_contents(path).tensors["a"]
    saved(path, {"a": torch.zeros(4)})
    with pytest.raises(BadCheckpoint, match="it has changed since it was opened"):
        weights.load()


def test_files_that_are_no_zip_of_torchs(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(b"")
    refuse(path, "it is not a complete zip file")
    refuse(tmp_path / "none.ckpt", "it cannot be read (No such file or directory)")
    refuse(tmp_path, "it cannot be read (Is a directory)")
    for other in ("x/other", "x/"):
        archive(path, {other: b""})
        refuse(path, "torch wrote nothing in this zip file; unpack it")
        archive(path, {other: b"", "x/version": b"3"})
        refuse(path, "it has no entry data.pkl")
    archive(path, {"x/data.pkl": b""}, zipfile.ZIP_DEFLATED)
    refuse(path, "its x/data.pkl is compressed or encrypted, which torch.save never does")
    archive(path, {"x/data.pkl": b"", "y/data.pkl": b""})
    refuse(path, "two of its entries have the same name")
    archive(path, {"x/data.pkl": pickle.dumps({}), "x/byteorder": b"big"})
    refuse(path, "its numbers are big-endian, and only little-endian ones are supported")
    archive(path, {"x/data.pkl": bytes(LONGEST_ENTRY_IN_MEMORY + 1)})
    refuse(path, "its data.pkl of 33554433 bytes is larger than 33554432")


def test_a_directory_too_large_to_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.ckpt", {"x/data.pkl": b""})
    data = path.read_bytes()
    directory, end = data[data.index(b"PK\1\2") : data.index(b"PK\5\6")], data[data.index(b"PK\5\6") :]
    count = LONGEST_DIRECTORY // len(directory) + 1
    end = end[:12] + struct.pack("<I", count * len(directory)) + end[16:]
    path.write_bytes(data[: data.index(b"PK\1\2")] + directory * count + end)
    refuse(path, "its directory is larger than 8388608 bytes")


def lying(path: Path, name: bytes, at: int, *numbers: int) -> Path:
    """Write a zip file whose directory has other numbers, from byte `at` of an entry on."""
    archive(path, {"x/data.pkl": pickle.dumps({}), "x/data/0": b"12345678", "x/z": b""})
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\1\2", 0, data.rindex(name)) + at
    data[place : place + 4 * len(numbers)] = struct.pack(f"<{len(numbers)}I", *numbers)
    path.write_bytes(data)
    return path


def test_a_directory_that_lies(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    refuse(lying(path, b"x/data/0", 20, 30, 30), "its x/z overlaps the entry before it")
    refuse(lying(path, b"x/data/0", 20, 7, 8), "its x/data/0 is compressed or encrypted")
    refuse(lying(path, b"x/data.pkl", 42, 1), "its x/data.pkl is not where its directory says")
    refuse(lying(path, b"x/z", 20, 900, 900), "its x/z exceeds the end of the file")
    refuse(lying(path, b"x/z", 42, 1 << 31), "it is not a complete zip file")


def test_an_entry_without_a_name(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.ckpt", {"x": b""})
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\1\2")
    data[place + 28], data[place + 30] = 0, 1
    path.write_bytes(data)
    refuse(path, "torch wrote nothing in this zip file")


def test_an_offset_of_64_bits(tmp_path: Path) -> None:
    path, info = tmp_path / "a.ckpt", zipfile.ZipInfo("x/data.pkl")
    info.extra = struct.pack("<HHQ", 0x9999, 8, (1 << 64) - 1)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(info, b"")
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\1\2")
    data[place + 42 : place + 46] = b"\xff" * 4
    data[data.index(b"\x99\x99", place)] = 1
    data[data.index(b"\x99", place)] = 0
    path.write_bytes(data)
    refuse(path, "it is not a complete zip file (Python int too large")


def test_a_read_beyond_the_end(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.ckpt", {})
    with path.open("rb") as file:
        stored = StoredFile(path, "file", stamp_of(file))
    assert len(stored.read("a", 0, stored.size)) == stored.size
    with pytest.raises(BadCheckpoint, match="a is cut short"):
        stored.read("a", 1, stored.size)


def test_a_file_from_before_torch_1_6_that_is_damaged(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.ckpt", {"a": torch.ones(3)}, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    refuse(path, "exceeds the end of the file")
    path.write_bytes(whole.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"))
    refuse(path, "its numbers are big-endian, and only little-endian ones are supported")
    path.write_bytes(whole.replace(b"FloatStorage", b"QuIntStorage"))
    refuse(
        path, "of its pickles, it names 'torch.QuIntStorage', which no checkpoint needs; it is not executed"
    )
    path.write_bytes(whole[:200])
    refuse(path, "of its pickles, it is damaged")


WRAPPED: dict[str, Any] = {
    "a parameter": torch.nn.Parameter(torch.arange(4.0)),
    "a tensor with an attribute": torch.arange(4.0),
    "a model": {"model": {"a": torch.arange(4.0)}, "epoch": 3},
    "an optimizer beside it": {"model": {"a": torch.arange(4.0)}, "optimizer": {"state": {0: torch.ones(9)}}},
    "parameters": torch.nn.ParameterDict({"a": torch.nn.Parameter(torch.arange(4.0))}),
}
WRAPPED["a tensor with an attribute"].note = 3


@pytest.mark.parametrize("name", WRAPPED)
def test_tensors_inside_of_something(name: str, tmp_path: Path) -> None:
    value = {"a": WRAPPED[name]} if isinstance(WRAPPED[name], torch.Tensor) else WRAPPED[name]
    require_same(saved(tmp_path / "a.ckpt", value), {"a": torch.arange(4.0)})
