"""A delegate's rules as one object, and what they say of one operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from msd.prediction.rules.checks import Check
from msd.prediction.rules.finding import Finding
from msd.prediction.rules.view import View

MALFORMED = (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What a check raises at an operation without the operands, ranks or attributes that its kind has."""


@dataclass(frozen=True)
class RuleSet:
    """What one delegate takes.

    `rules` has a row for each kind of operation: its checks, in the delegate's order. `every` are the checks
    of all operations that have a row, run after those. `dangers` are what the delegate takes and gets wrong
    (or may), by kind; they are asked only of what nothing rejects. A kind in `unjudged` is known to the
    delegate, but no rule here says when it takes it; any other kind without a row it does not know.
    `source` is where the rows stand, `parsers` the list of kinds, both files of LiteRT's.
    """

    name: str
    release: str
    rules: Mapping[str, tuple[Check, ...]]
    every: tuple[Check, ...]
    dangers: Mapping[str, tuple[Check, ...]]
    unjudged: Callable[[str], bool]
    source: str
    parsers: str

    def findings(self, view: View) -> Iterator[Finding]:
        """Yield what there is to say of one operation; nothing where it is taken and right."""
        checks = self.rules.get(view.kind)
        if checks is None:
            yield self._without_a_row(view)
            return
        try:
            yield from list(self._judged(view, checks))
        except MALFORMED:
            yield self._malformed(view)

    def _judged(self, view: View, checks: Iterable[Check]) -> Iterator[Finding]:
        rejected = next(self._all(view, (*checks, *self.every)), None)
        if rejected is not None:
            yield rejected
        else:
            yield from self._all(view, self.dangers.get(view.kind, ()))

    def _without_a_row(self, view: View) -> Finding:
        if self.unjudged(view.kind):
            words = f"{_where(view)} is known to {self.name}, but no rule here says when it is taken."
            return Finding(
                op=view.place,
                kind=view.kind,
                tensors=(),
                severity="unknown",
                code="no-rule",
                sentence=words,
                fix=None,
                source=self.parsers,
            )
        words = (
            f"{_where(view)} is of a kind that {self.name} does not have; other operations must do its work."
        )
        return Finding(
            op=view.place,
            kind=view.kind,
            tensors=(),
            severity="rejected",
            code="unsupported",
            sentence=words,
            fix=None,
            source=self.parsers,
        )

    def _malformed(self, view: View) -> Finding:
        names = tuple(dict.fromkeys(t.name for t in view.operands))
        words = (
            f"{_where(view)} has operands or attributes that make no {view.kind}; its rules cannot be read."
        )
        return Finding(
            op=view.place,
            kind=view.kind,
            tensors=names,
            severity="unknown",
            code="malformed",
            sentence=words,
            fix=None,
            source=self.source,
        )

    def _all(self, view: View, checks: Iterable[Check]) -> Iterator[Finding]:
        for check in checks:
            flaw = check.test(view)
            if flaw is not None:
                clause, tensors = flaw
                names = tuple(dict.fromkeys(t.name for t in tensors))
                sentence = f"{_where(view)} {clause}."
                source = check.source or self.source
                yield Finding(
                    op=view.place,
                    kind=view.kind,
                    tensors=names,
                    severity=check.severity,
                    code=check.code,
                    sentence=sentence,
                    fix=check.fix,
                    source=source,
                )


def _where(view: View) -> str:
    made = f", which makes {view.outputs[0].name}," if view.outputs else ""
    return f"{view.kind} at {view.place}{made}"
