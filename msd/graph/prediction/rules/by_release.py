"""Checks of some releases of litert-gpu: what they alone reject, refuse or compute wrong.

All were measured: docs/results/oracle-by-version.json; docs/delegates.md has them as a table.
"""

from __future__ import annotations

from collections.abc import Iterable

from msd.graph.ir import Tensor
from msd.graph.prediction.rules.checks import Check, Flaw, Test, check, version
from msd.graph.prediction.rules.finding import Severity
from msd.graph.prediction.rules.types import Allowed
from msd.graph.prediction.rules.view import View, scale_count, shape_text

SOURCE = "measured, docs/results/oracle-by-version.json"


def _of_interface(view: View) -> Iterable[Tensor]:
    """Return the operator's tensors that the graph reads or, as far as nothing else reads them, returns."""
    yield from (t for t in view.op.operands if t.data is None and t.producer is None)
    yield from (t for t in view.outputs if not t.uses)


def interface_lacks(*dtypes: str, release: str) -> Check:
    """No input or output of the graph has one of `dtypes`: up to `release` there are no buffers of those."""

    def test(view: View) -> Flaw | None:
        unknown = tuple(t for t in _of_interface(view) if t.dtype in dtypes and not scale_count(t))
        names = ", ".join(dict.fromkeys(t.dtype for t in unknown))
        clause = f"has an input or output of the graph of {names}, for which the runtime makes no buffer"
        return (clause, unknown) if unknown else None

    return Check("graph", test, source=SOURCE).until(release)


def types_inside(allowed: Allowed, of_interface: Allowed) -> Check:
    """Inputs and outputs of the graph have dtypes `of_interface`, all other tensors those of `allowed`."""

    def test(view: View) -> Flaw | None:
        outer = tuple(_of_interface(view))
        reads, makes = allowed(view.kind)
        reads_outer, makes_outer = of_interface(view.kind)
        for tensors, dtypes, dtypes_outer in (
            (view.runtime, reads, reads_outer),
            (view.outputs, makes, makes_outer),
        ):
            other = tuple(t for t in tensors if t.dtype not in (dtypes_outer if t in outer else dtypes))
            if other:
                names = ", ".join(dict.fromkeys(t.dtype for t in other))
                return f"uses {names}; {', '.join(sorted(dtypes))} are supported", other
        return None

    return Check("dtype", test, source=SOURCE)


def _quantised_interface(view: View) -> Flaw | None:
    scaled = tuple(t for t in _of_interface(view) if scale_count(t) and t.dtype == "INT8")
    return ("reads or makes a quantised input or output of the graph", scaled) if scaled else None


def _second_constant(view: View) -> Flaw | None:
    w = view.operands[1]
    clause = f"multiplies by a constant of shape {shape_text(w.shape)}; a matrix of rank 2 is supported"
    return (clause, (w,)) if w.data is not None and len(w.shape) > 2 else None


def _second_transposed(view: View) -> Flaw | None:
    w = view.operands[1]
    square = w.shape[-1] == w.shape[-2] > 1
    if not view.attrs["adj_y"] or (w.data is not None and len(w.shape) == 2) or square:
        return None
    return "has adj_y; use an explicit TRANSPOSE", (w,)


def _table_constant(view: View) -> Flaw | None:
    table = view.operands[0]
    return (
        ("looks up a constant table; a runtime one is supported", (table,))
        if table.data is not None
        else None
    )


def _table_of_integers(view: View) -> Flaw | None:
    table = view.operands[0]
    small = table.data is not None and scale_count(table) > 0
    return (f"looks up a table of {table.dtype}; a float table is supported", (table,)) if small else None


def _lower_rank_first(view: View) -> Flaw | None:
    """A first tensor of lower rank with as many channels is repeated along wrong axes, if not of rank 1."""
    if len(view.runtime) != 2:
        return None
    a, b = view.runtime
    if not 1 < len(a.shape) < len(b.shape) or a.size == b.size or a.shape[-1] != b.shape[-1]:
        return None
    clause = f"broadcasts {shape_text(a.shape)}, the first tensor, to {shape_text(b.shape)} along other axes"
    return f"{clause} than NumPy's rule; put the tensor of higher rank first", (a, b)


def _ids_of_rank_two(view: View) -> Flaw | None:
    """Only indices that are an input of the graph."""
    ids = view.operands[0]
    if ids.producer is not None:
        return None
    return (
        (f"has indices of shape {shape_text(ids.shape)}; use rank 1", (ids,)) if len(ids.shape) > 1 else None
    )


def _top_of_rank_one(view: View) -> Flaw | None:
    x = view.operands[0]
    return (f"has shape {shape_text(x.shape)}; use rank 2 or more", (x,)) if len(x.shape) == 1 else None


def _wide_ids(view: View) -> Flaw | None:
    ids = view.operands[0]
    middle = ids.shape[1:-1] if len(ids.shape) > 3 else ids.shape[:-1]
    clause = f"has indices of shape {shape_text(ids.shape)}; only the last axis may exceed 1"
    return (clause, (ids,)) if any(n != 1 for n in middle) else None


def refused(code: str, test: Test, release: str, severity: Severity = "rejected") -> Check:
    """Return a measured check of releases up to `release`."""
    return Check(code, test, severity=severity, source=SOURCE).until(release)


def versions(earlier: int, release: str, newest: int) -> tuple[Check, Check]:
    """The operator has at most the version `newest`, up to `release` at most `earlier`."""
    return version(earlier).at(SOURCE).until(release), version(newest)


NOT_BOTH_CONSTANT = (
    check("constness", lambda v: bool(v.runtime), "reads two constants; one runtime tensor is required", 0, 1)
    .at(SOURCE)
    .until("2.2.0")
)
SECOND_CONSTANT = refused("constness", _second_constant, "2.1.2")
SECOND_TRANSPOSED = refused("graph", _second_transposed, "2.1.4").cured_by("transpose_matmul")
TABLE_CONSTANT = refused("constness", _table_constant, "2.1.2")
TABLE_OF_INTEGERS = refused("graph", _table_of_integers, "2.1.3")
IDS_CONSTANT = (
    check("graph", lambda v: not (v.is_runtime(0) and not v.is_runtime(1)), "has constant indices", 1)
    .at(SOURCE)
    .until("2.2.0")
)
BOTH_RUNTIME = (
    check("graph", lambda v: len(v.runtime) < 2, "looks up a runtime table by runtime indices", 0, 1)
    .at(SOURCE)
    .until("2.1.2")
)
WIDE_IDS = refused("shape", _wide_ids, "2.1.6")
IDS_OF_RANK_TWO = refused("layout", _ids_of_rank_two, "2.1.3", "wrong")
TOP_OF_RANK_ONE = refused("layout", _top_of_rank_one, "2.1.3", "wrong")
LOWER_RANK_FIRST = refused("broadcast", _lower_rank_first, "2.1.5", "wrong").cured_by("align_ranks")
QUANTISED_INTERFACE = refused("graph", _quantised_interface, "2.1.3")
NO_INT32 = check("dtype", lambda v: v.operands[0].dtype != "INT32", "reads INT32", 0).at(SOURCE)
INTERFACES = (
    QUANTISED_INTERFACE,
    interface_lacks("UINT8", "INT16", "UINT16", "UINT32", release="2.1.5"),
    interface_lacks("INT8", "FLOAT16", release="2.1.2"),
)
