"""Errors that a kernel builder did not foresee: which operation they are about, and where they arose.

Their own words are a library's, about its arrays, and tell a user nothing; they stay in the traceback.
"""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb

import msd
from msd.errors import DelegateFailed
from msd.graph.ir import Op

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What kernel builders, and NumPy within them, raise for what they were not written for."""

PACKAGE = Path(msd.__file__).parent


def fault(clause: str, problem: Exception) -> DelegateFailed:
    """Return the error for what failed, in `clause`, with the place in the code where it did."""
    ours = [frame for frame in extract_tb(problem.__traceback__) if PACKAGE in Path(frame.filename).parents]
    last = ours[-1] if ours else None
    place = f" at {Path(last.filename).relative_to(PACKAGE).as_posix()}, line {last.lineno}" if last else ""
    return DelegateFailed(f"{clause} ({type(problem).__name__}{place})")


def operator_place(op: Op, number: int) -> str:
    """Return an operator for people: its kind, its number in the file, and what it makes."""
    return f"{op.kind}, operator {number} ({op.outputs[0].short_name})" if op.outputs else op.kind
