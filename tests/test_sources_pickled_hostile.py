"""A pickle that is no checkpoint does nothing but be refused; a damaged one is right or refused."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.conversion.sources.pickled import read_contents
from msd.errors import BadCheckpoint
from tests.pickles import archive, load_all, refuse, require_same, saved


def global_(name: str) -> bytes:
    return b"c" + name.replace(" ", "\n").encode() + b"\n"


def calling(name: str) -> bytes:
    """A pickle whose state_dict is what a call returns."""
    return b"\x80\x02" + global_(name) + b"X\x08\x00\x00\x00touch /x\x85R."


class Executes:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.made = function, arguments

    def __reduce__(self) -> Any:
        return self.made


EVIL = {
    "os.system": pickle.dumps({"a": Executes(os.system, "touch executed")}, 2),
    "builtins.eval": pickle.dumps({"a": Executes(eval, "1")}, 4),
    "builtins.getattr": pickle.dumps(Executes(getattr, OrderedDict(), "clear"), 4),
    "a call of a call": pickle.dumps(Executes(OrderedDict, Executes(os.system, "touch executed")), 2),
    "torch.load": calling("torch load"),
    "a dotted name": b"\x80\x04\x8c\x0bcollections\x8c\x0fOrderedDict.pop\x93.",
    "a name of blanks": b"\x80\x02ctorch FloatStorage\n\n.",
    "extension": b"\x80\x02\x82\x01.",
    "extension 2": b"\x80\x02\x83\x01\x00.",
    "extension 4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "persistent text": b"Pos.system\n.",
    "inst": b"(ios\nsystem\n.",
    "obj": b"(" + global_("os system") + b"o.",
    "newobj_ex": global_("collections OrderedDict") + b")}\x92.",
    "build on a global": global_("collections OrderedDict") + b"}b.",
    "build on nothing": b"}b.",
    "call of a text": b"X\x01\x00\x00\x00a)R.",
    "call with a list": global_("collections OrderedDict") + b"]R.",
    "key that is a tuple": b"})\x85Ns.",
    "set on a list": b"]NNs.",
    "append to a dictionary": b"}Na.",
    "a key alone": b"}(Nu.",
    "no mark": b"}u.",
    "never remembered": b"h\x07.",
    "memo of nothing": b"q\x07.",
    "two values": b"NN.",
    "no value": b".",
    "a mark left": b"(N.",
    "global of numbers": b"K\x01K\x02\x93.",
    "an enormous number": b"\x8b" + struct.pack("<i", 40) + b"\x7f" * 40 + b".",
    "no end": b"N",
    "no text": b"X\x04\x00\x00\x00\xff\xff\xff\xff.",
    "a list": b"].",
    "a list as state_dict": pickle.dumps({"state_dict": []}, 2),
    "a tensor of nothing": pickle.dumps({"a": Executes(torch._utils._rebuild_tensor_v2)}, 2),
    "a parameter of nothing": pickle.dumps({"a": Executes(torch._utils._rebuild_parameter)}, 2),
}


@pytest.mark.parametrize("name", EVIL)
def test_nothing_is_executed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path / "a.ckpt", {"x/data.pkl": EVIL[name]})
    with pytest.raises(
        BadCheckpoint, match=r"is not a readable torch checkpoint: of its data\.pkl, "
    ) as caught:
        read_contents(path)
    assert len(str(caught.value).splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]


def test_the_global_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.ckpt", {"x/data.pkl": EVIL["os.system"]})
    refuse(path, f"it names '{os.system.__module__}.system', which no checkpoint needs; it is not executed")
    path = archive(path, {"x/data.pkl": EVIL["extension"]})
    refuse(path, "it uses EXT1, which no checkpoint needs")


def test_bombs_stay_small(tmp_path: Path) -> None:
    deep = b"]" * 300_000 + b"a" * 299_999 + b"."
    doubled = b"]" + b"q\x00h\x00\x86" * 200_000 + b"."
    memo = b"N" + b"r\xff\xff\xff\xff" + b"."
    for bomb in (deep, doubled, memo):
        refuse(archive(tmp_path / "a.ckpt", {"x/data.pkl": bomb}), "not a dictionary of tensors")
    refuse(archive(tmp_path / "a.ckpt", {"x/data.pkl": b"N0" * 1_000_001 + b"."}), "it uses POP")
    endless = b"]" + b"Na" * 1_000_001 + b"."
    refuse(archive(tmp_path / "a.ckpt", {"x/data.pkl": endless}), "it has more than 2000000 opcodes")


class Storage:
    def __init__(self, *id: Any) -> None:
        self.id = id


def pickled(**values: Any) -> bytes:
    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return value.id if isinstance(value, Storage) else None

    text = io.BytesIO()
    Pickler(text, 2).dump(values)
    return text.getvalue()


def tensor(
    shape: Any = (3,), strides: Any = (1,), offset: Any = 0, stored: Any = 4, kind: Any = torch.FloatStorage
) -> bytes:
    """A pickle of one tensor "a" in the storage data/0, which may lie."""
    storage = Storage("storage", kind, "0", "cpu", stored)
    return pickled(a=Executes(torch._utils._rebuild_tensor_v2, storage, offset, shape, strides, False, None))


LIES = [
    ({"stored": 400}, "a needs a storage of 1600 bytes; x/data/0 has 16"),
    ({"stored": 3}, "a needs a storage of 12 bytes; x/data/0 has 16"),
    ({"stored": -4}, "not 8 integers from 0"),
    ({"stored": True}, "not 8 integers from 0"),
    ({"shape": (5,)}, "a has [5] elements from 0 on, but its storage holds 4"),
    ({"shape": (2, 3), "strides": (0, 1)}, "a has [2, 3] elements from 0 on"),
    ({"strides": (2,)}, "a has [3] elements from 0 on"),
    ({"offset": 2}, "a has [3] elements from 2 on"),
    ({"offset": -1}, "not 8 integers from 0"),
    ({"strides": (-1,)}, "not 8 integers from 0"),
    ({"shape": (1.0,)}, "not 8 integers from 0"),
    ({"shape": (2**62, 2**62), "strides": (0, 0)}, "elements from 0 on"),
    ({"shape": (2**62, 0), "strides": (1, 1), "offset": 5}, "elements from 5 on"),
    ({"shape": (1,) * 9, "strides": (1,) * 9}, "not 8 integers from 0"),
    ({"shape": (3, 1)}, "a has a shape and strides that do not fit each other"),
    ({"shape": [3]}, "a has a shape and strides that do not fit each other"),
    ({"kind": torch.Size}, "a is of the type torch.Size, which is not supported"),
    ({"kind": "FloatStorage"}, "a is a tensor without a storage, an offset, a shape or strides"),
]


@pytest.mark.parametrize(("lie", "message"), LIES)
def test_lies_about_a_storage(lie: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = archive(
        tmp_path / "a.ckpt", {"x/data.pkl": tensor(), "x/data/0": np.arange(4.0, dtype="f4").tobytes()}
    )
    require_same(path, {"a": torch.arange(3.0)})
    archive(path, {"x/data.pkl": tensor(**lie), "x/data/0": bytes(16)})
    refuse(path, message)
    refuse(archive(path, {"x/data.pkl": tensor()}), "it has no entry data/0")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, dict[str, torch.Tensor]]:
    """A file, its pickle, and what is in it."""
    tensors = {"a": torch.randn(3, 5).half(), "b": torch.randn(4, 2).T, "c": torch.arange(7)}
    path = saved(tmp_path_factory.mktemp("good") / "a.ckpt", {"state_dict": tensors, "global_step": 7})
    with zipfile.ZipFile(path) as file:
        text = file.read("a/data.pkl")
    return path.read_bytes(), text, tensors


MUTATIONS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
)


def mutated(data: bytes, mutations: list[tuple[float, int]], cut: float) -> bytes:
    changed = bytearray(data)
    for place, value in mutations:
        changed[int(place * len(data))] = value
    return bytes(changed[: round(len(data) * cut)])


@settings(max_examples=400)
@given(mutations=MUTATIONS, cut=st.sampled_from([1.0, 1.0, 1.0, 0.99, 0.5, 0.01]))
def test_a_damaged_file_is_right_or_refused(
    mutations: list[tuple[float, int]], cut: float, good: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.ckpt"
    path.write_bytes(mutated(good[0], mutations, cut))
    try:
        found = load_all(path)
    except BadCheckpoint:
        return
    assert found.keys() == good[2].keys()
    for name, wanted in good[2].items():
        wanted = wanted.float() if wanted.is_floating_point() else wanted
        np.testing.assert_array_equal(found[name], wanted.numpy())


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@settings(max_examples=1000)
@given(mutations=MUTATIONS, cut=st.sampled_from([1.0, 1.0, 0.9, 0.5]))
def test_a_damaged_pickle_makes_arrays_or_is_refused(
    mutations: list[tuple[float, int]], cut: float, good: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "pickle.ckpt"
    with zipfile.ZipFile(io.BytesIO(good[0])) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    archive(path, {**entries, "a/data.pkl": mutated(good[1], mutations, cut)})
    try:
        for weights in read_contents(path).tensors.values():
            array = weights.load()
            assert (array.shape, array.dtype) == (weights.shape, weights.dtype)
    except BadCheckpoint:
        return


@settings(max_examples=500)
@given(seed=st.integers(0, 2**32))
def test_opcodes_in_any_order_are_refused_or_read(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(seed)
    parts = [
        b"N", b"(", b"]", b"}", b")", b"\x85", b"\x86", b"\x87", b"t", b"a", b"e", b"s", b"u", b"R", b"b",
        b"Q", b"q\x00", b"h\x00", b"\x94", b"K\x03", b"X\x01\x00\x00\x00a", b"\x93", b"0",
        global_("collections OrderedDict"), global_("torch FloatStorage"),
        global_("torch._utils _rebuild_tensor_v2"), b"\x8c\x05torch", b"2",
    ]  # fmt: skip
    text = b"\x80\x02" + b"".join(rng.choices(parts, k=rng.randrange(1, 40))) + b"."
    path = archive(tmp_path_factory.getbasetemp() / "opcodes.ckpt", {"x/data.pkl": text})
    try:
        assert read_contents(path).tensors == {}
    except BadCheckpoint:
        return
