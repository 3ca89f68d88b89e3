"""Graphs in one file: what is equal is stored once, and each comes out as it went in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.sizes.share import alone, together
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Signature, Tensor
from msd.graph.ir.weights import Weights

RECIPES = ("gpu-w8", "float16", "float32")
SIDES = (40, 260)
"""Channels of convolutions whose weights are encoded; the writer itself merges equal ones of the first."""


def learnt(seed: int, side: int) -> Weights:
    """Weights of a checkpoint: new objects each time, equal where the seed is."""
    values = np.random.default_rng(seed).standard_normal((side, 1, 1, side)).astype(np.float32)
    return Weights(
        values.shape, values.dtype, lambda: values.copy(), f"layer {seed % 2}", sources=(f"{seed}",)
    )


def network(seeds: list[int], rows: int, recipe: str, side: int = 40) -> Model:
    """One pointwise convolution for each of `seeds` on an image of `rows`."""
    new, x = Build(), Tensor("x", (1, rows, 3, side))
    y: Tensor = x
    for n, seed in enumerate(seeds):
        weights = new.const(learnt(seed, side), f"w{n}")
        y = new.CONV_2D(y, weights, np.full(side, seed, np.float32), stride_h=1, stride_w=1)
    graph = Graph([x], [y], new.ops)
    graph.signatures = [Signature("serving_default", {"x": x}, {"y": y})]
    encode(graph, find_recipe(recipe), "unet")
    return Model([graph], "made for a test", {"a": b"b"})


layers = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)
several = st.lists(layers, min_size=2, max_size=3)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    networks=st.lists(layers, min_size=2, max_size=3),
    recipe=st.sampled_from(RECIPES),
    side=st.sampled_from(SIDES),
)
def test_graphs_come_out_as_they_went_in(
    tmp_path: Path, networks: list[list[int]], recipe: str, side: int
) -> None:
    """To the byte, after the file is written and read; weights that the first graph has are stored once."""
    keys = [f"8x{n + 2}" for n in range(len(networks))]
    separate = []
    for n, seeds in enumerate(networks):
        tflite.write(network(seeds, n + 2, recipe, side), tmp_path / "one.tflite")
        separate.append((tmp_path / "one.tflite").read_bytes())
    made = {keys[n]: network(seeds, n + 2, recipe, side) for n, seeds in enumerate(networks)}
    model, facts = together("unet.tflite", made)
    tflite.write(model, tmp_path / "both.tflite")
    assert facts.sizes == tuple(keys)
    assert abs((tmp_path / "both.tflite").stat().st_size - facts.together) < 2000
    for key, wanted in zip(keys, separate, strict=True):
        picked = alone(tflite.read(tmp_path / "both.tflite"), key, "serving_default")
        tflite.write(picked, tmp_path / "one.tflite")
        assert (tmp_path / "one.tflite").read_bytes() == wanted
    first, *others = tflite.read(tmp_path / "both.tflite").graphs
    stored = {id(t.data) for t in first.tensors() if t.data is not None}
    for graph, seeds in zip(others, networks[1:], strict=True):
        shared = [t for t in graph.tensors() if t.name.startswith("w") and id(t.data) in stored]
        assert len(shared) == len(set(seeds) & set(networks[0]))


def test_one_tensor_transformed_in_two_ways_stays_apart() -> None:
    twice = network([0], 3, "float32")
    tensor = twice.main.ops[0].operands[1]
    tensor.data = tensor.weights.map("doubled", lambda w: np.asarray(2 * w, w.dtype))
    model, facts = together("unet.tflite", {"a": network([0], 2, "float32"), "b": twice})
    first, second = (graph.ops[0].operands[1].weights for graph in model.graphs)
    assert first.sources == second.sources != ()
    np.testing.assert_array_equal(2 * first.load(), second.load())
    assert facts.together > facts.first + first.size * 4
