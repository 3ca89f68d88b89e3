"""Which dtypes each delegate takes at run time, by the kind of operation.

Constants are not looked at here: what an operation makes of those is its own rule.
"""

from __future__ import annotations

from collections.abc import Callable

from msd.ir import Tensor
from msd.prediction.rules.checks import Check, Flaw
from msd.prediction.rules.view import FLOATS, View

Types = frozenset[str]
Allowed = Callable[[str], tuple[Types, Types]]
"""Returns the dtypes that operations of a kind may read, and those they may make."""

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
    """Return ML Drift's, as `GetOpsToReplaceWithOptions` makes them up."""
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


def tflite_types(kind: str) -> tuple[Types, Types]:
    """Return the classic delegate's, as `GetOpsToReplace` makes them up."""
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
    """What is known only when the graph runs is of a dtype that the operation takes."""

    def test(view: View) -> Flaw | None:
        reads, makes = allowed(view.kind)
        made = tuple(t for t in view.outputs if t.data is None)
        return _flaw("reads", view.runtime, reads) or _flaw("makes", made, makes)

    return Check("dtype", test)


def _flaw(verb: str, tensors: tuple[Tensor, ...], allowed: Types) -> Flaw | None:
    others = tuple(t for t in tensors if t.dtype not in allowed)
    found = ", ".join(dict.fromkeys(t.dtype for t in others))
    return (f"{verb} {found}; {', '.join(sorted(allowed))} are taken", others) if others else None
