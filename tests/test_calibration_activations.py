"""What is watched inside a graph are the numbers that the whole graph makes there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_rewrites.feed_timestep_embedding import feed_timestep_embedding
from msd.compress.calibration.activations import watch
from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.sources.binding import bind
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.trace import with_weights
from msd.errors import BadModelFile
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array, Weights
from msd.graph.rewrite import apply
from msd.models.demo import CHECKPOINT
from msd.models.structure_cache import structure_of
from msd.run.runners.random_inputs import random_inputs
from tests.harness import build, normal
from tests.stable_diffusion import COMPONENTS, networks_of

SHAPE = (1, 5, 7, 6)
KERNELS = [normal(6, 1, 1, 6, seed=i) for i in range(4)]


def layers(new: Build, x: Tensor) -> Tensor:
    """Convolutions by constants that are reshaped first, all of them before the first convolution."""
    kernels = [
        new.RESHAPE(new.const(k.reshape(36), f"kernel{i}"), list(k.shape)) for i, k in enumerate(KERNELS)
    ]
    for kernel in kernels:
        x = new.CONV_2D(x, kernel, new.const(np.zeros(6, np.float32)), stride_w=1, stride_h=1)
    return x


def expected(x: Array, count: int) -> Array:
    for kernel in KERNELS[:count]:
        x = x @ kernel.reshape(6, 6).T
    return x


@pytest.mark.parametrize("piece", [1, 40, 1000])
def test_the_values_are_numpys(piece: int) -> None:
    graph = build(layers, x=SHAPE)
    convolutions = [op.outputs[0] for op in graph.ops if op.kind == "CONV_2D"]
    inputs = [{"x": normal(*SHAPE, seed=i)} for i in range(3)]
    found: dict[Tensor, list[Array]] = {}
    before = str(graph)
    watch(
        graph,
        iter(inputs),
        [convolutions[2], graph.inputs[0], convolutions[0]],
        lambda tensor, value: found.setdefault(tensor, []).append(value),
        piece,
    )
    assert str(graph) == before
    graph.verify()
    assert [len(values) for values in found.values()] == [3, 3, 3]
    for i, each in enumerate(inputs):
        np.testing.assert_array_equal(found[graph.inputs[0]][i], each["x"])
        np.testing.assert_allclose(found[convolutions[0]][i], expected(each["x"], 1), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[convolutions[2]][i], expected(each["x"], 3), rtol=1e-4, atol=1e-3)


def test_what_depends_on_constants_alone_can_be_watched() -> None:
    graph = build(layers, x=SHAPE)
    kernel = graph.ops[1].outputs[0]
    found: list[Array] = []
    watch(graph, [{"x": normal(*SHAPE)}] * 2, [kernel], lambda tensor, value: found.append(value))
    assert len(found) == 2
    np.testing.assert_array_equal(found[1], KERNELS[1])


def test_int8_weights_count_as_what_they_mean() -> None:
    kernel = normal(64, 1, 1, 64)

    def quantised(new: Build, x: Tensor) -> Tensor:
        learnt = Weights(kernel.shape, kernel.dtype, lambda: kernel, "kernel")
        return new.CONV_2D(x, new.const(learnt), new.const(np.zeros(64, np.float32)), stride_w=1, stride_h=1)

    graph, x = build(quantised, x=(1, 3, 5, 64)), normal(1, 3, 5, 64, seed=1)
    encode(graph, find_recipe("gpu-w8"), "unet")
    found: list[Array] = []
    watch(graph, [{"x": x}], graph.outputs, lambda tensor, value: found.append(value))
    scale = np.abs(kernel).max((1, 2, 3), keepdims=True) / 127
    wanted = x @ (np.rint(kernel / scale) * scale).reshape(64, 64).T
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_watched_is_refused() -> None:
    graph = build(layers, x=SHAPE)

    def ignore(tensor: Tensor, value: Array) -> None:
        raise AssertionError("nothing is told")

    with pytest.raises(ValueError, match="does not compute kernel0"):
        watch(graph, [], [graph.ops[0].operands[0]], ignore)
    with pytest.raises(BadModelFile, match=r"takes x as float32\[1, 5, 7, 6\], not float32\[5, 7, 6\]"):
        watch(graph, [{"x": normal(*SHAPE[1:])}], graph.outputs, ignore)
    graph.inputs[0].is_variable = True
    with pytest.raises(ValueError, match="variables"):
        watch(graph, [], graph.outputs, ignore)


def traced(name: str) -> Graph:
    """Return a network of the demo checkpoint as it was traced, weights and all."""
    checkpoint = open_checkpoint(CHECKPOINT)
    network = networks_of(checkpoint)[name]
    structure = structure_of(network)
    weights = bind(name, structure.variables, checkpoint.weights[name]).weights
    return with_weights(structure, weights).main


@pytest.mark.parametrize("name", COMPONENTS)
def test_traced_networks_make_the_same_in_pieces(name: str, tmp_path: Path) -> None:
    graph = traced(name)
    if name == "unet":
        # So it takes what a bundle's U-Net takes.
        apply(graph, [feed_timestep_embedding])
    inputs = random_inputs(Interface.of(Model([graph]), tmp_path).inputs.values())
    filtered = [op.operands[0] for op in graph.ops if op.kind in ("CONV_2D", "BATCH_MATMUL")]
    watched = [*(t for t in dict.fromkeys(filtered) if t.data is None), *graph.outputs]
    found: dict[Tensor, Array] = {}
    watch(graph, [inputs], watched, found.__setitem__, piece=1 << 20)
    assert set(found) == set(watched)
    whole: dict[Tensor, Array] = {}
    watch(graph, [inputs], watched, whole.__setitem__)
    for tensor in watched:
        assert found[tensor].shape == tensor.shape
        scale = np.abs(whole[tensor]).max()
        np.testing.assert_allclose(found[tensor], whole[tensor], rtol=0, atol=1e-4 * scale)
