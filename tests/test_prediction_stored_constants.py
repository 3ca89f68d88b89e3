"""Constants on the GPU: their bytes by hand, for either delegate, and totals of Stable Diffusion 2.1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.graph.ir import Build, Graph, Quant, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.prediction.device import Device, find_device
from msd.graph.prediction.fit import uses_winograd
from msd.graph.prediction.stored_constants import StoredConstant, convolution, kept_weights
from tests.sd_convolutions import unet

ADRENO = Device(name="adreno", winograd_input_slices=2, winograd_output_slices=3, winograd_tiles=4)
CLASSIC, LITERT = ADRENO.under("tflite-gpu"), ADRENO.under("litert-gpu")


def constant(new: Build, *shape: int, dtype: str = "FLOAT32") -> Tensor:
    """A constant of ones, with a scale for each slice of axis 0 where it is of integers."""
    stored = {"FLOAT32": np.float32, "FLOAT16": np.float16, "INT32": np.int32}.get(dtype, np.int8)
    tensor = new.const(Weights.of(np.ones(shape, stored)), "w")
    tensor.dtype = dtype
    if dtype.startswith("INT") and dtype != "INT32":
        tensor.quant = Quant(np.ones(shape[0], np.float32), np.zeros(shape[0], np.int64))
    return tensor


def conv(
    inputs: int = 9,
    outputs: int = 10,
    kernel: int = 3,
    dtype: str = "FLOAT32",
    dequantize: int = 0,
    **attrs: int,
) -> Graph:
    """CONV_2D of an 8x7 image, its weights straight from the file or through DEQUANTIZE."""
    new = Build()
    x = Tensor("x", (1, 8, 7, inputs))
    w = constant(new, outputs, kernel, kernel, inputs, dtype=dtype)
    filters = new.DEQUANTIZE(w, version=dequantize) if dequantize else w
    steps = dict.fromkeys(("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"), 1) | attrs
    y = new.CONV_2D(x, filters, constant(new, outputs), padding="SAME", **steps)
    return Graph([x], [y], new.ops)


def only(graph: Graph, device: Device, precision: str = "fp16") -> StoredConstant:
    """What is kept of the large constant; the bias is three slices of four."""
    weights, bias = kept_weights(graph, device, "fp16" if precision == "fp16" else "fp32")
    assert bias.bytes == 3 * 4 * (2 if precision == "fp16" else 4)
    return weights


def test_a_filter_is_padded_and_repacked() -> None:
    """9 to 10 channels are 3 slices by 3, each of 4x4 numbers, 9 taps."""
    plain = only(conv(stride_w=2), CLASSIC)
    assert plain == StoredConstant(0, "w", "float16", 3 * 3 * 16 * 9 * 2, texture=(3, 27))
    assert plain.piece == plain.bytes // 4
    in_buffer = only(conv(stride_w=2), replace(CLASSIC, weights_storage="buffer"), "fp32")
    assert in_buffer == StoredConstant(0, "w", "float32", 3 * 3 * 16 * 9 * 4)
    assert in_buffer.piece == in_buffer.bytes


def test_winograd_keeps_36_numbers_for_9() -> None:
    kept = only(conv(), CLASSIC)
    assert (kept.winograd, kept.bytes, kept.texture) == (True, 3 * 3 * 16 * 36 * 2, (3, 108))


@pytest.mark.parametrize(
    ("dtype", "kernel", "delegate", "form", "size"),
    [
        ("INT8", 1, "litert-gpu", "int8", 3 * 3 * 16 + 40),
        ("INT4", 1, "litert-gpu", "int4", 3 * 3 * 8 + 40),
        ("INT8", 1, "tflite-gpu", "float16", 3 * 3 * 16 * 2),
        ("INT8", 5, "litert-gpu", "float16", 3 * 3 * 16 * 25 * 2),
        ("INT8", 5, "tflite-gpu", "float16", 3 * 3 * 16 * 25 * 2),
    ],
)
def test_int8_filters(dtype: str, kernel: int, delegate: str, form: str, size: int) -> None:
    """LiteRT's delegate keeps those of 1x1 convolutions, with a float32 scale for each output."""
    kept = only(conv(dtype=dtype, kernel=kernel), ADRENO.under(delegate))
    assert (kept.form, kept.bytes) == (form, size)


