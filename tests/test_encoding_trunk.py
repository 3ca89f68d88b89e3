"""The trunk: which filters are on a network's shortest paths, within the bytes that they may add."""

from __future__ import annotations

import numpy as np
import pytest

from msd.compress.encoding import trunk as module
from msd.compress.encoding.encode import encode as encode_with
from msd.compress.encoding.encode import lines_of
from msd.compress.encoding.recipe import Line, Recipe
from msd.graph.ir import Build, Graph, Tensor
from tests.layers import learnt
from tests.on_cpu import graph, normal

WIDTH = 32


def conv(new: Build, x: Tensor, name: str, width: int = WIDTH, kernel: int = 1) -> Tensor:
    filters = new.const(learnt(normal(width, kernel, kernel, x.shape[-1]), f"{name}.weight"), name)
    return new.CONV_2D(x, filters, np.zeros(width, np.float32), stride_w=1, stride_h=1)


def u_net(inner: int = 3, text: bool = True) -> Graph:
    """A first and a last convolution, a block with a way around it, a skip connection, and text beside."""
    new = Build()
    x, context = Tensor("x", (1, 8, 8, 8)), Tensor("context", (1, 1, 1, 64))
    first = conv(new, x, "conv_in", kernel=3)
    low = conv(new, conv(new, first, "low.1"), "low.2", kernel=inner)
    told = new.ADD(low, conv(new, conv(new, context, "text.1"), "text.2")) if text else low
    joined = new.CONCATENATION(told, first, axis=3)
    branch = conv(new, conv(new, joined, "conv1", kernel=3), "conv2", kernel=3)
    summed = new.ADD(conv(new, joined, "conv_shortcut"), branch)
    return graph(new, [x, context] if text else [x], [conv(new, summed, "conv_out", 4, 3)])


def kept(made: Graph, recipe: Recipe) -> list[str]:
    chosen, _ = lines_of(made, recipe, "unet")
    return [t.name for t, line in chosen.items() if line.store == "float16"]


@pytest.mark.parametrize("store", ["int8", "int4"])
def test_what_has_no_way_around_it_comes_first(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("mine", (Line(store),), trunk="float16")
    monkeypatch.setattr(module, "SHARE", 10)
    monkeypatch.setattr(module, "DETOUR", 0)
    assert kept(u_net(), recipe) == ["conv_in", "conv_shortcut", "conv_out"]
    monkeypatch.setattr(module, "DETOUR", 1)
    assert kept(u_net(), recipe) == ["conv_in", "conv1", "conv2", "conv_shortcut", "conv_out"]
    monkeypatch.setattr(module, "DETOUR", 2)
    assert len(kept(u_net(), recipe)) == 7


def test_the_text_does_not_shorten_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways begin at the image, though one from the text has no more layers than others that are listed."""
    monkeypatch.setattr(module, "SHARE", 10)
    monkeypatch.setattr(module, "DETOUR", 5)
    found = kept(u_net(), Recipe("mine", (Line("int8"),), trunk="float16"))
    assert {name.partition(".")[0] for name in found} == {
        "conv_in", "low", "conv1", "conv2", "conv_shortcut", "conv_out"
    }  # fmt: skip


@pytest.mark.parametrize(("store", "bits"), [("int8", 8), ("int4", 4)])
def test_bytes_are_bounded(store: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest of the shortest way is kept as long as it fits, and not a byte below."""
    made = u_net()
    sizes = {t.name: t.size for t in made.tensors() if t.data is not None and t.data.sources}
    needed = sizes["conv_out"] * (16 - bits)
    monkeypatch.setattr(module, "DETOUR", 0)
    whole = sum(size for size in sizes.values() if size >= 1024) * bits
    recipe = Recipe("mine", (Line(store),), trunk="float16")
    for share, wanted in (((needed + 0.5) / whole, ["conv_out"]), ((needed - 0.5) / whole, [])):
        monkeypatch.setattr(module, "SHARE", share)
        assert kept(made, recipe) == wanted


def test_it_is_for_what_is_stored_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 10)
    assert kept(u_net(), Recipe("mine", (Line("int8"),))) == []
    full = Recipe("mine", (Line("float32"),), trunk="float16")
    assert kept(u_net(), full) == []


def test_it_is_encoded_and_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 10)
    monkeypatch.setattr(module, "DETOUR", 0)
    found = encode_with(u_net(), Recipe("mine", (Line("int8"),), trunk="float16"), "unet")
    assert {str(kind): (kind.count, kind.names) for kind in found.weights} == {
        "int8 min-max": (6, ()),
        "float16": (3, ("conv_in", "conv_shortcut", "conv_out")),
    }
    assert found.stored["FLOAT16"] == 3
    assert found.stored["INT8"] == 6
