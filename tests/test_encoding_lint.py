"""What a recipe's delegate would refuse or get wrong is not written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.compress.encoding.compatibility import require_supported
from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import Line, Recipe
from msd.conversion.convert import Settings, convert
from msd.errors import BadConfig
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Weights
from msd.models.demo import CHECKPOINT
from tests.on_cpu import graph, normal


def learnt(*shape: int) -> Weights:
    return Weights(shape, np.dtype(np.float32), lambda: normal(*shape), "w", sources=("w",))


def table(width: int = 16) -> Graph:
    new, ids = Build(), Tensor("ids", (4,), "INT32")
    return graph(new, [ids], [new.EMBEDDING_LOOKUP(ids, new.const(learnt(90, width), "table"))])


def layer(size: int = 1, stride: int = 1) -> Graph:
    new, x = Build(), Tensor("x", (1, 6, 8, 64))
    filters = new.const(learnt(32, size, size, 64), "filters")
    y = new.CONV_2D(x, filters, np.zeros(32, np.float32), stride_h=stride, stride_w=stride, padding="SAME")
    return graph(new, [x], [y])


def checked(made: Graph, line: Line, delegate: str | None = "litert-gpu") -> None:
    recipe = Recipe("mine", (line,), delegate=delegate)
    assert encode(made, recipe, "unet").matched == {0}
    require_supported(Model([made]), recipe, "unet")


def test_what_the_delegate_takes_and_gets_right() -> None:
    checked(table(), Line("int8"))
    for size in (1, 3):
        for store in ("int8", "int4", "float16"):
            checked(layer(size), Line(store))
        checked(layer(size), Line("int8", granularity="tensor"))
        checked(layer(size), Line("int8", explicit=True))


def test_a_table_with_one_scale_is_wrong_on_the_gpu() -> None:
    message = (
        r"the recipe mine makes a unet that litert-gpu computes wrong: EMBEDDING_LOOKUP at 0, which makes"
        r" \S+, has a table of INT8 with one scale; use one per row. Change the line"
    )
    with pytest.raises(BadConfig, match=message):
        checked(table(), Line("int8", granularity="tensor"))
    checked(table(), Line("int8", granularity="tensor"), delegate=None)


@pytest.mark.parametrize("delegate", ["litert-gpu", None])
def test_rows_of_int4_that_begin_in_the_middle_of_a_byte_are_wrong_on_the_cpu(delegate: str | None) -> None:
    with pytest.raises(BadConfig, match="stores table as int4 in rows of 17 numbers, which"):
        checked(table(17), Line("int4"), delegate)
    checked(table(16), Line("int4"), delegate)
    checked(table(17), Line("int4", explicit=True), None)


@pytest.mark.parametrize("size", [1, 3])
def test_the_classic_delegate_has_no_int4(size: int) -> None:
    with pytest.raises(BadConfig, match=r"tflite-gpu refuses: CONV_2D at 0.* has weights of INT4; FLOAT16"):
        checked(layer(size), Line("int4"), "tflite-gpu")
    checked(layer(size), Line("int8"), "tflite-gpu")


def test_a_small_convolution_with_steps_is_wrong_on_the_gpu() -> None:
    for store in ("int8", "int4"):
        with pytest.raises(BadConfig, match=r"computes wrong: CONV_2D at 0.*strides of 1 and one"):
            checked(layer(stride=2), Line(store))
    checked(layer(size=3, stride=2), Line("int8"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (Line("float16", op=("EMBEDDING_LOOKUP",)), "EMBEDDING_LOOKUP at 1.*table of FLOAT16"),
        (Line("int8", explicit=True), "DEQUANTIZE at 0.*"),
    ],
)
def test_a_form_that_the_delegate_refuses_is_named(line: Line, message: str) -> None:
    with pytest.raises(BadConfig, match=f"litert-gpu refuses: {message}"):
        checked(table(), line)
    checked(table(), line, delegate=None)


def test_what_the_recipe_did_not_encode_is_not_its_fault() -> None:
    """Refused or not: the file is then not taken whole, which delegation-report says."""
    new, x = Build(), Tensor("x", (1, 6, 8, 64))
    filters = new.const(learnt(32, 1, 1, 64), "filters")
    y = new.CONV_2D(x, filters, np.zeros(32, np.float32), stride_h=1, stride_w=1)
    wide = new.RESHAPE(y, np.array([1, 6, 8, 16, 2], np.int32), new_shape=(1, 6, 8, 16, 2))
    checked(graph(new, [x], [wide]), Line("int8"))


def test_nothing_is_published(tmp_path: Path) -> None:
    line = Line("int8", op=("EMBEDDING_LOOKUP",), granularity="tensor")
    recipe = Recipe("mine", (line,), delegate="litert-gpu")
    settings = Settings(graph_rewrites.load(), recipe, ("text_encoder",))
    with pytest.raises(BadConfig):
        convert(CHECKPOINT, tmp_path / "out", settings)
    assert not list(tmp_path.iterdir())
