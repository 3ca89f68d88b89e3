"""The dtypes of runtime tensors that each delegate supports, by the kind of operator.

Constants have rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from msd.graph.ir import Tensor
from msd.graph.prediction.rules.checks import Check, Flaw
from msd.graph.prediction.rules.view import FLOATS, View

Types = frozenset[str]
Allowed = Callable[[str], tuple[Types, Types]]
"""A function from a kind of operator to the dtypes that it may read and those that it may produce."""

FLOAT: Types = frozenset(FLOATS)
BYTES: Types = frozenset({"INT8", "UINT8"})
BOOL: Types = frozenset({"BOOL"})
INT: Types = frozenset({"INT8", "INT16", "INT32"})
UINT: Types = frozenset({"UINT8", "UINT16", "UINT32"})
BRAIN: Types = frozenset({"BFLOAT16"})
INT32: Types = frozenset({"INT32"})
NONE: Types = frozenset()

COMPARE = frozenset({"EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"})
LOGICAL = frozenset({"LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR"})
REDUCE_BOOL = frozenset({"REDUCE_ALL", "REDUCE_ANY"})
WHOLE_NUMBERS = frozenset(
    {
        *("ABS", "ADD", "ATAN2", "COS", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "MUL"),
        *("NEG", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "RIGHT_SHIFT", "SIGN", "SIN", "SUB", "SUM"),
        *("STABLEHLO_SHIFT_LEFT", "TILE"),
    }
)
"""`IsIntSupportedOp` of ML Drift's front end."""

ANYTHING = frozenset(
    {
        *("BITCAST", "CAST", "CONCATENATION", "DYNAMIC_UPDATE_SLICE", "GATHER", "PACK", "PAD", "PADV2"),
        *("RESHAPE", "REVERSE_V2", "SELECT", "SELECT_V2", "SLICE", "STRIDED_SLICE", "TRANSPOSE"),
    }
)
"""`SupportAllPrecisionOp` of ML Drift's front end."""


def litert_types(kind: str) -> tuple[Types, Types]:
    """Return ML Drift's dtypes, as in `GetOpsToReplaceWithOptions`."""
    if kind in REDUCE_BOOL:
        return BOOL, BOOL
    if kind in LOGICAL:
        return BOOL | INT, BOOL | INT
    reads, makes = FLOAT | BYTES | BOOL | {"INT4"}, FLOAT | BYTES
    if kind == "ARG_MAX":
        reads, makes = reads | INT32, INT32
    if kind == "TOPK_V2":
        makes = makes | INT32
    if kind in ("EMBEDDING_LOOKUP", "ONE_HOT"):
        reads = reads | INT32
    if kind in COMPARE:
        reads, makes = reads | INT | UINT, makes | BOOL
    if kind in WHOLE_NUMBERS:
        reads, makes = reads | INT, makes | INT
    if kind in ANYTHING:
        every = INT | UINT | BOOL | BRAIN
        reads, makes = reads | every, makes | every
    return reads, makes


def nightly_types(kind: str) -> tuple[Types, Types]:
    """Return the dtypes of a graph's inputs and outputs with the nightly wheel, which checks fewer."""
    reads, makes = litert_types(kind)
    more = {"SPLIT": INT32, "UNPACK": INT32, "TILE": BOOL}.get(kind, NONE)
    return reads | more, makes | more | (INT32 if kind == "ONE_HOT" else NONE)


def tflite_types(kind: str) -> tuple[Types, Types]:
    """Return the dtypes of TensorFlow Lite's delegate, as in `GetOpsToReplace`."""
    reads, makes = FLOAT | BYTES, FLOAT | BYTES
    if kind in COMPARE | {"LOGICAL_AND"}:
        makes = makes | BOOL
    if kind == "CAST":
        reads, makes = reads | BOOL | INT32, makes | BOOL | INT32
    if kind in ("ONE_HOT", "GATHER"):
        reads = reads | INT32
    if kind in ("SELECT", "SELECT_V2", "LOGICAL_AND"):
        reads = reads | BOOL
    return reads, makes


def runtime_types(allowed: Allowed) -> Check:
    """Every runtime tensor has a dtype that the operator supports."""

    def test(view: View) -> Flaw | None:
        reads, makes = allowed(view.kind)
        results = tuple(t for t in view.outputs if t.data is None)
        return _flaw("reads", view.runtime, reads) or _flaw("makes", results, makes)

    return Check("dtype", test)


def _flaw(verb: str, tensors: tuple[Tensor, ...], allowed: Types) -> Flaw | None:
    others = tuple(t for t in tensors if t.dtype not in allowed)
    dtypes = ", ".join(dict.fromkeys(t.dtype for t in others))
    return (f"{verb} {dtypes}; {', '.join(sorted(allowed))} are supported", others) if others else None