def test_without_a_delegate_a_device_stands_for_the_larger() -> None:
    assert only(conv(dtype="INT8", kernel=1), ADRENO).form == "float16"


def test_float16_behind_a_dequantize_is_read_as_it_is() -> None:
    kept = only(conv(dtype="FLOAT16", dequantize=3), CLASSIC)
    assert kept.winograd
    assert kept == replace(only(conv(), CLASSIC), op=1)


def test_int8_behind_a_dequantize_is_float_and_no_constant_to_winograd() -> None:
    graph = conv(dtype="INT8", dequantize=2)
    assert convolution(graph.ops[1]) is None
    assert only(graph, LITERT) == StoredConstant(1, "w", "float16", 3 * 3 * 16 * 9 * 2)


@pytest.mark.parametrize(
    ("delegate", "size"), [("tflite-gpu", 2 * 3 * 16 * 2), ("litert-gpu", 2 * 3 * 16 + 28)]
)
def test_fully_connected(delegate: str, size: int) -> None:
    new = Build()
    x = Tensor("x", (5, 11))
    y = new.FULLY_CONNECTED(x, constant(new, 7, 11, dtype="INT8"), None)
    (kept,) = kept_weights(Graph([x], [y], new.ops), ADRENO.under(delegate), "fp16")
    assert kept.bytes == size


def test_tables_and_operands_are_float_and_indices_are_not_kept() -> None:
    new = Build()
    ids = Tensor("ids", (6,), "INT32")
    rows = new.EMBEDDING_LOOKUP(ids, constant(new, 23, 10, dtype="INT8"))
    y = new.RESHAPE(new.ADD(rows, constant(new, 1, 10)), [6, 1, 1, 10])
    kept = kept_weights(Graph([ids], [y], new.ops), LITERT, "fp16")
    assert [(k.op, k.form, k.bytes) for k in kept] == [(0, "float16", 23 * 12 * 2), (1, "float16", 24)]


def test_a_constant_is_kept_once_for_each_operator_that_reads_it() -> None:
    new = Build()
    x = Tensor("x", (1, 2, 3, 5))
    w = constant(new, 1, 1, 1, 5)
    y = new.MUL(new.ADD(x, w), w)
    assert [k.op for k in kept_weights(Graph([x], [y], new.ops), CLASSIC, "fp32")] == [0, 1]


@pytest.mark.parametrize(
    ("name", "delegate", "batch", "count", "millions"),
    [
        ("adreno-740", "tflite-gpu", 1, 22, 79.3),
        ("adreno-740", "tflite-gpu", 2, 22, 79.3),
        ("adreno-740", "litert-gpu", 1, 11, 16.6),
        ("adreno-740", "litert-gpu", 2, 22, 79.3),
        ("mali-valhall", "litert-gpu", 1, 22, 79.3),
        ("mali-valhall", "litert-gpu", 2, 33, 271.0),
    ],
)
def test_winograd_in_stable_diffusion_21(
    name: str, delegate: str, batch: int, count: int, millions: float
) -> None:
    """At 512 pixels, of 541 M parameters in 3x3 convolutions."""
    device = find_device(name).under(delegate)
    sizes = unet(64, batch)
    assert sum(s.inputs * s.outputs * 9 for s in sizes) == pytest.approx(541.0e6, rel=1e-4)
    chosen = [s for s in sizes if uses_winograd(device, s)]
    assert len(chosen) == count
    assert sum(s.inputs * s.outputs * 9 for s in chosen) == pytest.approx(millions * 1e6, rel=1e-3)
