"""The operators that TensorFlow Lite's "GPU delegate v2" supports.

A row has the conditions of `IsSupported` in the operator's parser (the highest version, then the rules of
`SHARED` with its flag kStandard), then those of its `Parse`. The latter are worse: the delegate accepts the
operator, then rejects the entire graph. These checks have the code "graph".
"""

from __future__ import annotations

from dataclasses import replace

from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.device import ConvSize, Device, Shape
from msd.graph.prediction.releases import Span
from msd.graph.prediction.rules.checks import (
    Check,
    above_one,
    activation,
    arity,
    at_least,
    attribute,
    broadcasts,
    constants,
    dtype,
    is_constant,
    is_runtime,
    one_or_two_runtime,
    positive,
    rank,
    ranks_below,
    results,
    runtime,
    version,
)
from msd.graph.prediction.rules.classic import (
    TFLITE_MISCOMPUTED,
    cast_types,
    condition_fits,
    constant_of_one_image,
    constant_second_matrix,
    consumed_as_float,
    dense_channels,
    kept_dimensions,
    matrices,
    one_channel_multiplied,
    one_covers_the_other,
    one_hot_shapes,
    readable_constants,
    readable_weights,
    standard_fits,
    whole_groups,
)
from msd.graph.prediction.rules.data_movement import (
    axes_exist,
    different_operands,
    forward_strides,
    index_per_axis,
    one_hot_axis,
    one_way_to_align,
    paddings_shape,
    prelu_alpha,
    select_branches,
    slice_indices,
    slices_to_its_result,
)
from msd.graph.prediction.rules.layers import depthwise_shapes, version_of_integers
from msd.graph.prediction.rules.ruleset import RuleSet
from msd.graph.prediction.rules.sparsity import sparse_floats
from msd.graph.prediction.rules.types import FLOAT, runtime_types, tflite_types

SOURCE = "tflite/delegates/gpu/common/model_builder.cc"
SHARED = "tflite/tools/versioning/gpu_compatibility.cc"
READER = "tflite/delegates/gpu/common/object_reader.h: ReadTensor"

Row = tuple[Check, ...]


def graph(*checks: Check) -> Row:
    """Return the checks with the code "graph": the delegate rejects the entire graph."""
    return tuple(replace(check, code="graph", source=f"{SOURCE}: Parse") for check in checks)


def shared(*checks: Check) -> Row:
    """Return the checks with their source, a function that the Analyzer uses too."""
    return tuple(check.at(f"{SHARED}: CheckGpuDelegateCompatibility") for check in checks)


ONE: Row = shared(runtime(1), results(1))
UNARY: Row = shared(runtime(1), constants(0), results(1))
PARSED_PAIR: Row = graph(arity(2), different_operands(), constant_of_one_image())
BINARY: Row = (version(2), *shared(one_or_two_runtime(), results(1)), *PARSED_PAIR)
ADDED: Row = (
    *shared(arity(2), broadcasts(standard_fits, "only few ranks are broadcast").since("2.17")),
    *PARSED_PAIR,
)
COMPARED: Row = (version(2), consumed_as_float(), *PARSED_PAIR)
REDUCE: Row = (
    *shared(runtime(1), constants(1), results(1), is_constant(1, "axes", {"INT32"})),
    *graph(axes_exist(1)),
)
POOL: Row = (
    version(2),
    *shared(*ONE, positive("filter_height", "filter_width", "stride_h", "stride_w"), activation()),
)
PADS: Row = (
    version(2),
    *shared(*ONE, paddings_shape()),
    *graph(is_constant(1, "paddings", {"INT32"})),
)
STEPS = positive("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")
BLOCK: Row = shared(*ONE, above_one("block_size"))

UNARIES = (
    *("ABS", "COS", "ELU", "EXP", "FLOOR", "GELU", "LOG", "LOGISTIC", "NEG", "RSQRT", "SIGN", "SIN"),
    *("SQRT", "SQUARE", "TANH"),
)
BINARIES = (*("FLOOR_DIV", "FLOOR_MOD", "LOGICAL_AND", "MAXIMUM", "MINIMUM", "POW", "SQUARED_DIFFERENCE"),)
COMPARES = ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")

