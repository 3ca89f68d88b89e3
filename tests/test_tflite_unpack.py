"""Unpacking is what the schema's own object API does, to the bit, for whatever it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.graph.tflite.read import DAMAGE
from msd.graph.tflite.unpack import unpack_model
from tests import varied_models
from tests.test_tflite_read import VICTIMS


def by_the_schema(content: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def require_same(ours: Any, theirs: Any, where: str = "model") -> None:
    """Fail for objects of the schema that differ in a type or a value, naming the place."""
    assert type(ours) is type(theirs), f"{where}: {ours!r} is not {theirs!r}"
    if isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes()), where
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            require_same(*pair, f"{where}[{number}]")
    elif hasattr(ours, "__dict__"):
        assert vars(ours).keys() == vars(theirs).keys(), where
        for name, value in vars(ours).items():
            require_same(value, getattr(theirs, name), f"{where}.{name}")
    else:
        assert repr(ours) == repr(theirs), where


@pytest.mark.parametrize("name", varied_models.MODELS)
def test_files_of_many_kinds(name: str) -> None:
    content = varied_models.model(name)
    require_same(unpack_model(content), by_the_schema(content))


@pytest.mark.parametrize("component", ["text_encoder", "unet", "vae_decoder"])
def test_converted_files(demo_float: Path, component: str) -> None:
    content = (demo_float / f"{component}.tflite").read_bytes()
    require_same(unpack_model(content), by_the_schema(content))


@pytest.mark.timeout(120)
@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(VICTIMS))
def test_damaged_files_that_are_accepted(data: st.DataObject, name: str) -> None:
    content = bytearray(varied_models.model(name))
    flips = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(flips, min_size=1, max_size=4)):
        content[at] = value
    try:
        ours = unpack_model(bytes(content))
    except DAMAGE:
        return
    require_same(ours, by_the_schema(bytes(content)))


def test_vectors_of_numbers_are_views_of_the_file() -> None:
    content = varied_models.model("conv_float16")
    data = next(b.data for b in unpack_model(content).buffers if b.data is not None and len(b.data) > 16)
    assert np.shares_memory(data, np.frombuffer(content, np.uint8))


def test_a_layout_before_the_file_is_refused() -> None:
    content = bytearray(varied_models.model("to_scalar"))
    root = int.from_bytes(content[:4], "little")
    content[root : root + 4] = (root + 1).to_bytes(4, "little")
    with pytest.raises(ValueError, match="a table's layout lies before its beginning"):
        unpack_model(bytes(content))


def test_a_layout_of_odd_length_is_refused() -> None:
    """Readers that round it up and down find other fields."""
    content = bytearray(varied_models.model("to_scalar"))
    root = int.from_bytes(content[:4], "little")
    layout = root - int.from_bytes(content[root : root + 4], "little", signed=True)
    content[layout] -= 1
    with pytest.raises(ValueError, match="a table's layout ends in the middle of a field"):
        unpack_model(bytes(content))
