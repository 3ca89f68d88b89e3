"""Integers whose scales delegates do not take: the sentence says what they have, and the delegate's fate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from msd.errors import DelegateFailed
from msd.gpu.compile import compile_model
from msd.gpu.gpu import Gpu
from msd.graph.ir import Model, Quant, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.prediction.rules import predict
from tests.oracle.case import given, model, numbers, op

F = "FLOAT32"
BLOCKS = "with a scale for each block of 4 numbers"


def packed(*shape: int, dtype: str, quant: Quant | None) -> Tensor:
    """Return a constant of zeros, which a file packs, several in a byte."""
    return Tensor("c", shape, dtype, Weights.of(np.zeros(shape, np.int8)), quant)


def blockwise(dtype: str, *shape: int) -> Tensor:
    details = schema.BlockwiseQuantizationT()
    details.blockSize = 4
    scales = Tensor("scales", (shape[0], shape[-1] // 4), "FLOAT16", Weights.of(np.ones(24, np.float16)))
    rest = {"details": details, "blockwise": {"scales": scales}}
    return packed(*shape, dtype=dtype, quant=Quant(np.zeros(0, np.float32), np.zeros(0, np.int64), rest=rest))


def layer(w: Tensor) -> Model:
    return model(op("FULLY_CONNECTED", [given(5, 8), w], ((5, 12), F)))


def convolution(w: Tensor) -> Model:
    steps = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
    return model(op("CONV_2D", [given(1, 7, 9, 8), w, numbers(12)], ((1, 7, 9, 12), F), **steps))


@pytest.mark.parametrize("dtype", ["INT4", "INT2"])
@pytest.mark.parametrize(
    "spell",
    [
        layer,
        lambda w: model(op("DEQUANTIZE", [w], ((12, 8), F))),
        lambda w: model(op("BATCH_MATMUL", [given(5, 12), w], ((5, 8), F))),
        lambda w: model(op("EMBEDDING_LOOKUP", [given(3, dtype="INT32"), w], ((3, 8), F))),
    ],
)
def test_blockwise_integers_have_scales(dtype: str, spell: Callable[[Tensor], Model]) -> None:
    for weights, words in (
        (blockwise(dtype, 12, 8), BLOCKS),
        (packed(12, 8, dtype=dtype, quant=None), "without"),
    ):
        (finding,) = predict(spell(weights), "litert-gpu")
        assert finding.severity == "rejected"
        assert f"{dtype} {words}" in finding.sentence


def test_an_operand_of_blocks() -> None:
    made = model(op("ADD", [given(12, 8), blockwise("INT4", 12, 8)], ((12, 8), F)))
    assert [f"INT4 {BLOCKS}" in finding.sentence for finding in predict(made, "litert-gpu")] == [True]


def test_webgpu_says_it_too() -> None:
    with pytest.raises(DelegateFailed, match=BLOCKS):
        compile_model(layer(blockwise("INT4", 12, 8)), Gpu())


@pytest.mark.parametrize("kernel", [1, 3])
def test_int2_filters_are_refused(kernel: int) -> None:
    quant = Quant(np.ones(12, np.float32), np.zeros(12, np.int64))
    made = convolution(packed(12, kernel, kernel, 8, dtype="INT2", quant=quant))
    (finding,) = predict(made, "litert-gpu")
    assert "has weights of INT2, which crash the delegate" in finding.sentence
