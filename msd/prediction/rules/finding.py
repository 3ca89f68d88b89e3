"""What a rule finds at an operation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["rejected", "wrong", "unknown", "note"]
"""The delegate leaves it to the CPU or refuses the file; takes it and computes something else; no rule knows;
worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One thing that a rule says of one operation.

    `op` is the operation's place in the file, from 0, over all graphs that run (as `msd.judging` counts).
    `tensors` are the names of those at fault. `code` is a short stable word for the rule. `sentence` says
    what is wrong, where, and what would be right. `fix` names the rewrite of graph_rewrites/ that cures it,
    None where there is none. `source` is the file of LiteRT's where the rule stands, or that it was measured.
    """

    op: int
    kind: str
    tensors: tuple[str, ...]
    severity: Severity
    code: str
    sentence: str
    fix: str | None
    source: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**asdict(self), "tensors": list(self.tensors)}
