"""Files that Keras's own older writer saves are read as written; anything else is refused in a sentence."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.conversion.sources import h5_index
from msd.conversion.sources.h5 import open_file
from msd.conversion.sources.stored import StoredFile
from msd.errors import BadCheckpoint
from tests.keras_cv_files import write_layers

LAYERS = {
    "input": {},
    "dense_3": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.float32([7, 8, 9])},
    "conv2d_17": {"kernel": np.arange(24, dtype=np.float32).reshape(2, 2, 3, 2) - 5},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_layers(tmp_path / "a.h5", LAYERS)
    return tmp_path / "a.h5"


def test_keras_reads_its_files_in_the_same_order(tmp_path: Path) -> None:
    import keras
    from keras.src.legacy.saving.legacy_h5_format import save_weights_to_hdf5_group

    x = keras.Input((4, 6, 2))
    y = keras.layers.Conv2D(3, 1, name="z")(x)
    y = keras.layers.BatchNormalization(name="b")(y)
    model = keras.Model(x, keras.layers.Dense(5, name="a")(y))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        save_weights_to_hdf5_group(file, model)
    found = open_file(tmp_path / "a.h5")
    assert len(found) == 8
    for weights, value in zip(found, model.weights, strict=True):
        np.testing.assert_array_equal(weights.load(), value)


@settings(max_examples=15)
@given(
    shapes=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), max_size=6),
    dtype=st.sampled_from(["<f4", ">f4", "<f2", "<f8"]),
    user_block=st.sampled_from([0, 512]),
)
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[list[int]], dtype: str, user_block: int
) -> None:
    path = tmp_path_factory.mktemp("h5") / "a.h5"
    random = np.random.default_rng(len(shapes))
    written = [random.standard_normal(shape).astype(dtype) for shape in shapes]
    write_layers(
        path, {f"layer_{i}": {"w": values} for i, values in enumerate(written)} | {"none": {}}, user_block
    )
    found = open_file(path)
    assert [w.shape for w in found] == [values.shape for values in written]
    for weights, values in zip(found, written, strict=True):
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights.load(), values.astype(np.float32))


def test_names_may_be_cut_into_several_attributes(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        names = list(file.attrs.pop("layer_names"))
        file.attrs["layer_names0"], file.attrs["layer_names1"] = names[:2], names[2:]
    assert len(open_file(path)) == 3


def test_a_whole_model_has_its_weights_in_a_group(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = file.attrs.pop("layer_names")
        for name in LAYERS:
            file.move(name, f"model_weights/{name}")
    assert len(open_file(path)) == 3


def edited(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Return what applies `change` to an open file."""

    def spoil(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return spoil


def replaced(make: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Return what puts something else in the place of dense_3's bias: what `make` does with its group."""

    def change(file: Any) -> None:
        del file["dense_3/dense_3/bias:0"]
        make(file["dense_3/dense_3"])

    return edited(change)


def in_pieces(file: Any) -> None:
    del file.attrs["layer_names"]
    for i in range(1001):
        file.attrs[f"layer_names{i}"] = [b"input"]


def external(group: Any) -> None:
    group.create_dataset("bias:0", (3,), "<f4", external=[("/etc/hostname", 0, 12)])


def virtual(group: Any) -> None:
    layout = h5py.VirtualLayout((3,), "<f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (3,))
    group.create_virtual_dataset("bias:0", layout)


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda p: p.write_bytes(b""), "a.h5 is not a readable H5 file of Keras weights"),
    "other": (lambda p: p.write_bytes(b"PK\x03\x04" * 999), "file signature not found"),
    "cut": (lambda p: os.truncate(p, p.stat().st_size - 1), "truncated file"),
    "missing": (lambda p: p.unlink(), "No such file"),
    "no layers": (edited(lambda f: f.attrs.pop("layer_names")), "it lists no layer_names"),
    "numbers": (
        edited(lambda f: f.attrs.create("layer_names", [1, 2])),
        "layer_names of / is not a list of names",
    ),
    "matrix": (
        edited(lambda f: f.attrs.create("layer_names", [[b"a"]])),
        "layer_names of / is not a list of names",
    ),
    "not unicode": (edited(lambda f: f.attrs.create("layer_names", [b"\xff\xfe"])), "utf-8"),
    "no layer": (edited(lambda f: f.pop("dense_3")), "dense_3 is listed, but not there"),
    "no weight": (replaced(lambda g: None), "dense_3/bias:0 is listed, but not there"),
    "a group": (replaced(lambda g: g.create_group("bias:0")), "is not an array of numbers"),
    "text": (replaced(lambda g: g.create_dataset("bias:0", data=["a", "b"])), "is not an array of numbers"),
    "references": (
        replaced(lambda g: g.create_dataset("bias:0", (3,), h5py.ref_dtype)),
        "is not an array of numbers",
    ),
    "a number": (replaced(lambda g: g.create_dataset("bias:0", data=1.0)), "is not an array of numbers"),
    "no values": (
        replaced(lambda g: g.create_dataset("bias:0", data=h5py.Empty("f4"))),
        "not an array of numbers",
    ),
    "a layer is an array": (
        edited(lambda f: (f.pop("dense_3"), f.create_dataset("dense_3", data=[1.0]))),
        "dense_3 is listed, but has no weight_names",
    ),
    "external link": (
        replaced(lambda g: g.__setitem__("bias:0", h5py.ExternalLink("/etc/hostname", "/x"))),
        "is a link to somewhere else",
    ),
    "soft link": (
        replaced(lambda g: g.__setitem__("bias:0", h5py.SoftLink("/dense_3/dense_3/kernel:0"))),
        "is a link to somewhere else",
    ),
    "external values": (replaced(external), "is not stored in one uncompressed piece"),
    "virtual": (replaced(virtual), "is not stored in one uncompressed piece"),
    "compressed": (
        replaced(lambda g: g.create_dataset("bias:0", data=np.zeros(3), compression="gzip")),
        "is not stored in one uncompressed piece",
    ),
    "a name of many groups": (
        edited(lambda f: f.attrs.create("layer_names", [b"a/" * 33])),
        "a/ is listed in 33 groups; there may be 32",
    ),
    "a list of many pieces": (edited(in_pieces), "the list layer_names of / has more than 1000 attributes"),
    "a bomb": (replaced(lambda g: g.create_dataset("bias:0", (1 << 50,), "<f4")), "is not stored in one"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(path: Path, case: str) -> None:
    spoil, because = REFUSED[case]
    spoil(path)
    with pytest.raises(BadCheckpoint, match=re.escape(because)):
        open_file(path)


def test_a_file_that_changed_is_refused(path: Path) -> None:
    weights = open_file(path)[0]
    os.truncate(path, 10)
    with pytest.raises(BadCheckpoint, match="it has changed since it was opened"):
        weights.load()


def test_past_the_end_is_refused(path: Path) -> None:
    """HDF5 itself sees that an array would end behind the file."""
    with h5py.File(path) as file:
        begin = file["dense_3/dense_3/bias:0"].id.get_offset()
    head, address = path.read_bytes(), begin.to_bytes(8, "little")
    assert head.count(address) == 1
    path.write_bytes(head.replace(address, (len(head) - 4).to_bytes(8, "little")))
    with pytest.raises(BadCheckpoint, match="invalid dataset size"):
        open_file(path)


@settings(max_examples=25)
@given(st.data())
def test_damage_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever bytes are changed, there is an answer: numbers of some shapes, or BadCheckpoint."""
    path = tmp_path_factory.mktemp("h5") / "a.h5"
    write_layers(path, LAYERS)
    spoilt = bytearray(path.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(spoilt) - 1), min_size=1, max_size=3)):
        spoilt[at] = data.draw(st.integers(0, 255))
    path.write_bytes(spoilt)
    try:
        values = [w.load() for w in open_file(path)]
    except BadCheckpoint:
        return
    assert sum(v.nbytes for v in values) <= 8 * len(spoilt)


def test_a_file_that_the_library_crashes_on_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(BadCheckpoint, match=r"the HDF5 library crashes on it \(exit code 1\)"):
        open_file(path)


def test_a_file_that_takes_the_library_too_long_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = tmp_path / "stopped"
    stopped.write_text("#!/bin/sh\nkill -XCPU $$\n")
    stopped.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stopped))
    with pytest.raises(BadCheckpoint, match="the HDF5 library takes too long to read it"):
        open_file(path)


def test_a_file_that_the_library_hangs_on_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msd.conversion.sources.h5.TIMEOUT", 0.001)
    with pytest.raises(BadCheckpoint, match=r"does not finish reading it in 0.001 s"):
        open_file(path)


def test_memory_is_bounded(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resource.setrlimit", lambda *limit: limits.append(limit))
        patch.setattr("h5py.File", _exhausted)
        h5_index.main(str(path))
    (memory, bytes), (processor, seconds) = limits
    assert (memory, processor) == (resource.RLIMIT_AS, resource.RLIMIT_CPU)
    assert bytes[0] > h5_index.MEMORY
    assert seconds[0] >= h5_index.SECONDS
    assert json.loads(capsys.readouterr().out) == {
        "wrong": "reading its structure takes more than 1 GiB of memory"
    }


def test_arrays_that_are_listed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h5_index, "MOST_ARRAYS", 3)
    assert [*h5_index._bounded(iter("abc"))] == [*"abc"]
    with pytest.raises(h5_index.Wrong, match="more than 3 arrays"):
        [*h5_index._bounded(iter("abcd"))]


def test_what_lies_past_the_end_takes_no_memory(path: Path) -> None:
    stored = StoredFile(path, "file", (0, 0, path.stat().st_size, 0))
    with pytest.raises(BadCheckpoint, match="x is cut short"):
        stored.read("x", 8, 1 << 62)


def _exhausted(*args: Any, **settings: Any) -> Any:
    raise MemoryError
