"""What a model takes and gives, and the inputs drawn for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.ir.float_weights import dequantize_weights
from msd.graph.ir.interface import Interface, compared_ids
from msd.run.runners.random_inputs import SMALL_INTEGERS, random_inputs
from msd.tensor_spec import TensorSpec
from tests import edited_models, tiny_models
from tests.harness import Ints, build


def ports(path: Path) -> Interface:
    return Interface.of(tflite.read(path), path)


def test_ports_and_signature(tmp_path: Path) -> None:
    found = ports(tiny_models.save("two_by_two", tmp_path))
    assert found.inputs == {
        "x0": TensorSpec("x0", (1, 9, 7, 4), "float32", "NHWC"),
        "x1": TensorSpec("x1", (1, 1, 1, 4), "float32", "NHWC"),
    }
    shapes = {name: port.shape for name, port in found.outputs.items()}
    assert shapes == {"a": (1, 9, 7, 4), "b": (1, 9, 7, 8)}
    assert found.signature == "serving_default"


def test_without_a_signature_tensors_name_the_ports(tmp_path: Path) -> None:
    path = tmp_path / "plain.tflite"
    path.write_bytes(edited_models.without_signature("two_by_two"))
    found = ports(path)
    assert found.signature is None
    assert set(found.inputs) == {"serving_default_x0:0", "serving_default_x1:0"}


def test_an_integer_input_knows_the_table_it_looks_up(tmp_path: Path) -> None:
    path = tiny_models.save("tokens", tmp_path)
    assert ports(path).inputs == {"x0": TensorSpec("x0", (6,), "int32", "NT", 23)}
    path.write_bytes(edited_models.lookup(scales=23))
    assert ports(path).inputs["x0"].table_length == 23


@pytest.mark.parametrize("turned", [False, True])
def test_an_input_knows_the_id_that_it_is_compared_with(turned: bool) -> None:
    def ends(new: Build, ids: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        operands = [ids, new.const(np.array(7, np.int32))]
        return new.EQUAL(*(reversed(operands) if turned else operands)), new.EQUAL(other, ids)

    graph = build(ends, ids=Ints((2, 5)), other=Ints((2, 5)))
    assert compared_ids(Model([graph])) == {"ids": 7}


def test_an_input_that_holds_no_numbers_is_refused() -> None:
    words = Tensor("words", (3,), "STRING")
    with pytest.raises(BadModelFile, match=r"m\.tflite has words of type STRING; only numeric tensors"):
        Interface.of(Model([Graph([words])]), Path("m.tflite"))


@settings(max_examples=200)
@given(
    st.sampled_from(["loop", "tokens", "conv_int8", "composite"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=9),
)
def test_a_damaged_model_is_understood_or_refused(name: str, flips: list[tuple[float, int]]) -> None:
    content = bytearray(edited_models.composite("whole") if name == "composite" else tiny_models.model(name))
    for at, value in flips:
        content[int(at * len(content))] = value
    with suppress(BadModelFile):
        model = tflite.parse(bytes(content))
        ports = Interface.of(model, Path("m.tflite"))
        assert all(port.table_length is None or port.table_length > 0 for port in ports.inputs.values())
        executed_graphs(model)
        dequantize_weights(model)


@given(
    st.lists(st.integers(1, 5), max_size=3),
    st.sampled_from(["float32", "float16", "int64", "int32", "int8", "uint8", "bool"]),
    st.none() | st.integers(1, 40),
    st.integers(0, 9),
)
def test_inputs_fit_their_port(shape: list[int], dtype: str, rows: int | None, seed: int) -> None:
    port = TensorSpec("x", tuple(shape), dtype, table_length=rows)
    value, again = (random_inputs([port], seed)["x"] for _ in range(2))
    assert (value.shape, value.dtype.name) == (port.shape, dtype)
    np.testing.assert_array_equal(value, again)
    if dtype in ("int32", "int64"):
        assert ((value >= 0) & (value < (rows or SMALL_INTEGERS))).all()


@pytest.mark.parametrize(("end", "rows", "expected"), [(7, 9, 7), (7, None, 7), (9, 9, None), (-1, 9, None)])
def test_ids_end_in_what_they_are_compared_with(end: int, rows: int | None, expected: int | None) -> None:
    port = TensorSpec("x", (2, 5), "int32", table_length=rows)
    plain, ended = random_inputs([port])["x"], random_inputs([port], compared={"x": end})["x"]
    np.testing.assert_array_equal(ended[:, :-1], plain[:, :-1])
    np.testing.assert_array_equal(ended[:, -1], plain[:, -1] if expected is None else expected)


def test_float_inputs_are_standard_normal() -> None:
    value = random_inputs([TensorSpec("x", (100, 100), "float32")])["x"].astype(np.float64)
    assert abs(value.mean()) < 0.05
    assert abs(value.std() - 1) < 0.05


def test_seeds_and_ports_differ() -> None:
    ports = [TensorSpec("x", (3,), "float32"), TensorSpec("y", (3,), "float32")]
    first, second = random_inputs(ports, 0), random_inputs(ports, 1)
    assert not np.array_equal(first["x"], second["x"])
    assert not np.array_equal(first["x"], first["y"])
