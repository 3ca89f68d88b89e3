"""The rules' word on a case beside the real delegate's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from msd.graph.prediction.rules import Finding, predict
from tests.oracle import (
    cases_chains,
    cases_elementwise,
    cases_layers,
    cases_lookups,
    cases_paddings,
    cases_random,
    cases_reductions,
    cases_shapes,
)
from tests.oracle.ask import Answer
from tests.oracle.case import Case

FILES = (
    cases_elementwise,
    cases_layers,
    cases_shapes,
    cases_lookups,
    cases_reductions,
    cases_chains,
    cases_paddings,
    cases_random,
)
ORDER = ("rejected", "unknown", "wrong")


@cache
def every_case() -> tuple[Case, ...]:
    """Return every case there is."""
    return tuple(case for file in FILES for case in file.cases())


@dataclass(frozen=True)
class Compared:
    """What the rules find in a case and what the delegate answered."""

    case: Case
    findings: tuple[Finding, ...]
    answer: Answer

    @property
    def valid(self) -> bool:
        """Whether the file is one that the runtime loads at all."""
        return self.answer.verdict != "invalid"

    @property
    def predicted(self) -> str:
        """The rules' verdict: rejected, unknown, wrong or right."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in ORDER if severity in found), "right")

    @property
    def agrees(self) -> bool:
        """Whether the verdicts are one; of rejected operations, whether it is the same kinds.

        A file that is refused or crashes is as good as rejected. Where there are no numbers to compare, it
        is enough that both take it. What is rejected without a reason may be anything: it is a DEQUANTIZE
        of a float16 constant that a rejected operation reads.
        """
        answer = self.answer
        if answer.verdict == "unchecked":
            return self.predicted != "rejected"
        if not answer.rejected:
            return self.predicted == {"failed": "rejected"}.get(answer.verdict, answer.verdict)
        told = {kind for kind, reason in answer.rejected if reason}
        found = {finding.kind for finding in self.findings if finding.severity == "rejected"}
        return told <= found <= {kind for kind, _ in answer.rejected}

    def to_json(self) -> dict[str, Any]:
        """Return both sides' words."""
        return {
            "case": self.case.name,
            "rules": self.predicted,
            "findings": [finding.sentence for finding in self.findings],
            "delegate": self.answer.verdict,
            "rejected": [list(pair) for pair in self.answer.rejected],
            "failure": self.answer.failure,
            "psnr": None if self.answer.psnr is None else round(self.answer.psnr, 1),
        }


def compared(case: Case, answer: Answer) -> Compared:
    """Return the rules' findings beside the answer."""
    return Compared(case, predict(case.model, "litert-gpu"), answer)
