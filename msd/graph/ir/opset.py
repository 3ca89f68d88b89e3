"""TFLite's operators: their attributes and defaults, whether they commute, and the shapes of their results.

Kinds and attributes have the names of TFLite's schema (`CONV_2D`, `fused_activation_function`), and the
defaults come from it, so every builtin operator is known. Shape inference covers only the operators that
rewrites build.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from msd.graph.ir import shapes

Attrs = Mapping[str, Any]


class Operand(Protocol):
    """The properties of a tensor that shape inference needs."""

    shape: tuple[int, ...]
    dtype: str

    def values(self) -> np.ndarray[Any, Any]:
        """Return a small constant's values."""


Infer = Callable[[tuple[Operand, ...], Attrs], list[tuple[int, ...]]]


@dataclass(frozen=True)
class OpSpec:
    """An operator: `options` names the schema's options table, `attrs` holds its defaults."""

    kind: str
    options: str | None
    attrs: Attrs
    commutes: bool = False
    infer: Infer | None = None
    result_dtype: str | int | None = 0
    """The dtype of the results: a name, the position of the input with that dtype, or None for the attribute
    `out_data_type`."""


ENUMS: dict[str, type] = {
    "padding": schema.Padding,
    "fused_activation_function": schema.ActivationFunctionType,
    "in_data_type": schema.TensorType,
    "out_data_type": schema.TensorType,
    "quantized_bias_type": schema.TensorType,
}
"""Attributes that are stored as numbers and used here by name."""


@cache
def enum_names(enum: type) -> dict[int, str]:
    """Return {number: name} of one of the schema's enumerations."""
    own = {
        name: value for name, value in vars(enum).items() if not name.startswith("__")
    }  # as __firstlineno__
    return {value: name for name, value in own.items() if isinstance(value, int)}


_OPTIONS_OF = {
    **dict.fromkeys(["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"], "Pool2DOptions"),
    **dict.fromkeys(["MAXIMUM", "MINIMUM"], "MaximumMinimumOptions"),
    **dict.fromkeys(
        ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"],
        "ReducerOptions",
    ),
}
"""Operators whose options table has another name than the operator."""

