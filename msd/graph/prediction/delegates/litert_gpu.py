"""The operators that LiteRT 2.3.0's GPU accelerator supports: ML Drift's default front end.

The rows follow `IsSupported` of each parser in `SOURCE`, and what some of them call in TensorFlow Lite's
gpu_compatibility.cc.
MEASURED marks checks that are not in the source: the delegate accepts the operator, then rejects the graph.
"""

from __future__ import annotations

from msd.graph.ir.executed_graphs import COMPOSITE
from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.device import ConvSize, Device, Shape, slices
from msd.graph.prediction.releases import Span
from msd.graph.prediction.rules.by_release import (
    BOTH_RUNTIME,
    IDS_CONSTANT,
    INTERFACES,
    NO_INT32,
    NOT_BOTH_CONSTANT,
    SECOND_CONSTANT,
    SECOND_TRANSPOSED,
    TABLE_CONSTANT,
    TABLE_OF_INTEGERS,
    WIDE_IDS,
    types_inside,
    versions,
)
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
    numpy_fits,
    one_or_two_runtime,
    positive,
    rank,
    ranks_below,
    results,
    runtime,
    version,
)
from msd.graph.prediction.rules.composites import attention_misshapen, composite_unknown, composite_unproved
from msd.graph.prediction.rules.data_movement import (
    axes_exist,
    bitcast_shapes,
    constant_operand,
    constants_of_one_rank,
    different_operands,
    forward_strides,
    index_per_axis,
    known_at_rest,
    lookup_table,
    one_hot_axis,
    one_hot_channels,
    one_image,
    one_way_to_align,
    paddings_shape,
    pads_numbers,
    pads_with_a_number,
    prelu_alpha,
    select_branches,
    slice_indices,
    slices_to_its_result,
    sums_several_images,
    update_fits,
    whole_slices,
    with_a_rank,
)
from msd.graph.prediction.rules.interface import GraphCheck, returned_inputs
from msd.graph.prediction.rules.layers import (
    convolution_shapes,
    depthwise_shapes,
    dequantize_constant_shape,
    first_operand_constant,
    flat_rows,
    groups_of_four,
    plain_weights,
    scales_known,
    sized_weights,
    version_of_integers,
    weights_of_two_dimensions,
)
from msd.graph.prediction.rules.miscomputed import LITERT_MISCOMPUTED
from msd.graph.prediction.rules.ruleset import RuleSet
from msd.graph.prediction.rules.sparsity import REWRITE, dense_constants
from msd.graph.prediction.rules.types import FLOAT, litert_types, nightly_types, runtime_types

SOURCE = "ml_drift_delegate/tflite/model_builder.cc"
MEASURED = "measured with ai-edge-litert 2.3.0"

Row = tuple[Check, ...]

LIMIT = ranks_below(5).at(f"{SOURCE}: IsAllAllowedTensors")
ONE: Row = (runtime(1), results(1))
UNARY: Row = (runtime(1), constants(0), results(1))
PAIR: Row = (
    with_a_rank(),
    constant_operand(),
    constants_of_one_rank().at(MEASURED),
    different_operands(),
)
BINARY: Row = (arity(2), NOT_BOTH_CONSTANT, results(1), *PAIR)
ADDED: Row = (
    arity(2),
    NOT_BOTH_CONSTANT,
    broadcasts(numpy_fits, "the shapes do not fit"),
    *PAIR,
)
FIXED = known_at_rest().at(MEASURED)
ONE_IMAGE = one_image().at(MEASURED)
REDUCE: Row = (runtime(1), constants(1), is_constant(1, "axes", {"INT32"}), axes_exist(1), results(1))
POOL: Row = (
    version(2),
    *ONE,
    positive("filter_height", "filter_width", "stride_h", "stride_w"),
    activation(),
)
RESIZE: Row = (version(3), *ONE, FIXED)
PADS: Row = (
    *ONE,
    paddings_shape(),
    FIXED,
    is_constant(1, "paddings", {"INT32"}),
    pads_numbers().at(MEASURED),
)
SELECTS: Row = (version(1), arity(3), dtype(0, "a condition", FLOAT | {"BOOL"}), select_branches())

