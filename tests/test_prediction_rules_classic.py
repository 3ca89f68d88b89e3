"""The rules of tflite-gpu, one test for each statement about its source, in that order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from msd.graph.ir import Model, Op, Tensor
from msd.graph.prediction.rules import Finding, predict
from tests.oracle.case import given, ints, model, numbers, op, scalar
from tests.sparse_constants import mostly_zero, sparse

S = (2, 3, 5, 8)
F = "FLOAT32"
CONV: dict[str, Any] = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
Row = tuple[str, Model, str | None]


def findings(made: Model) -> tuple[Finding, ...]:
    return predict(made, "tflite-gpu")


def one(kind: str, inputs: list[Any], *results: Any, version: int = 1, **attrs: Any) -> Model:
    return model(op(kind, inputs, *(results or [(S, F)]), version=version, **attrs))


def conv(weight: Tensor | None = None, version: int = 1, **attrs: Any) -> Model:
    inputs = [given(1, 9, 7, 8), weight or numbers(16, 3, 3, 8), numbers(16)]
    return one("CONV_2D", inputs, ((1, 9, 7, 16), F), version=version, **{**CONV, **attrs})


def dense(shape: tuple[int, ...], wide: int, version: int = 1, **attrs: Any) -> Model:
    result = (*shape[:-1], 12)
    return one("FULLY_CONNECTED", [given(*shape), numbers(12, wide)], (result, F), version=version, **attrs)


def pair(kind: str, a: Tensor, b: Tensor, dtype: str = F, **more: Any) -> Model:
    shape = max(a.shape, b.shape, key=lambda s: (len(s), s))
    return one(kind, [a, b], (shape, dtype), **more)


def sums_and_pools() -> Iterator[Row]:
    yield "ADD has two inputs", one("ADD", [given(*S)] * 3), "arity"
    yield "ADD of equal ranks", pair("ADD", given(*S), given(1, 1, 1, 8)), None
    yield "ADD 4-D with 3-D, batch 1", pair("ADD", given(1, 3, 5, 8), numbers(3, 5, 8)), None
    yield "ADD 4-D with 3-D, batch 2", pair("ADD", given(*S), numbers(3, 5, 8)), "broadcast"
    yield "ADD [1,h,w,c] with [1,1]", pair("ADD", given(1, 3, 5, 8), numbers(1, 1)), None
    yield "ADD [b,h,w,c] with [b,c]", pair("ADD", given(8, 3, 5, 8), numbers(8, 8)), None
    yield "ADD with another 2-D", pair("ADD", given(*S), given(5, 8)), "broadcast"
    yield "ADD 3-D with 2-D", pair("ADD", given(3, 5, 8), given(5, 8)), "broadcast"
    yield "ADD with rank 1", pair("ADD", given(*S), numbers(8)), None
    yield "MUL broadcasts as ADD", pair("MUL", given(*S), given(5, 8)), "broadcast"
    yield "ADD_N has two inputs", one("ADD_N", [given(*S) for _ in range(3)]), "arity"
    yield "SIGN_BIT is no activation", conv(fused_activation_function="SIGN_BIT"), "attribute"
    pool = {"filter_width": 0, "filter_height": 2, "stride_w": 1, "stride_h": 1}
    yield "a pool has a kernel", one("MAX_POOL_2D", [given(*S)], **pool), "attribute"
    pool["filter_width"] = 2
    yield "a pool is taken", one("AVERAGE_POOL_2D", [given(*S)], **pool), None
    yield "a pool of a constant", one("MAX_POOL_2D", [numbers(*S)], **pool), "constness"


def casts_and_layers() -> Iterator[Row]:
    yield "CAST float32 to int32", one("CAST", [given(*S)], (S, "INT32")), None
    yield "CAST float32 to float16", one("CAST", [given(*S)], (S, "FLOAT16")), "dtype"
    yield "CAST int64", one("CAST", [given(*S, dtype="INT64")], (S, F)), "dtype"
    yield "CONV_2D has a stride", conv(stride_w=0), "attribute"
    yield "CONV_2D has a dilation", conv(dilation_w_factor=0), "attribute"
    yield "CUMSUM of floats", one("CUMSUM", [given(*S, dtype="INT32"), scalar(1, "INT32")]), "dtype"
    yield "CUMSUM along a constant", one("CUMSUM", [given(*S), given(dtype="INT32")]), "constness"
    yield "DENSIFY of a runtime tensor", one("DENSIFY", [given(*S)]), "constness"
    yield "DENSIFY of floats", one("DENSIFY", [sparse(mostly_zero(*S))]), None
    yield "DENSIFY of int8", one("DENSIFY", [sparse(mostly_zero(*S, dtype="int8"))], (S, "INT8")), "graph"
    depth = [given(1, 9, 7, 8), numbers(1, 3, 3, 8), numbers(8)]
    result = ((1, 9, 7, 8), F)
    yield "DEPTHWISE multiplies", one("DEPTHWISE_CONV_2D", depth, result, **CONV, depth_multiplier=2), "shape"
    yield "DEPTHWISE is taken", one("DEPTHWISE_CONV_2D", depth, result, **CONV, depth_multiplier=1), None
    yield "block of 1", one("DEPTH_TO_SPACE", [given(*S)], block_size=1), "attribute"
    yield "DEQUANTIZE int16", one("DEQUANTIZE", [given(*S, dtype="INT16", scale=0.1)]), "dtype"
    yield "a shuffled layer", dense((5, 8), 8, weights_format=1), "attribute"
    yield (
        "a layer of a constant",
        one("FULLY_CONNECTED", [numbers(5, 8), given(12, 8)], ((5, 12), F)),
        "constness",
    )


def indices_and_axes() -> Iterator[Row]:
    flat = [given(3, 5, 8), numbers(12, 8)]
    kept = one("FULLY_CONNECTED", flat, ((15, 12), F), keep_num_dims=True)
    yield "a layer that keeps dimensions it does not", kept, "rank"
    yield "GATHER 2-D", one("GATHER", [given(11, 8), ints((1, 0))], ((1, 2, 8), F)), "rank"
    yield "GATHER INT64", one("GATHER", [given(11, 8), ints(1, dtype="INT64")], ((1, 8), F)), "dtype"
    yield "GATHER by int32", one("GATHER", [given(11, 8), ints(1, 0)], ((2, 8), F)), None
    for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        axes = one(kind, [given(*S), given(1, dtype="INT32")], ((2, 3, 5, 1), F), keep_dims=True)
        yield f"{kind} along constants", axes, "constness"
        axes = one(kind, [given(*S), ints(3)], ((2, 3, 5, 1), F), keep_dims=True)
        yield f"{kind} is taken", axes, None
    hot = [given(4, dtype="INT32"), scalar(7, "INT32"), scalar(1.0), scalar(0.0)]
    yield "ONE_HOT along the last axis", one("ONE_HOT", hot, ((7, 4), F), axis=0), "attribute"
    yield "ONE_HOT is taken", one("ONE_HOT", hot, ((4, 7), F), axis=-1), None
    yield "ONE_HOT of rows", one("ONE_HOT", [given(3, 4, dtype="INT32"), *hot[1:]], axis=-1), "shape"
    runtime = [given(4, dtype="INT32"), scalar(7, "INT32"), given(), scalar(0.0)]
    yield "ONE_HOT of constants", one("ONE_HOT", runtime, ((4, 7), F), axis=-1), "constness"
    yield "RESHAPE of a constant", one("RESHAPE", [numbers(5, 8), ints(8, 5)], ((8, 5), F)), "constness"
    yield "TRANSPOSE of a constant", one("TRANSPOSE", [numbers(5, 8), ints(1, 0)], ((8, 5), F)), "constness"


def choices_and_slices() -> Iterator[Row]:
    select = [given(*S, dtype="BOOL"), given(*S), given(1, 1, 1, 8)]
    yield "SELECT of the result's shape", one("SELECT_V2", select), "broadcast"
    yield "SELECT by int32", one("SELECT_V2", [given(*S, dtype="INT32"), given(*S), given(*S)]), "dtype"
    yield (
        "SELECT of matrices",
        one("SELECT", [given(5, 8, dtype="BOOL")] + [given(5, 8)] * 2, ((5, 8), F)),
        "broadcast",
    )
    yield "SLICE of rank 2", one("SLICE", [given(5, 8), ints(0, 0), ints(5, 4)], ((5, 4), F)), "rank"
    yield (
        "SLICE of rank 3",
        one("SLICE", [given(3, 5, 8), ints(0, 0, 0), ints(3, 5, 4)], ((3, 5, 4), F)),
        None,
    )
    yield "SOFTMAX scaled", one("SOFTMAX", [given(*S)], beta=2.0), "attribute"
    steps = [given(*S), ints(0, 0, 0, 0), ints(2, 3, 5, 4), ints(1, 1, 1, 1)]
    for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        yield (
            f"STRIDED_SLICE {mask}",
            one("STRIDED_SLICE", steps, ((2, 3, 5, 4), F), **{mask: 1}),
            "attribute",
        )
    yield "STRIDED_SLICE", one("STRIDED_SLICE", steps, ((2, 3, 5, 4), F)), None
    both = {"align_corners": True, "half_pixel_centers": True}
    yield (
        "RESIZE both ways",
        one("RESIZE_BILINEAR", [given(*S), ints(6, 10)], ((2, 6, 10, 8), F), **both),
        "attribute",
    )


def pads_and_the_rest() -> Iterator[Row]:
    pads = ints((0, 0), (1, 1))
    yield "PAD of rank 2", one("PAD", [given(5, 8), pads], ((5, 10), F)), "rank"
    pads = ints((0, 0), (1, 1), (1, 1), (0, 0))
    yield "MIRROR_PAD symmetric", one("MIRROR_PAD", [given(*S), pads], ((2, 5, 7, 8), F), mode=1), "attribute"
    for kind in ("ABS", "COS", "ELU", "EXP", "FLOOR", "GELU", "LOGISTIC", "NEG", "SIN", "SQUARE", "TANH"):
        yield f"{kind} of a constant", one(kind, [numbers(*S)]), "constness"
        yield f"{kind} is taken", one(kind, [given(*S)]), None
    for kind in ("DIV", "SUB", "POW", "MAXIMUM", "SQUARED_DIFFERENCE"):
        yield f"{kind} of constants", pair(kind, numbers(*S), numbers(*S)), "constness"
        yield f"{kind} is taken", pair(kind, given(*S), given(*S)), None
    others = ("EXPAND_DIMS", "SQUEEZE", "SHAPE", "FILL", "RANGE", "GATHER_ND", "SCATTER_ND", "ARG_MAX")
    for kind in (*others, "BROADCAST_TO", "RFFT2D", "L2_NORMALIZATION", "LOG_SOFTMAX"):
        yield f"no {kind}", one(kind, [given(*S)]), "unsupported"
    composite = one("STABLEHLO_COMPOSITE", [given(*S)], decomposition_subgraph_index=1)
    yield "no STABLEHLO_COMPOSITE", composite, "unsupported"
    yield "no custom operation", one("CUSTOM:FlexErf", [given(*S)]), "unsupported"


def builder() -> Iterator[Row]:
    """Section 2: tflite/delegates/gpu/common/model_builder.cc."""
    unparsed = ("CEIL", "ROUND", "LOGICAL_OR", "LOGICAL_NOT", "TOPK_V2", "BITCAST", "EMBEDDING_LOOKUP")
    for kind in (*unparsed, "DYNAMIC_UPDATE_SLICE", "REVERSE_V2", "ATAN2", "RIGHT_SHIFT", "STABLEHLO_CLAMP"):
        yield f"2.1 {kind} has no parser", one(kind, [given(*S)]), "unsupported"
    for kind, newest in VERSIONS.items():
        yield f"2.2 {kind} version {newest + 1}", one(kind, [given(*S)] * 2, version=newest + 1), "version"
    yield "2.3 CONV_2D int8 of one scale", conv(numbers(16, 3, 3, 8, dtype="INT8", scales=1), 2), None
    yield "2.3 CONV_2D int8 per channel", conv(numbers(16, 3, 3, 8, dtype="INT8", scales=16), 5), None
    yield "2.3 a layer of int8 per channel", dense((5, 8), 8, version=12), "version"
    yield "2.4 rank 5", one("ABS", [given(1, *S)], ((1, *S), F)), "rank"
    yield (
        "2.4 int32 between operations",
        pair("SUB", given(*S, dtype="INT32"), given(*S, dtype="INT32"), "INT32"),
        "dtype",
    )
    yield "2.4 a constant of two images", pair("MUL", given(*S), numbers(*S)), "graph"
    yield "2.4 one tensor twice", pair("SUB", *[given(*S)] * 2), "graph"
    yield "2.4 ADD of one tensor twice", pair("ADD", *[given(*S)] * 2), None
    yield "2.4 MUL of one tensor twice", pair("MUL", *[given(*S)] * 2), None


def builder_parses() -> Iterator[Row]:
    """Section 2.5: what `Parse` refuses after `IsSupported` took it."""
    yield "2.5 a layer's channels", dense((7,), 7), "graph"
    yield "2.5 a layer of rank 3", dense((1, 5, 8), 8), None
    for dtype, code in (("INT8", None), ("INT4", "graph")):
        weights = numbers(16, 3, 3, 8, dtype=dtype, scales=16)
        yield f"2.5 weights of {dtype}", conv(weights), code
        real = op("DEQUANTIZE", [weights], ((16, 3, 3, 8), F))
        layer = op("CONV_2D", [given(1, 9, 7, 8), *real.outputs, numbers(16)], ((1, 9, 7, 16), F), **CONV)
        yield f"2.5 {dtype} behind a DEQUANTIZE", model(real, layer), code
        table = numbers(3, 5, 8, dtype=dtype, scales=1)
        yield f"2.5 ADD of a constant of {dtype}", pair("ADD", given(1, 3, 5, 8), table), code
    for dtype, code in (("float32", None), ("float16", None), ("int8", "graph")):
        weights = sparse(mostly_zero(12, 8, dtype=dtype))
        layer = one("FULLY_CONNECTED", [given(5, 8), weights], ((5, 12), F), version=8)
        yield f"2.5 sparse weights of {dtype}", layer, code
    product = ((2, 3, 5, 6), F)
    yield (
        "2.5 a product from a constant",
        one("BATCH_MATMUL", [numbers(2, 3, 5, 8), given(2, 3, 8, 6)], product),
        "graph",
    )
    yield (
        "2.5 a product with a 4-D constant",
        one("BATCH_MATMUL", [given(*S), numbers(2, 3, 8, 6)], product),
        "graph",
    )
    yield "2.5 a product with a matrix", one("BATCH_MATMUL", [given(*S), numbers(8, 6)], product), None
    yield "2.5 PACK", one("PACK", [given(3, 5, 8)] * 2, (S, F), values_count=2), None
    yield "2.5 UNPACK", one("UNPACK", [given(2, 8)], *[((8,), F)] * 2, num=2), None
    yield "2.5 a comparison that is a result", pair("LESS", given(*S), given(*S), "BOOL"), "consumer"
    less = op("LESS", [given(*S), given(*S)], (S, "BOOL"))
    cast = op("CAST", less.outputs, (S, F), in_data_type="BOOL", out_data_type=F)
    yield "2.5 a comparison that is cast", model(less, cast), None


VERSIONS = {
    **{"ADD": 2, "MUL": 3, "SUB": 2, "DIV": 2, "CONCATENATION": 2, "CONV_2D": 6, "DEPTHWISE_CONV_2D": 6},
    **{"CUMSUM": 1, "DEQUANTIZE": 3, "FULLY_CONNECTED": 9, "GATHER": 1, "ONE_HOT": 1, "PRELU": 1, "PAD": 2},
    **{"AVERAGE_POOL_2D": 2, "MAX_POOL_2D": 2, "QUANTIZE": 2, "RELU": 2, "RESHAPE": 1, "RESIZE_BILINEAR": 3},
    **{"RESIZE_NEAREST_NEIGHBOR": 3, "SELECT": 1, "SLICE": 2, "SOFTMAX": 2, "SPACE_TO_DEPTH": 2},
    **{"STRIDED_SLICE": 4, "TRANSPOSE_CONV": 3, "TRANSPOSE": 4},
}


STATEMENTS = (
    *(sums_and_pools, casts_and_layers, indices_and_axes, choices_and_slices, pads_and_the_rest),
    *(builder, builder_parses),
)
"""Those of gpu_compatibility.cc, then those of model_builder.cc."""


@pytest.mark.parametrize(
    ("made", "code"),
    [pytest.param(*row[1:], id=row[0]) for row in [row for rows in STATEMENTS for row in rows()]],
)
def test_a_statement_about_the_source(made: Model, code: str | None) -> None:
    rejected = [f for f in findings(made) if f.severity == "rejected"]
    assert [f.code for f in rejected] == ([code] if code else []), [f.sentence for f in rejected]
    assert all(f.source.startswith("tflite/") for f in rejected)


def attention(lead: tuple[int, ...], **attrs: Any) -> Model:
    return one("BATCH_MATMUL", [given(*lead, 5, 8), given(*lead, 8, 8)], ((*lead, 5, 8), F), **attrs)


def mean(keep: bool) -> Model:
    shape = (2, 1, 1, 8) if keep else (2, 8)
    return one("MEAN", [given(*S), ints(1, 2)], (shape, F), keep_dims=keep)


PADS = ints((0, 0), (1, 1), (0, 0))


def pooled(kind: str, behind: str = "", sides: tuple[int, int] = (1, 1)) -> Model:
    """A padding of zeros, then what is `behind` it, then a pooling."""
    size = 7 + sum(sides)
    ops = [op("PAD", [given(1, 7, 7, 4), ints((0, 0), sides, sides, (0, 0))], ((1, size, size, 4), F))]
    ops += [op(behind, ops[0].outputs, ((1, size, size, 4), F))] if behind else []
    steps = {"stride_w": 1, "stride_h": 1, "padding": "VALID", "filter_width": 3, "filter_height": 3}
    return model(*ops, op(kind, ops[-1].outputs, ((1, size - 2, size - 2, 4), F), **steps))


DANGERS: list[tuple[str, Model, Model]] = [
    ("attribute", attention((1, 3), adj_y=True), attention((1, 3))),
    ("rank", attention((3,)), attention((1, 3))),
    ("broadcast", pair("SUB", given(*S), given(5, 8)), pair("SUB", given(*S), given(1, 1, 5, 8))),
    ("layout", pair("ADD", given(5, 8), numbers(5, 8)), pair("ADD", given(1, 5, 8), numbers(1, 5, 8))),
    ("attribute", mean(False), mean(True)),
    (
        "layout",
        one("SOFTMAX", [given(8)], ((8,), F), beta=1.0),
        one("SOFTMAX", [given(1, 8)], ((1, 8), F), beta=1.0),
    ),
    (
        "layout",
        one("PAD", [given(3, 5, 8), PADS], ((3, 7, 8), F)),
        one("ABS", [given(3, 5, 8)], ((3, 5, 8), F)),
    ),
    ("padding", pooled("AVERAGE_POOL_2D"), pooled("AVERAGE_POOL_2D", behind="TANH")),
    ("padding", pooled("MAX_POOL_2D"), pooled("MAX_POOL_2D", sides=(0, 0))),
]


@pytest.mark.parametrize(("code", "wrong", "right"), DANGERS)
def test_a_danger_is_seen_and_its_cure_has_none(code: str, wrong: Model, right: Model) -> None:
    assert [(f.severity, f.code) for f in findings(wrong)] == [("wrong", code)]
    assert findings(right) == ()


def test_integer_weights_behind_a_dequantize_are_noted() -> None:
    floats = op("DEQUANTIZE", [numbers(16, 3, 3, 8, dtype="INT8", scales=1)], ((16, 3, 3, 8), F), version=2)
    inputs = [given(1, 9, 7, 8), floats.outputs[0], numbers(16)]
    made = model(floats, op("CONV_2D", inputs, ((1, 9, 7, 16), F), **CONV))
    (note,) = findings(made)
    assert (note.op, note.severity, note.code) == (1, "note", "quantisation")


def test_halves_behind_a_dequantize_are_constants() -> None:
    floats = op("DEQUANTIZE", [numbers(16, 3, 3, 8, dtype="FLOAT16")], ((16, 3, 3, 8), F), version=5)
    inputs = [given(1, 9, 7, 8), floats.outputs[0], numbers(16)]
    made = model(floats, op("CONV_2D", inputs, ((1, 9, 7, 16), F), **CONV))
    assert findings(made) == ()
    raw: Op = conv(numbers(16, 3, 3, 8, dtype="FLOAT16")).main.ops[0]
    assert [f.code for f in findings(model(raw))] == ["float16"]
