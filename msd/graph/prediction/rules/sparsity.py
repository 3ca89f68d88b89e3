"""Checks of sparse constants, which store only what is not zero."""

from __future__ import annotations

from msd.graph.prediction.rules.checks import Check, Flaw
from msd.graph.prediction.rules.view import FLOATS, View

REWRITE = "densify_constants"


def dense_constants() -> Check:
    """No constant is sparse: ML Drift reads what one stores as if it were all of it."""

    def test(view: View) -> Flaw | None:
        sparse = tuple(t for t in view.constants if t.sparsity is not None)
        names = ", ".join(t.name for t in sparse)
        clause = f"reads {names} sparse, and takes the stored values for a dense constant"
        return (clause, sparse) if sparse else None

    return Check("sparsity", test, severity="wrong", fix=REWRITE)


def sparse_floats() -> Check:
    """Sparse constants are of floats: TensorFlow Lite's delegate expands no others."""

    def test(view: View) -> Flaw | None:
        other = tuple(t for t in view.constants if t.sparsity is not None and t.dtype not in FLOATS)
        dtypes = ", ".join(dict.fromkeys(t.dtype for t in other))
        return (
            (f"reads a sparse constant of {dtypes}; FLOAT32 and FLOAT16 are supported", other)
            if other
            else None
        )

    return Check("graph", test, fix=REWRITE)