ELEMENTWISE: dict[str, Row] = {
    **dict.fromkeys(UNARIES, (version(2), *UNARY)),
    "HARD_SWISH": ONE,
    **dict.fromkeys(
        ["RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "LEAKY_RELU"],
        (version(2), *graph(is_runtime(0, "input"))),
    ),
    "SOFTMAX": (version(2), *shared(attribute("beta", [1.0])), *graph(is_runtime(0, "input"))),
    "PRELU": (version(1), *graph(is_runtime(0, "input"), is_constant(1, "slopes"), prelu_alpha())),
    **dict.fromkeys(BINARIES, BINARY),
    **dict.fromkeys(["DIV", "SUB"], (*BINARY, *shared(activation()))),
    **dict.fromkeys(COMPARES, COMPARED),
    "ADD": (version(2), *ADDED, *graph(activation())),
    "ADD_N": (version(2), *shared(arity(2)), *PARSED_PAIR),
    "MUL": (version(3), *shared(one_covers_the_other().until("2.17")), *ADDED, *shared(activation())),
}

LAYERS: dict[str, Row] = {
    **dict.fromkeys(["AVERAGE_POOL_2D", "MAX_POOL_2D"], POOL),
    "BATCH_MATMUL": (*shared(arity(2), results(1)), *graph(constant_second_matrix())),
    "CONV_2D": (
        version(6),
        *shared(runtime(1, 2), results(1), STEPS, activation()),
        *graph(rank(1, "weights", [4]), whole_groups(), readable_weights()),
    ),
    "DEPTHWISE_CONV_2D": (
        version(6),
        *shared(runtime(1, 2), results(1), STEPS, activation(), depthwise_shapes()),
        *shared(one_channel_multiplied().until("2.21")),
        *graph(readable_weights()),
    ),
    "TRANSPOSE_CONV": (
        version(3),
        *shared(runtime(1, 2), results(1), positive("stride_h", "stride_w")),
        *graph(readable_weights()),
    ),
    "FULLY_CONNECTED": (
        version(9).cured_by("use_conv"),
        *shared(
            attribute("weights_format", [0]),
            runtime(1, 2),
            is_runtime(0, "input"),
        ),
        *shared(kept_dimensions()),
        *graph(dense_channels(), readable_weights(), activation()),
    ),
    "DEQUANTIZE": (
        version_of_integers(3),
        *shared(arity(1), results(1), dtype(0, "an input", ["INT8", "UINT8", "INT4", "FLOAT16"])),
    ),
    "QUANTIZE": (version(2), *ONE),
    "DENSIFY": (version(1), *shared(runtime(0), results(1))),
}

MOVES: dict[str, Row] = {
    "RESHAPE": (version(1), *shared(runtime(1).cured_by("fold_reshape"), results(1))),
    "TRANSPOSE": (
        version(4),
        *shared(runtime(1).cured_by("fold_transpose"), results(1)),
        *graph(is_constant(1, "permutation", {"INT32"}), index_per_axis()),
    ),
    "SLICE": (
        version(2),
        *shared(at_least(3), rank(0, "an input", [3, 4])),
        *graph(slice_indices()),
    ),
    "STRIDED_SLICE": (
        version(4),
        *shared(*(attribute(f"{name}_mask", [0]) for name in ("ellipsis", "new_axis", "shrink_axis"))),
        *shared(at_least(4), rank(0, "an input", [3, 4])),
        *graph(
            *(is_constant(i, name, {"INT32"}) for i, name in enumerate(["begin", "end", "strides"], 1)),
            forward_strides(),
            slices_to_its_result(),
        ),
    ),
    "SPLIT": graph(is_runtime(1, "input"), axes_exist(0, 1)),
    "SPLIT_V": graph(is_runtime(0, "input"), axes_exist(2, 0)),
    "CONCATENATION": (version(2), *graph(activation())),
    "PACK": (),
    "UNPACK": graph(is_runtime(0, "input")),
    "PAD": PADS,
    "PADV2": PADS,
    "MIRROR_PAD": (*PADS, *shared(attribute("mode", [0]))),
    "TILE": ONE,
    "RESIZE_BILINEAR": (version(3), *shared(*ONE, one_way_to_align())),
    "RESIZE_NEAREST_NEIGHBOR": (version(3), *ONE),
    "DEPTH_TO_SPACE": BLOCK,
    "SPACE_TO_DEPTH": (version(2), *BLOCK),
    "GATHER": (
        version(1),
        *shared(
            one_or_two_runtime(),
            rank(1, "indices", [1]),
            dtype(1, "indices", ["INT32"]),
        ),
        *graph(is_runtime(0, "table")),
    ),
    "CAST": shared(*ONE, cast_types()),
    **dict.fromkeys(
        ["SELECT", "SELECT_V2"],
        (
            version(1),
            *shared(arity(3), dtype(0, "a condition", FLOAT | {"BOOL"}), condition_fits()),
            *shared(matrices(constant=True).since("litert-2.1.6"), select_branches()),
            *shared(matrices(constant=False).since("2.15").until("litert-2.1.5")),
        ),
    ),
    "ONE_HOT": (
        version(1),
        *shared(
            arity(4),
            dtype(0, "indices", ["INT32"]),
            one_hot_axis(),
            one_hot_shapes(),
            is_constant(2, "on value", {"FLOAT32"}),
            is_constant(3, "off value", {"FLOAT32"}),
        ),
    ),
}

REDUCTIONS: dict[str, Row] = {
    **dict.fromkeys(["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"], REDUCE),
    "CUMSUM": (
        version(1),
        *shared(arity(2), results(1), dtype(0, "an input", FLOAT), is_constant(1, "axis", {"INT32"})),
    ),
}

UNJUDGED = frozenset(
    {
        *("LSTM", "CUSTOM:Convolution2DTransposeBias", "CUSTOM:MaxPoolingWithArgmax2D"),
        *("CUSTOM:MaxUnpooling2D", "CUSTOM:Resampler"),
    }
)
"""Kinds with a parser but no row here."""

LIMIT = ranks_below(5).at(f"{SOURCE}: IsAllAllowedTensors")

EVIDENCE = {
    **dict.fromkeys(["2.14", "2.15", "2.16"], "which follow what its Analyzer says of 2800 cases"),
    "2.17": "the last whose Analyzer checks anything, for the wheels of 2.18 and later lack the check",
    "2.21": "read from its source, as its wheel lacks the check; LiteRT 1.1 to 2.0 decide the same",
    "litert-2.1.0": "read from its source; none changed up to 2.1.5",
    "litert-2.1.6": "read from its source; none changed up to August 2026",
}
"""What the rules of a release rest on (docs/delegates.md, evidence for tflite-gpu)."""

NO_SOURCE = "LiteRT's repository held no source of it yet; ask for 2.17 and litert-1.1"
UNKNOWN = {
    **dict.fromkeys(["litert-1.0", "litert-1.0.0", "litert-1.0.1"], NO_SOURCE),
    "play-services": "Google replaces that delegate without the app, and nothing public says by which;"
    " ask for 2.17, 2.21 and litert-2.1.6; CompiledModel of play-services-litert is --delegate litert-gpu",
}
"""Why nobody can tell what a release's delegate takes."""

RULES = RuleSet(
    name="tflite-gpu",
    release="google-ai-edge/LiteRT f6745779, of August 2026",
    rules={**ELEMENTWISE, **LAYERS, **MOVES, **REDUCTIONS},
    every=(
        LIMIT,
        runtime_types(tflite_types).at(f"{SOURCE}: GetOpsToReplace"),
        sparse_floats().at(READER),
        readable_constants().at(READER),
    ),
    miscomputed=TFLITE_MISCOMPUTED,
    unjudged=UNJUDGED.__contains__,
    source=SOURCE,
    parsers=f"{SOURCE}: NewOperationParser",
    releases=tuple(EVIDENCE),
    default=tuple(EVIDENCE)[-1],
    spans={"RELU_0_TO_1": Span(first="litert-2.1.0")},
    evidence=EVIDENCE,
    unknown=UNKNOWN,
)


def winograd_tiles(conv: ConvSize) -> int:
    """Return the number of tiles of one result, whatever the batch."""
    return conv.tiles


def worth_winograd(device: Device, conv: ConvSize) -> bool:
    """Whether there are enough tiles (selectors/operation_selector.cc)."""
    return winograd_tiles(conv) >= device.winograd_tiles


def reads_broadcast(operand: Shape, result: Shape) -> bool:
    """Whether an axis but the batch's is 1, even where the result's is (gpu_operation.cc, NeedsBroadcast)."""
    return 1 in operand[1:] or (result[0] > 1 and operand[0] == 1)


DELEGATE = Delegate(
    name=RULES.name,
    title="TFLite's GPU delegate v2",
    rules=RULES,
    worth_winograd=worth_winograd,
    winograd_tiles=winograd_tiles,
    reads_broadcast=reads_broadcast,
    stacks_batches=True,
    splits_lookup=True,
)
