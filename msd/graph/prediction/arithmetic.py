"""The additions and multiplications of TFLite's operators.

A multiply-add counts as two. Operators that compute each element of their result by itself count one for it,
whatever the function: an exponential is one, as a sum is. Operators that only move elements count nothing.
Convolutions are counted as such, not as the fewer products of Winograd's.
"""

from __future__ import annotations

import math

from msd.graph.ir import Op
from msd.graph.ir.executed_graphs import composite_name

MOVES = frozenset(
    {
        *("BITCAST", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE", "DEQUANTIZE", "DYNAMIC_UPDATE_SLICE"),
        *("EMBEDDING_LOOKUP", "EXPAND_DIMS", "FILL", "GATHER", "GATHER_ND", "MIRROR_PAD", "ONE_HOT", "PACK"),
        *("PAD", "PADV2", "RANGE", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SCATTER_ND", "SHAPE"),
        *("SLICE", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE"),
        *("UNPACK",),
    }
)
"""Operators that compute nothing."""

REDUCTIONS = frozenset(
    {
        *("ARG_MAX", "ARG_MIN", "CUMSUM", "MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN"),
        *("REDUCE_PROD", "SUM", "TOPK_V2"),
    }
)
"""Operators that look at each element of their operand once."""

ATTENTION = "odml.scaled_dot_product_attention"
"""LiteRT's composite for attention."""

SOFTMAX_STEPS = 4
"""Steps for each element of a softmax: maximum, exponential of a difference, sum, quotient."""

BILINEAR_STEPS = 7
"""Steps for each element of a bilinear resize: four products and three sums."""


def arithmetic(op: Op) -> int:
    """Return the additions and multiplications of an operator."""
    results = sum(result.size for result in op.outputs)
    if op.kind in MOVES or not op.operands:
        return 0
    if op.kind in REDUCTIONS:
        return op.operands[0].size
    if op.kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        return results * int(op.attrs["filter_height"]) * int(op.attrs["filter_width"])
    if op.kind == "SOFTMAX":
        return results * SOFTMAX_STEPS
    if op.kind == "RESIZE_BILINEAR":
        return results * BILINEAR_STEPS
    if composite_name(op) == ATTENTION:
        return _attention(op, results)
    return 2 * products if (products := _products(op, results)) else results


def _attention(op: Op, results: int) -> int:
    """Return the steps of queries (B, T, heads, width) with S keys: two products and a softmax of S a row."""
    keys = op.operands[1].shape if len(op.operands) > 1 else ()
    if len(keys) < 3 or not keys[-1]:
        return results
    return results * keys[-3] * 4 + results // keys[-1] * keys[-3] * SOFTMAX_STEPS


def _products(op: Op, results: int) -> int:
    """Return the multiply-adds of a matrix product or a convolution; 0 for every other operator."""
    shapes = [operand.shape for operand in op.operands[:3]]
    if op.kind == "TRANSPOSE_CONV" and len(shapes) > 2 and len(shapes[1]) == 4:
        return math.prod(shapes[2]) * math.prod(shapes[1][:3])
    if len(shapes) < 2:
        return 0
    if op.kind in ("CONV_2D", "FULLY_CONNECTED"):
        return results * math.prod(shapes[1][1:])
    if op.kind == "DEPTHWISE_CONV_2D":
        return results * math.prod(shapes[1][1:3])
    if op.kind == "BATCH_MATMUL" and len(shapes[0]) > 1:
        return results * shapes[0][-2 if op.attrs["adj_x"] else -1]
    return 0
