"""Which line of a recipe means which weights, and lines that mean none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.compress.encoding.encode import SMALLEST, require_matched, stored_bits
from msd.compress.encoding.encode import encode as encode_with
from msd.compress.encoding.recipe import Line
from msd.errors import BadConfig
from msd.graph.ir import Build, Graph, Tensor
from tests.layers import (
    KERNEL,
    conv_graph,
    encode,
    learnt,
    recipe,
    table_graph,
)
from tests.on_cpu import graph, normal
from tests.stable_diffusion import COMPONENTS


def test_later_lines_override_earlier_ones() -> None:
    lines = (Line("int8"), Line("float16", op=("CONV_2D",)), Line("float32", name=("b.*",)))
    for source, wanted in (("a.weight", "FLOAT16"), ("b.weight", "FLOAT32")):
        made = conv_graph(learnt(KERNEL, source))
        found = encode_with(made, recipe(*lines), "unet")
        assert found.matched == {0, 1} | ({2} if wanted == "FLOAT32" else set())
        assert found.names == (source,)
        assert found.stored == ({"FLOAT16": 1, "FLOAT32": 1} if wanted == "FLOAT16" else {"FLOAT32": 2})


def test_a_line_is_for_its_component() -> None:
    line = recipe(Line("int8", component=("unet",)))
    assert encode(conv_graph(learnt(KERNEL)), line, "vae_decoder") == {"FLOAT32": 2}
    assert encode(conv_graph(learnt(KERNEL)), line, "unet") == {"FLOAT32": 1, "INT8": 1}


def test_weights_made_of_several_go_by_any_name() -> None:
    merged = learnt(KERNEL, "q.weight", "k.weight")
    assert encode(conv_graph(merged), recipe(Line("int8", name=("k.*",)))) == {"FLOAT32": 1, "INT8": 1}


def encoded(*lines: Line, **components: Graph) -> None:
    made = recipe(*lines)
    encodings = {name: encode_with(each, made, name) for name, each in components.items()}
    require_matched(made, encodings, COMPONENTS)


def test_a_line_that_names_nothing_is_an_error() -> None:
    conv = lambda: conv_graph(learnt(KERNEL, "mid_block.conv1.weight"))  # noqa: E731
    encoded(Line("int8", name=("mid_*",), component=("unet",)), unet=conv())
    message = (
        r"line entry 2 of the recipe mine \(int4 for name midblock\.\* and component unet\) matches no"
        r" weights that could be stored so; nearest are mid_block\.conv1\.weight"
    )
    with pytest.raises(BadConfig, match=message):
        encoded(Line("int8"), Line("int4", name=("midblock.*",), component=("unet",)), unet=conv())
    with pytest.raises(BadConfig, match=r"line entry 1.*its operators read none"):
        encoded(Line("int8", op=("EMBEDDING_LOOKUP",), component=("unet",)), unet=conv())


def test_a_line_that_names_small_weights_is_no_mistake() -> None:
    """They stay float32, as in a smaller network of the same kind."""
    new, x = Build(), Tensor("x", (1, 4, 4, 8))
    filters = new.const(learnt(KERNEL[:, :, :1, :8], "conv_in.weight"))
    made = graph(new, [x], [new.CONV_2D(x, filters, np.zeros(16, np.float32), stride_h=1, stride_w=1)])
    encoded(Line("int8", name=("conv_in.*",), component=("unet",)), unet=made)
    assert filters.dtype == "FLOAT32"
    assert filters.size < SMALLEST


def test_a_line_is_judged_where_all_of_its_components_are_there() -> None:
    elsewhere = Line("int8", op=("EMBEDDING_LOOKUP",))
    encoded(elsewhere, unet=conv_graph(learnt(KERNEL)))
    encoded(replace(elsewhere, component=("text_encoder",)), unet=conv_graph(learnt(KERNEL)))
    three = {name: conv_graph(learnt(KERNEL)) for name in ("text_encoder", "unet", "vae_decoder")}
    with pytest.raises(BadConfig, match="line entry 1"):
        encoded(elsewhere, **three)
    encoded(elsewhere, **{**three, "text_encoder": table_graph()})


def test_an_estimate_goes_by_name_and_shape() -> None:
    mixed = recipe(Line("int8"), Line("int4", name=("a.*",)), Line("float32", op=("EMBEDDING_LOOKUP",)))
    table, matrix, row = learnt(normal(50, 40)), learnt(normal(40, 50)), learnt(normal(2000))
    assert stored_bits(mixed, "unet", "x.token_embedding.weight", table) == 2000 * 32
    assert stored_bits(mixed, "unet", "b.weight", matrix) == 2000 * 8
    assert stored_bits(mixed, "unet", "a.weight", matrix) == 2000 * 4
    assert stored_bits(mixed, "unet", "a.bias", row) == 2000 * 32
    assert stored_bits(mixed, "unet", "a.weight", learnt(normal(5, 5))) == 25 * 32