_COMMUTES = {"ADD", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"}

UNARY = [
    "ABS",
    "CEIL",
    "COS",
    "ELU",
    "EXP",
    "FLOOR",
    "GELU",
    "HARD_SWISH",
    "LEAKY_RELU",
    "LOG",
    "LOGISTIC",
    "NEG",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "ROUND",
    "RSQRT",
    "SIGN",
    "SIN",
    "SQRT",
    "SQUARE",
    "TANH",
    "CAST",
    "DEQUANTIZE",
]
"""Operators on each element of one tensor."""

BINARY = ["ADD", "DIV", "FLOOR_DIV", "MAXIMUM", "MINIMUM", "MUL", "POW", "SQUARED_DIFFERENCE", "SUB"]
"""Operators on each pair of elements of two tensors."""

_COMPARE = [
    "EQUAL",
    "GREATER",
    "GREATER_EQUAL",
    "LESS",
    "LESS_EQUAL",
    "LOGICAL_AND",
    "LOGICAL_OR",
    "NOT_EQUAL",
]

_INFER: dict[str, Infer] = {
    **dict.fromkeys([*UNARY, "PRELU", "SOFTMAX"], shapes.same),
    **dict.fromkeys([*BINARY, *_COMPARE, "SELECT_V2"], shapes.broadcast),
    **dict.fromkeys(["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"], shapes.reduce),
    "BATCH_MATMUL": shapes.batch_matmul,
    "BROADCAST_TO": shapes.broadcast_to,
    "CONCATENATION": shapes.concatenation,
    "AVERAGE_POOL_2D": shapes.pool_2d,
    "CONV_2D": shapes.conv_2d,
    "DEPTHWISE_CONV_2D": shapes.depthwise_conv_2d,
    "MAX_POOL_2D": shapes.pool_2d,
    "EMBEDDING_LOOKUP": shapes.embedding_lookup,
    "EXPAND_DIMS": shapes.expand_dims,
    "FULLY_CONNECTED": shapes.fully_connected,
    "GATHER": shapes.gather,
    "PAD": shapes.pad,
    "RESHAPE": shapes.reshape,
    "RESIZE_NEAREST_NEIGHBOR": shapes.resize,
    "RESIZE_BILINEAR": shapes.resize,
    "SLICE": shapes.slice_,
    "SPLIT": shapes.split,
    "TILE": shapes.tile,
    "TRANSPOSE": shapes.transpose,
}

_RESULT_DTYPE: dict[str, str | int | None] = {
    **dict.fromkeys([*_COMPARE], "BOOL"),
    "CAST": None,
    "DEQUANTIZE": "FLOAT32",
    "EMBEDDING_LOOKUP": 1,
    "SELECT_V2": 1,
    "SPLIT": 1,
}

CUSTOM = "CUSTOM:"
"""The prefix of a custom operator's kind; its custom code follows."""

SIDE_EFFECTS = frozenset(
    [
        "CALL_ONCE",
        "ASSIGN_VARIABLE",
        "VAR_HANDLE",
        "READ_VARIABLE",
        "IF",
        "WHILE",
        "CALL",
        "DYNAMIC_UPDATE_SLICE",
        "HASHTABLE",
        "HASHTABLE_IMPORT",
        "HASHTABLE_FIND",
        "HASHTABLE_SIZE",
        "RANDOM_UNIFORM",
        "RANDOM_STANDARD_NORMAL",
        "MULTINOMIAL",
    ]
)
"""Operators that are never removed as dead and never merged."""


@cache
def _options_classes() -> dict[str, str]:
    names = [*vars(schema.BuiltinOptions), *vars(schema.BuiltinOptions2)]
    return {n.lower(): n for n in names if n.endswith("Options")}


@cache
def attribute_fields(options: str) -> dict[str, str]:
    """Return {schema name: object API field} of an options table: `stride_w` is `strideW` there."""
    fields = vars(getattr(schema, options + "T")())
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", f).lower(): f for f in fields}


def _default(name: str, value: object) -> object:
    enum = ENUMS.get(name)
    return enum_names(enum)[value] if enum and isinstance(value, int) else value


@cache
def attribute_defaults(options: str) -> dict[str, object]:
    """Return {schema name: default} of an options table."""
    fresh = getattr(schema, options + "T")()
    return {name: _default(name, getattr(fresh, field)) for name, field in attribute_fields(options).items()}


_DEFINED: dict[str, OpSpec] = {}


def define(spec: OpSpec) -> None:
    """Add an operator that is not TFLite's; raises ValueError for a kind with other properties."""
    known = hasattr(schema.BuiltinOperator, spec.kind) or _DEFINED.get(spec.kind, spec) != spec
    if known:
        raise ValueError(f"an operator {spec.kind} exists already")
    _DEFINED[spec.kind] = spec


@cache
def spec(kind: str) -> OpSpec:
    """Return the specification of `kind`; raises TypeError with the nearest name for an unknown kind."""
    if kind in _DEFINED:
        return _DEFINED[kind]
    if kind.startswith(CUSTOM):
        return OpSpec(kind=kind, options=None, attrs={})
    if not hasattr(schema.BuiltinOperator, kind):
        close = difflib.get_close_matches(kind, vars(schema.BuiltinOperator), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TypeError(f"no TFLite op named {kind!r}{hint}")
    options = _OPTIONS_OF.get(kind) or _options_classes().get(kind.replace("_", "").lower() + "options")
    return OpSpec(
        kind=kind,
        options=options,
        attrs=attribute_defaults(options) if options else {},
        commutes=kind in _COMMUTES,
        infer=_INFER.get(kind),
        result_dtype=_RESULT_DTYPE.get(kind, 0),
    )
