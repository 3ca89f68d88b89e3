"""A finding of a rule about an operator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["rejected", "wrong", "unknown", "reported", "note"]
"""`rejected`: the delegate leaves it to the CPU or refuses the file. `wrong`: it computes something else.
`unknown`: no rule decides. `reported`: somebody saw a fault on a phone, and msd did not measure it. `note`:
it works, but the user should know."""


@dataclass(frozen=True)
class Finding:
    """One finding about one operator.

    `op` is the operator's index in the file, from 0, over all graphs that run (as `msd.measure.judging`
    counts). `tensors` are the names of those at fault. `code` is a short stable word for the rule. `sentence`
    names the fault, its place, and the remedy. `fix` names the rewrite of graph_rewrites/ that fixes it, None
    where there is none. `source` is the file of LiteRT that contains the rule, or says that it was measured.
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
