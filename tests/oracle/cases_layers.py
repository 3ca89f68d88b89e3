"""Cases of operations with weights: convolutions, fully connected layers, products of matrices, pooling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from msd.graph.ir import Tensor
from tests.oracle.case import Case, given, ints, model, numbers, op

IMAGE = (1, 9, 7, 8)
CONV: dict[str, Any] = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}

GROUPS = [(8, 8, 1), (4, 8, 2), (2, 12, 4), (2, 4, 4), (3, 12, 4), (2, 8, 6), (2, 8, 3), (4, 16, 8)]
ROWS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (1,)),
    ((1,), (3,)),
    ((), (3,)),
    ((3,), ()),
    ((2, 3), ()),
    ((1, 1), ()),
    ((1, 3), (3,)),
    ((2, 3), (3,)),
    ((2, 3), (1, 3)),
    ((2, 3), (2, 1)),
    ((2, 3), (1, 1)),
    ((2, 1), (2, 1)),
]
"""Dimensions in front of two matrices to multiply."""


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    yield from _conv()
    yield from _groups()
    yield from _depthwise()
    yield from _transpose_conv()
    yield from _upsampled()
    yield from _fully_connected()
    yield from _batch_matmul()
    yield from _pool()
    yield from _dequantize()
    yield from _dequantized_weights()


def _weight_forms(*shape: int, axis: int = 0) -> Iterator[tuple[str, Tensor]]:
    out = shape[axis]
    yield "FLOAT32", numbers(*shape)
    yield "FLOAT16", numbers(*shape, dtype="FLOAT16")
    yield "INT8 without a scale", numbers(*shape, dtype="INT8")
    yield "INT8 of one scale", numbers(*shape, dtype="INT8", scales=1, axis=axis)
    yield "INT8 of a scale per channel", numbers(*shape, dtype="INT8", scales=out, axis=axis)
    yield "UINT8 of one scale", numbers(*shape, dtype="UINT8", scales=1, axis=axis)
    yield "INT4 of one scale", numbers(*shape, dtype="INT4", scales=1, axis=axis)
    yield "INT4 of a scale per channel", numbers(*shape, dtype="INT4", scales=out, axis=axis)
    yield "INT32", numbers(*shape, dtype="INT32")
    yield "INT64", numbers(*shape, dtype="INT64")


def _convolution(
    name: str, weight: Tensor, bias: Tensor | None = None, shape: Any = IMAGE, version: int = 1, **a: Any
) -> Case:
    attrs = {**CONV, **a}
    high = -(-shape[-3] // attrs["stride_h"])
    wide = -(-shape[-2] // attrs["stride_w"])
    inputs = [given(*shape), weight, bias or numbers(weight.shape[0])]
    result = (*shape[:-3], high, wide, weight.shape[0])
    made = op("CONV_2D", inputs, (result, "FLOAT32"), version=version, **attrs)
    return Case(f"CONV_2D {name}", model(made))


def _conv() -> Iterator[Case]:
    of = _convolution
    for size in (1, 3):
        for form, weight in _weight_forms(16, size, size, 8):
            yield of(f"{size}×{size} {form}", weight, numbers(16))
    for size in (1, 3):
        for out, channels in ((17, 7), (33, 31), (64, 320)):
            weight = numbers(out, size, size, channels, dtype="INT4", scales=out)
            name = f"{size}×{size} INT4, {channels} to {out} channels"
            yield of(name, weight, numbers(out), (1, 9, 7, channels), version=5)
    weight = numbers(64, 3, 3, 320, dtype="INT4", scales=64)
    yield of("3×3 INT4, stride 2", weight, numbers(64), (1, 9, 7, 320), stride_w=2, stride_h=2, version=5)
    for version in range(2, 9):
        yield of(f"version {version}", numbers(16, 3, 3, 8), numbers(16), version=version)
    yield of("FLOAT16 bias", numbers(16, 3, 3, 8), numbers(16, dtype="FLOAT16"))
    yield of("INT8 bias", numbers(16, 3, 3, 8), numbers(16, dtype="INT8", scales=1))
    yield of("batch 2", numbers(16, 3, 3, 8), numbers(16), (2, 9, 7, 8))
    yield of("stride 2", numbers(16, 3, 3, 8), numbers(16), stride_w=2, stride_h=2)
    yield of("dilation 2", numbers(16, 3, 3, 8), numbers(16), dilation_w_factor=2, dilation_h_factor=2)
    fused = of("then TANH", numbers(16, 3, 3, 8), numbers(16), fused_activation_function="TANH")
    plain = of("plain", numbers(16, 3, 3, 8), numbers(16)).model.main.ops[0]
    after = op("TANH", plain.outputs, (plain.outputs[0].shape, "FLOAT32"))
    yield replace(fused, twin=model(plain, after))
    for activation in ("RELU", "RELU6", "RELU_N1_TO_1", "SIGN_BIT"):
        yield of(
            f"then {activation}", numbers(16, 3, 3, 8), numbers(16), fused_activation_function=activation
        )
    yield of("runtime weights 3×3", given(16, 3, 3, 8), numbers(16))
    yield of("runtime weights 1×1", given(16, 1, 1, 8), numbers(16))
    yield of("runtime bias", numbers(16, 3, 3, 8), given(16))
    yield of("runtime weights and bias", given(16, 3, 3, 8), given(16))
    constant = op(
        "CONV_2D", [numbers(*IMAGE), numbers(16, 3, 3, 8), numbers(16)], ((1, 9, 7, 16), "FLOAT32"), **CONV
    )
    yield Case("CONV_2D of a constant", model(constant))
    for batch in (1, 2):
        shape = (batch, 8, 6, 32)
        yield of(f"3×3 to few channels, batch {batch}", numbers(3, 3, 3, 32), numbers(3), shape)


def _groups() -> Iterator[Case]:
    of = _convolution
    for form, weight in list(_weight_forms(16, 1, 1, 8))[:8]:
        if form != "INT8 without a scale":
            yield of(f"1×1 {form}, stride 2", weight, stride_w=2, stride_h=2)
            yield of(f"1×1 {form}, dilation 2", weight, dilation_w_factor=2, dilation_h_factor=2)
            yield of(f"1×1 {form}, 2 groups", weight, None, (1, 9, 7, 16))
    for groups, weight in ((2, numbers(32, 3, 3, 8)), (2, numbers(16, 1, 1, 8)), (4, numbers(16, 3, 3, 4))):
        yield of(f"{groups} groups of {weight.shape[3]}", weight, None, (1, 9, 7, groups * weight.shape[3]))
    for groups, out, each in GROUPS:
        shape = (1, 9, 7, groups * each)
        yield of(f"{groups} groups of {each} to {out}", numbers(out, 3, 3, each), None, shape)
    yield of("two groups to few channels", numbers(6, 3, 3, 4), None)
    yield of("two groups of six", numbers(16, 3, 3, 6), None, (1, 9, 7, 12))
    yield of("two groups, INT8", numbers(16, 3, 3, 4, dtype="INT8", scales=16))
    yield of("two groups", numbers(16, 3, 3, 4), numbers(16))
    yield of("eight groups", numbers(16, 3, 3, 1), numbers(16))
    yield of("four groups of two", numbers(16, 3, 3, 2), numbers(16))


def _depthwise() -> Iterator[Case]:
    def of(name: str, weight: Tensor, multiplier: int = 1, version: int = 1, **a: Any) -> Case:
        attrs = {**CONV, "depth_multiplier": multiplier, **a}
        out = weight.shape[3]
        result = ((1, 9, 7, out), "FLOAT32")
        made = op(
            "DEPTHWISE_CONV_2D", [given(*IMAGE), weight, numbers(out)], result, version=version, **attrs
        )
        return Case(f"DEPTHWISE_CONV_2D {name}", model(made))

    for form, weight in _weight_forms(1, 3, 3, 8, axis=3):
        yield of(form, weight)
    for version in range(2, 8):
        yield of(f"version {version}", numbers(1, 3, 3, 8), version=version)
    yield of("multiplier 2", numbers(1, 3, 3, 16), 2)
    yield of("a multiplier that is not", numbers(1, 3, 3, 8), 2)
    yield of("runtime weights", given(1, 3, 3, 8))
    yield of("then SIGN_BIT", numbers(1, 3, 3, 8), fused_activation_function="SIGN_BIT")
    yield of("dilation 2", numbers(1, 3, 3, 8), dilation_w_factor=2, dilation_h_factor=2)


def _transpose_conv() -> Iterator[Case]:
    def of(name: str, weight: Tensor, *more: Tensor, version: int = 1, shape: Any = None, **a: Any) -> Case:
        attrs = {"stride_w": 2, "stride_h": 2, "padding": "SAME", **a}
        size = shape or ints(1, 18, 14, weight.shape[0])
        result = ((1, 18, 14, weight.shape[0]), "FLOAT32")
        made = op("TRANSPOSE_CONV", [size, weight, given(*IMAGE), *more], result, version=version, **attrs)
        return Case(f"TRANSPOSE_CONV {name}", model(made))

    for form, weight in _weight_forms(16, 3, 3, 8):
        yield of(form, weight)
    for version in range(2, 6):
        more = [numbers(16)] if version >= 3 else []
        yield of(f"version {version}", numbers(16, 3, 3, 8), *more, version=version)
    yield of("runtime weights", given(16, 3, 3, 8))
    yield of("runtime weights and bias", given(16, 3, 3, 8), given(16), version=3)
    for size in (1, 2, 4, 5):
        yield of(f"{size}×{size}", numbers(16, size, size, 8))
    yield of("then RELU", numbers(16, 3, 3, 8), version=1, fused_activation_function="RELU")


def _upsampled() -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        for size in (1, 2, 3, 4, 5):
            for stride in (1, 2, 3):
                high, wide = (
                    n * stride + (max(size - stride, 0) if padding == "VALID" else 0) for n in (9, 7)
                )
                weight = numbers(16, size, size, 8)
                result = (1, high, wide, 16)
                inputs = [ints(*result), weight, given(*IMAGE)]
                attrs = {"stride_w": stride, "stride_h": stride, "padding": padding}
                made = op("TRANSPOSE_CONV", inputs, (result, "FLOAT32"), **attrs)
                yield Case(f"TRANSPOSE_CONV {size}×{size}, stride {stride}, {padding}", model(made))


def _dense(
    name: str, rows: Any, weight: Tensor, bias: Tensor | None = None, version: int = 1, **a: Any
) -> Case:
    result = a.pop("result", (*rows[:-1], weight.shape[0]))
    inputs = [given(*rows), weight] + ([bias] if bias else [])
    made = op("FULLY_CONNECTED", inputs, (result, "FLOAT32"), version=version, **a)
    return Case(f"FULLY_CONNECTED {name}", model(made))


def _fully_connected() -> Iterator[Case]:
    of = _dense
    for form, weight in _weight_forms(12, 8):
        yield of(form, (5, 8), weight, numbers(12))
    for rank, rows in enumerate([(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8), (1, 2, 3, 5, 8)], 1):
        yield of(f"rank {rank}", rows, numbers(12, 8), numbers(12), keep_num_dims=True)
        int8 = numbers(12, 8, dtype="INT8", scales=12)
        yield of(f"rank {rank} INT8", rows, int8, numbers(12), keep_num_dims=True)
    yield of("rank 3 flattened", (3, 5, 8), numbers(12, 8), numbers(12), result=(15, 12))
    yield of("rank 4 flattened", (1, 3, 5, 8), numbers(12, 8), numbers(12), result=(15, 12))
    yield of("rank 4 whole", (2, 3, 5, 8), numbers(12, 120), numbers(12), result=(2, 12))
    yield of("rank 3 flattened INT8", (3, 5, 8), numbers(12, 8, dtype="INT8", scales=1), result=(15, 12))
    for form in ({}, {"dtype": "INT8", "scales": 12}):
        kind = form.get("dtype", "FLOAT32")
        for rows in [(1, 5, 8), (3, 5, 8), (1, 3, 5, 8), (2, 1, 1, 8), (1, 1, 1, 8), (1, 1, 5, 8)]:
            count = int(np.prod(rows)) // 8
            yield of(f"{list(rows)} flattened {kind}", rows, numbers(12, 8, **form), result=(count, 12))
        yield of(f"[1, 3, 5, 8] whole {kind}", (1, 3, 5, 8), numbers(12, 120, **form), result=(1, 12))
        yield of(f"of rank 1 and one channel {kind}", (8,), numbers(12, 1, **form), result=(8, 12))
    yield of("runtime weights of rank 3", (3, 5, 8), given(12, 8), keep_num_dims=True)
    yield of("runtime weights and a bias, rank 3", (3, 5, 8), given(12, 8), numbers(12), keep_num_dims=True)
    yield of("runtime weights and a bias, one row", (1, 8), given(12, 8), numbers(12))
    for version in range(2, 15):
        yield of(f"version {version}", (5, 8), numbers(12, 8), numbers(12), version=version)
    yield of("no bias", (5, 8), numbers(12, 8))
    yield of("runtime weights", (5, 8), given(12, 8), numbers(12))
    yield of("runtime weights, no bias", (5, 8), given(12, 8))
    yield of("runtime bias", (5, 8), numbers(12, 8), given(12))
    yield of("runtime weights and bias", (5, 8), given(12, 8), given(12))
    yield of("shuffled", (5, 8), numbers(12, 8), weights_format=1)
    for activation in ("RELU", "RELU6", "TANH", "SIGN_BIT"):
        yield of(f"then {activation}", (5, 8), numbers(12, 8), fused_activation_function=activation)
    made = op("FULLY_CONNECTED", [numbers(5, 8), given(12, 8)], ((5, 12), "FLOAT32"))
    yield Case("FULLY_CONNECTED of a constant", model(made))


def _batch_matmul() -> Iterator[Case]:
    def of(name: str, x: Tensor, y: Tensor, result: Any, version: int = 1, **a: Any) -> Case:
        made = op("BATCH_MATMUL", [x, y], (result, "FLOAT32"), version=version, **a)
        return Case(f"BATCH_MATMUL {name}", model(made))

    leads: list[tuple[int, ...]] = [(), (3,), (1, 3), (2, 3), (2, 1), (1, 2, 3)]
    for lead in leads:
        rank = f"rank {len(lead) + 2}, {list(lead)}"
        yield of(rank, given(*lead, 5, 8), given(*lead, 8, 6), (*lead, 5, 6))
        yield of(f"{rank} adj_y", given(*lead, 5, 8), given(*lead, 6, 8), (*lead, 5, 6), adj_y=True)
        yield of(f"{rank} adj_x", given(*lead, 8, 5), given(*lead, 8, 6), (*lead, 5, 6), adj_x=True)
        both = given(*lead, 8, 5), given(*lead, 6, 8)
        yield of(f"{rank} adj_x adj_y", *both, (*lead, 5, 6), adj_x=True, adj_y=True)
        yield of(f"{rank} with a constant", given(*lead, 5, 8), numbers(*lead, 8, 6), (*lead, 5, 6))
        y = numbers(*lead, 6, 8)
        yield of(f"{rank} with a constant adj_y", given(*lead, 5, 8), y, (*lead, 5, 6), adj_y=True)
        yield of(f"{rank} from a constant", numbers(*lead, 5, 8), given(*lead, 8, 6), (*lead, 5, 6))
    yield of("rank 3 by a constant of rank 2", given(3, 5, 8), numbers(8, 6), (3, 5, 6))
    yield of("rank 4 by a constant of rank 2", given(2, 3, 5, 8), numbers(8, 6), (2, 3, 5, 6))
    yield of("rank 4 by rank 2", given(2, 3, 5, 8), given(8, 6), (2, 3, 5, 6))
    yield of("rank 4 by rank 3", given(2, 3, 5, 8), given(3, 8, 6), (2, 3, 5, 6))
    yield of("rank 3 by rank 2", given(3, 5, 8), given(8, 6), (3, 5, 6))
    yield of("broadcast heads", given(2, 3, 5, 8), given(2, 1, 8, 6), (2, 3, 5, 6))
    yield of("broadcast batch", given(2, 3, 5, 8), given(1, 3, 8, 6), (2, 3, 5, 6))
    yield of("broadcast left", given(1, 3, 5, 8), given(2, 3, 8, 6), (2, 3, 5, 6))
    for left, right in ROWS:
        lead = np.broadcast_shapes(left, right)
        for name, y in (("", given(*right, 8, 6)), (" a constant", numbers(*right, 8, 6))):
            result = (*lead, 5, 6)
            yield of(f"{list(left)} by{name} {list(right)}", given(*left, 5, 8), y, result)
            swapped = given(*left, 8, 5)
            y = given(*right, 8, 6) if y.data is None else numbers(*right, 8, 6)
            yield of(f"{list(left)} adj_x by{name} {list(right)}", swapped, y, result, adj_x=True)
    for version in range(2, 5):
        yield of(f"version {version}", given(2, 3, 5, 8), given(2, 3, 8, 6), (2, 3, 5, 6), version)
    for scales in (0, 1, 6):
        y = numbers(8, 6, dtype="INT8", scales=scales, axis=1)
        yield of(f"by INT8 of {scales} scales", given(5, 8), y, (5, 6))
    same = given(3, 8, 8)
    yield of("of one tensor twice", same, same, (3, 8, 8))


def _pool() -> Iterator[Case]:
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):

        def of(name: str, version: int = 1, shape: Any = IMAGE, kind: str = kind, **a: Any) -> Case:
            attrs = {"filter_width": 3, "filter_height": 2, "stride_w": 1, "stride_h": 1, "padding": "SAME"}
            made = op(kind, [given(*shape)], (shape, "FLOAT32"), version=version, **{**attrs, **a})
            return Case(f"{kind} {name}", model(made))

        yield of("plain")
        yield of("batch 2", shape=(2, 9, 7, 8))
        yield of("version 2", 2)
        yield of("version 3", 3)
        yield of("then RELU", fused_activation_function="RELU")
        yield of("then SIGN_BIT", fused_activation_function="SIGN_BIT")
        made = op(
            kind, [numbers(*IMAGE)], (IMAGE, "FLOAT32"), **{**CONV, "filter_width": 1, "filter_height": 1}
        )
        yield Case(f"{kind} of a constant", model(made))


def _dequantize() -> Iterator[Case]:
    for dtype, scales in (("INT8", 1), ("INT8", 8), ("UINT8", 1), ("FLOAT16", 0), ("INT8", 0), ("INT4", 1)):
        for version in range(1, 7):
            made = op("DEQUANTIZE", [numbers(*IMAGE, dtype=dtype, scales=scales, axis=3)], (IMAGE, "FLOAT32"))
            made.version = version
            add = op("ADD", [given(*IMAGE), made.outputs[0]], (IMAGE, "FLOAT32"))
            name = f"DEQUANTIZE {dtype} constant of {scales} scales, version {version}"
            yield Case(name, model(made, add))
    for shape in [(8,), (5, 8), (3, 5, 8), (1, 2, 3, 5, 8)]:
        for dtype, scales in (("INT8", 1), ("FLOAT16", 0)):
            made = op(
                "DEQUANTIZE", [numbers(*shape, dtype=dtype, scales=scales)], (shape, "FLOAT32"), version=2
            )
            add = op("ADD", [given(*shape), made.outputs[0]], (shape, "FLOAT32"))
            yield Case(f"DEQUANTIZE {dtype} constant of rank {len(shape)}", model(made, add))
    for dtype, scale in (("INT8", 0.1), ("UINT8", 0.1), ("FLOAT16", None), ("INT16", 0.1)):
        made = op("DEQUANTIZE", [given(*IMAGE, dtype=dtype, scale=scale)], (IMAGE, "FLOAT32"), version=3)
        yield Case(f"DEQUANTIZE runtime {dtype}", model(made))
    for dtype, version in (("INT8", 1), ("UINT8", 1), ("INT16", 2), ("INT8", 3)):
        made = op("QUANTIZE", [given(*IMAGE)], given(*IMAGE, dtype=dtype, scale=0.05), version=version)
        back = op("DEQUANTIZE", [made.outputs[0]], (IMAGE, "FLOAT32"), version=3)
        yield Case(f"QUANTIZE to {dtype}, version {version}", model(made, back))


def _dequantized_weights() -> Iterator[Case]:
    for dtype, scales, version in (("INT8", 1, 2), ("FLOAT16", 0, 2), ("FLOAT16", 0, 3), ("INT8", 12, 5)):
        made = op("DEQUANTIZE", [numbers(12, 8, dtype=dtype, scales=scales)], ((12, 8), "FLOAT32"))
        made.version = version
        dense = op("FULLY_CONNECTED", [given(5, 8), made.outputs[0]], ((5, 12), "FLOAT32"))
        yield Case(f"FULLY_CONNECTED {dtype} of {scales} scales through DEQUANTIZE", model(made, dense))
        made = op(
            "DEQUANTIZE", [numbers(12, 3, 3, 8, dtype=dtype, scales=scales)], ((12, 3, 3, 8), "FLOAT32")
        )
        made.version = version
        conv = op(
            "CONV_2D", [given(*IMAGE), made.outputs[0], numbers(12)], ((1, 9, 7, 12), "FLOAT32"), **CONV
        )
        yield Case(f"CONV_2D {dtype} of {scales} scales through DEQUANTIZE", model(made, conv))
        made = op(
            "DEQUANTIZE", [numbers(1, 3, 3, 8, dtype=dtype, scales=min(scales, 1))], ((1, 3, 3, 8), "FLOAT32")
        )
        made.version = version
        conv = op(
            "DEPTHWISE_CONV_2D",
            [given(*IMAGE), made.outputs[0], numbers(8)],
            (IMAGE, "FLOAT32"),
            **CONV,
            depth_multiplier=1,
        )
        yield Case(f"DEPTHWISE_CONV_2D {dtype} of {scales} scales through DEQUANTIZE", model(made, conv))
