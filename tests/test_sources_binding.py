"""Every variable gets its own tensor in Keras's layout; what does not fit is refused by name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from msd.conversion.sources.binding import bind, unexpected
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights
from msd.models.structure import VariableSpec

VARIABLES = {
    "x0": VariableSpec("conv/kernel", (3, 2, 5, 7)),
    "x1": VariableSpec("block.0/part/kernel", (5, 7)),
    "x2": VariableSpec("norm/gamma", (5,)),
    "x3": VariableSpec("norm/beta", (5,)),
    "x4": VariableSpec("words/embeddings", (9, 5)),
    "x5": VariableSpec("conv/bias", (7,)),
}
TORCH = {
    "conv.weight": (7, 5, 3, 2),
    "block.0.part.weight": (7, 5),
    "norm.weight": (5,),
    "norm.bias": (5,),
    "words.weight": (9, 5),
    "conv.bias": (7,),
}


def tensors() -> dict[str, Weights]:
    random = np.random.default_rng(0)
    return {name: Weights.of(random.random(shape, np.float32), name) for name, shape in TORCH.items()}


def test_each_variable_gets_its_tensor_in_its_layout() -> None:
    weights = tensors()
    more = {**weights, "spare.weight": weights["norm.bias"]}
    binding = bind("unet", VARIABLES, more)
    assert binding.unexpected == unexpected("unet", VARIABLES, more) == ("spare.weight",)
    assert {key: w.shape for key, w in binding.weights.items()} == {k: v.shape for k, v in VARIABLES.items()}
    loaded = {key: w.load() for key, w in binding.weights.items()}
    np.testing.assert_array_equal(loaded["x0"], weights["conv.weight"].load().transpose(2, 3, 1, 0))
    np.testing.assert_array_equal(loaded["x1"], weights["block.0.part.weight"].load().T)
    for key, name in (
        ("x2", "norm.weight"),
        ("x3", "norm.bias"),
        ("x4", "words.weight"),
        ("x5", "conv.bias"),
    ):
        np.testing.assert_array_equal(loaded[key], weights[name].load())


def test_a_linear_layer_may_be_a_convolution_of_one_cell() -> None:
    """So are the projections of the attention in keras-cv's decoder."""
    weights = Weights.of(np.arange(35, dtype=np.float32).reshape(7, 5))
    bound = bind("vae", {"x": VariableSpec("to_q/kernel", (1, 1, 5, 7))}, {"to_q.weight": weights}).weights
    np.testing.assert_array_equal(bound["x"].load(), weights.load().T[None, None])


def refuse(message: str, **changes: Weights | None) -> None:
    weights = {**tensors(), **{name.replace("_", "."): w for name, w in changes.items()}}
    present = {name: w for name, w in weights.items() if w is not None}
    for read in (bind, unexpected):
        with pytest.raises(BadCheckpoint, match=re.escape(message)):
            read("unet", VARIABLES, present)


def test_missing_tensors_are_named() -> None:
    refuse("unet lacks conv.bias, which its configuration requires", conv_bias=None)
    refuse(
        "unet lacks conv.weight, norm.weight, norm.bias and 1 more, which",
        conv_weight=None,
        norm_weight=None,
        norm_bias=None,
        conv_bias=None,
    )


def test_a_wrong_shape_is_refused() -> None:
    wrong = Weights.of(np.zeros((7, 5, 2, 3), np.float32))
    refuse(
        "unet's tensor conv.weight has the shape [7, 5, 2, 3], but its configuration requires [7, 5, 3, 2]",
        conv_weight=wrong,
    )


def test_integers_are_refused() -> None:
    refuse(
        "unet's tensor norm.bias is int8, and only floating-point", norm_bias=Weights.of(np.zeros(5, np.int8))
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_when_loaded(value: float) -> None:
    bad = np.zeros((7, 5), np.float32)
    bad[3, 2] = value
    binding = bind("unet", VARIABLES, {**tensors(), "block.0.part.weight": Weights.of(bad)})
    with pytest.raises(
        BadCheckpoint, match=r"unet's tensor block\.0\.part\.weight holds values that are not"
    ):
        binding.weights["x1"].load()


def test_two_variables_are_never_one_tensor() -> None:
    twice = {"a": VariableSpec("norm/beta", (5,)), "b": VariableSpec("norm/bias", (5,))}
    with pytest.raises(ValueError, match="two variables of unet"):
        bind("unet", twice, tensors())