UNARIES = (
    *("CEIL", "COS", "ELU", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "LOGISTIC", "NEG", "ROUND", "RSQRT"),
    *("SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
)
BINARIES = (
    *("ATAN2", "EQUAL", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND"),
    *("LOGICAL_OR", "NOT_EQUAL", "POW", "RIGHT_SHIFT", "SQUARED_DIFFERENCE", "STABLEHLO_SHIFT_LEFT"),
)

ELEMENTWISE: dict[str, Row] = {
    **dict.fromkeys(UNARIES, (version(2), *UNARY)),
    **dict.fromkeys(["COS", "SIN"], (*versions(1, "2.1.5", 2), *UNARY)),
    "ABS": (version(5), *UNARY),
    "GELU": (*versions(2, "2.1.5", 3), *UNARY),
    "HARD_SWISH": ONE,
    **dict.fromkeys(["RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "LEAKY_RELU"], (version(2), *UNARY)),
    "SOFTMAX": (*versions(2, "2.1.5", 4), *UNARY, attribute("beta", [1.0])),
    "PRELU": (version(1), is_constant(1, "slopes"), prelu_alpha()),
    **dict.fromkeys(BINARIES, (version(2), *BINARY)),
    "ADD": (*versions(2, "2.1.5", 6), *ADDED, activation()),
    "ADD_N": (version(6), arity(2), *PAIR),
    "DIV": (version(2), *BINARY, activation()),
    "FLOOR_DIV": (version(3), *BINARY),
    **dict.fromkeys(["MAXIMUM", "MINIMUM"], (version(4), *BINARY)),
    "MUL": (*versions(4, "2.1.5", 8), *ADDED, activation()),
    "SUB": (version(2).cured_by("stamp_versions"), *BINARY, activation()),
}

LAYERS: dict[str, Row] = {
    **dict.fromkeys(["AVERAGE_POOL_2D", "MAX_POOL_2D"], POOL),
    "BATCH_MATMUL": (
        arity(2),
        results(1),
        first_operand_constant(),
        weights_of_two_dimensions(),
        SECOND_CONSTANT,
        SECOND_TRANSPOSED,
    ),
    "CONV_2D": (
        version(6),
        is_runtime(0, "input"),
        runtime(1, 2),
        results(1),
        positive("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor"),
        activation(),
        convolution_shapes(),
        plain_weights().at(MEASURED),
        sized_weights().at(MEASURED),
        groups_of_four().at(MEASURED),
    ),
    "DEPTHWISE_CONV_2D": (
        version(6),
        runtime(1, 2),
        results(1),
        positive("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor"),
        activation(),
        depthwise_shapes(),
        plain_weights().at(MEASURED),
    ),
    "TRANSPOSE_CONV": (version(3), runtime(1, 2), results(1), positive("stride_h", "stride_w")),
    "FULLY_CONNECTED": (
        version(14),
        attribute("weights_format", [0]),
        runtime(1, 2),
        is_runtime(0, "input"),
        results(1),
        plain_weights().at(MEASURED),
        sized_weights().at(MEASURED),
        LIMIT,
        flat_rows().at(MEASURED),
        activation(),
    ),
    "DEQUANTIZE": (
        version_of_integers(3),
        arity(1),
        scales_known(),
        dequantize_constant_shape().at(MEASURED),
    ),
    "QUANTIZE": (version(2), *ONE),
    "EMBEDDING_LOOKUP": (arity(2), results(1), rank(0, "ids", [1]), lookup_table()),
}

MOVES: dict[str, Row] = {
    "RESHAPE": (version(1), runtime(1).cured_by("fold_reshape"), results(1), FIXED),
    "TRANSPOSE": (
        *versions(5, "2.1.5", 9),
        runtime(1).cured_by("fold_transpose"),
        results(1),
        is_constant(1, "permutation", {"INT32"}),
        index_per_axis(),
    ),
    "SLICE": (
        *versions(2, "2.1.5", 8),
        at_least(3),
        is_runtime(0, "input"),
        slice_indices(),
        rank(0, "an input", [1, 2, 3, 4]),
    ),
    "STRIDED_SLICE": (
        version(2),
        attribute("ellipsis_mask", [0]),
        attribute("new_axis_mask", [0]),
        attribute("shrink_axis_mask", [0]),
        at_least(4),
        *(is_constant(i, name, {"INT32"}) for i, name in enumerate(["begin", "end", "strides"], 1)),
        forward_strides(),
        LIMIT,
        slices_to_its_result(),
    ),
    "SPLIT": (
        *versions(4, "2.1.6", 5),
        is_runtime(1, "input").at(MEASURED),
        axes_exist(0, 1),
        above_one("num_splits"),
    ),
    "SPLIT_V": (runtime(1), constants(2), axes_exist(2, 0)),
    "CONCATENATION": (*versions(2, "2.1.5", 6), activation()),
    "PACK": versions(4, "2.1.6", 5),
    "UNPACK": (is_runtime(0, "input").at(MEASURED),),
    **dict.fromkeys(["PAD", "PADV2"], (version(5), *PADS, pads_with_a_number().at(MEASURED))),
    "MIRROR_PAD": (version(5), attribute("mode", [0]), *PADS),
    "TILE": (*ONE, FIXED, LIMIT.cured_by("resize_upsample")),
    "REVERSE_V2": (runtime(1), constants(1), is_constant(1, "axes", {"INT32"}), axes_exist(1), results(1)),
    "RESIZE_BILINEAR": (*RESIZE, one_way_to_align()),
    "RESIZE_NEAREST_NEIGHBOR": RESIZE,
    "DEPTH_TO_SPACE": (*ONE, above_one("block_size"), ONE_IMAGE),
    "SPACE_TO_DEPTH": (version(2), *ONE, above_one("block_size"), ONE_IMAGE),
    "GATHER": (
        one_or_two_runtime(),
        rank(1, "indices", [1]).cured_by("use_embedding_lookup"),
        dtype(1, "indices", ["INT32"]),
        TABLE_CONSTANT,
        TABLE_OF_INTEGERS,
        IDS_CONSTANT,
        BOTH_RUNTIME,
    ),
    "CAST": (arity(1), runtime(1), results(1)),
    "BITCAST": (*ONE, bitcast_shapes()),
    **dict.fromkeys(["SELECT", "SELECT_V2"], SELECTS),
    "ONE_HOT": (
        version(1),
        at_least(4),
        results(1),
        one_hot_axis(),
        one_hot_channels(),
        WIDE_IDS,
        is_constant(2, "on value").at(MEASURED),
        is_constant(3, "off value").at(MEASURED),
    ),
    "DYNAMIC_UPDATE_SLICE": (
        arity(3),
        rank(2, "a place", [1]),
        dtype(2, "a place", ["INT32"]),
        is_runtime(2, "place"),
        is_runtime(1, "update").at(MEASURED),
        update_fits(),
    ),
}

REDUCTIONS: dict[str, Row] = {
    **dict.fromkeys(["MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"], REDUCE),
    "SUM": (NO_INT32.until("2.1.2"), *REDUCE),
    **dict.fromkeys(["REDUCE_ALL", "REDUCE_ANY"], REDUCE),
    "ARG_MAX": (NO_INT32.until("2.2.0"), runtime(1), constants(1), results(1), axes_exist(1)),
    "CUMSUM": (
        version(1),
        arity(2),
        results(1),
        dtype(0, "an input", FLOAT),
        is_constant(1, "axis", {"INT32"}),
        sums_several_images().at(MEASURED),
    ),
    "TOPK_V2": (version(1), runtime(1), results(2), is_constant(1, "count"), whole_slices().at(MEASURED)),
}

COMPOSITES: dict[str, Row] = {
    COMPOSITE: (
        Check("no-rule", composite_unknown, "unknown", source=f"{SOURCE}: NewOperationParser"),
        arity(3, 4),
        results(1),
        Check("shape", attention_misshapen),
        Check("unproved", composite_unproved, "unknown"),
    ),
}

UNJUDGED = frozenset(
    {
        *("LSTM", "STABLEHLO_BROADCAST_IN_DIM", "STABLEHLO_CBRT", "STABLEHLO_CLAMP"),
        *("STABLEHLO_REMAINDER", "CUSTOM:custom_call.GroupNorm"),
        *("CUSTOM:custom_call.LayerNorm", "CUSTOM:custom_call.PixelShuffle", "CUSTOM:custom_call.RmsNorm"),
        *("CUSTOM:custom_call.absolute_positional_embedding", "CUSTOM:Convolution2DTransposeBias"),
        *("CUSTOM:custom_call.rotary_positional_embedding", "CUSTOM:MaxPoolingWithArgmax2D"),
        *("CUSTOM:MaxUnpooling2D", "CUSTOM:Resampler"),
    }
)
"""Kinds with a parser but no row here."""

RELEASES = ("2.1.2", "2.1.3", "2.1.4", "2.1.5", "2.1.6", "2.2.0", "2.3.0", "2.4.0.dev20261026")
"""Those with a GPU accelerator for Linux, which were asked; the last is the nightly wheel."""

SPARSE = dense_constants().at(MEASURED)
SUPPORTED = {**ELEMENTWISE, **LAYERS, **MOVES, **REDUCTIONS, **COMPOSITES}

RULES = RuleSet(
    name="litert-gpu",
    release="ai-edge-litert 2.3.0",
    rules=SUPPORTED,
    every=(
        LIMIT,
        runtime_types(litert_types).at(f"{SOURCE}: GetOpsToReplaceWithOptions").until("2.3.0"),
        types_inside(litert_types, nightly_types).since("2.4.0"),
        *INTERFACES,
    ),
    miscomputed={kind: (SPARSE, *LITERT_MISCOMPUTED.get(kind, ())) for kind in SUPPORTED},
    unjudged=UNJUDGED.__contains__,
    source=SOURCE,
    parsers=f"{SOURCE}: NewOperationParser",
    cures={"DENSIFY": REWRITE},
    graphs=(GraphCheck("interface", returned_inputs, "wrong", MEASURED),),
    releases=RELEASES,
    default="2.3.0",
    spans={"RELU_0_TO_1": Span(last="2.1.4"), "STABLEHLO_SHIFT_LEFT": Span(last="2.3.0")},
)


def winograd_tiles(conv: ConvSize) -> int:
    """Return the number of tiles of a batch's results together (ml_drift/common/winograd_util.cc)."""
    return conv.tiles * conv.batch


def worth_winograd(device: Device, conv: ConvSize) -> bool:
    """Whether there are enough tiles, and slices of inputs times slices of outputs."""
    deep_enough = slices(conv.inputs) * slices(conv.outputs) >= device.litert_winograd_slices
    return deep_enough and winograd_tiles(conv) >= device.litert_winograd_tiles


def reads_broadcast(operand: Shape, result: Shape) -> bool:
    """Whether an axis is shorter than the result's (common/task/gpu_operation.cc, NeedsBroadcast)."""
    return any(n < r for n, r in zip(operand, result, strict=True))


DELEGATE = Delegate(
    name=RULES.name,
    title="LiteRT 2, ML Drift",
    rules=RULES,
    worth_winograd=worth_winograd,
    winograd_tiles=winograd_tiles,
    reads_broadcast=reads_broadcast,
    joins_moves=True,
    keeps_integers=True,
    is_judged=True,
)
