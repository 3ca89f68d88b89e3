"""Faults of real phones as data: configs/faults, each with the public report that it is from.

msd has measured none of them. Those of a delegate name the operations that they are about, and become
findings beside these; the others are about a GPU or its driver, whatever the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from msd.errors import BadConfig
from msd.files import schema
from msd.files.configs import CONFIGS, read_config
from msd.files.toml_keys import require_known_keys
from msd.graph.ir import Graph, Model, opset
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.prediction import registry
from msd.graph.prediction.device import Device
from msd.graph.prediction.device import shipped as devices
from msd.graph.prediction.fault_patterns import PATTERNS
from msd.graph.prediction.releases import Span
from msd.graph.prediction.rules.finding import Finding
from msd.graph.prediction.rules.view import View

FOLDER = CONFIGS / "faults"
ANY = "any"
VERSION = re.compile(r"\d+(\.[a-z\d]+)*(-[a-z\d.]+)?")
REPORTED = "reported, not measured by msd"


@dataclass(frozen=True)
class Fault:
    """A fault that somebody reported, in msd's words.

    `gpus` are names of configs/devices, or "any"; `seen_on` says which of them in the report's words.
    `software` is what ran, in its `versions` as far as the report names them, and `fixed_in` the first that
    is known to do better; `since` is the first release that has the fault, where the report says that an
    earlier one had not. With `delegates` it is about operations: those of the kind `operation`, in the place
    that `pattern` names (`msd.graph.prediction.fault_patterns`), or both. `happens` and `remedy` are clauses.
    `source` is the report, and `reported` its day.
    """

    title: str
    gpus: tuple[str, ...]
    seen_on: str
    software: str
    happens: str
    remedy: str
    source: str
    reported: str
    versions: tuple[str, ...] = ()
    fixed_in: str = ""
    since: str = ""
    delegates: tuple[str, ...] = ()
    operation: str = ""
    pattern: str = ""

    def concerns(self, device: Device) -> bool:
        """Whether the fault was seen on this GPU, on one described with it, or on any."""
        return ANY in self.gpus or device.name in self.gpus

    def is_in(self, release: str | None) -> bool:
        """Whether `release` of the delegate's library may have it; None is the newest."""
        return release is None or release in Span(self.since)

    @property
    def program(self) -> str:
        """The software, with its versions where the report names them."""
        fixed = f", better in {self.fixed_in}" if self.fixed_in else ""
        return " ".join([self.software, *filter(None, (", ".join(self.versions),))]) + fixed

    @property
    def sentence(self) -> str:
        """What happened, where, what to do, and whose word it is."""
        where = f"{self.program}; {self.seen_on}"
        return f"{self.happens} ({where}); {self.remedy} ({REPORTED}: {self.source}, {self.reported})"

    def holds(self, view: View, graph: Graph) -> bool:
        """Whether an operator of `graph` is one that the fault is about."""
        if self.operation and view.kind != self.operation:
            return False
        return not self.pattern or PATTERNS[self.pattern](view, graph)


@cache
def faults() -> tuple[Fault, ...]:
    """Return all faults of configs/faults, by file name."""
    return tuple(read_fault(path) for path in sorted(FOLDER.glob("*.toml")))


def read_fault(path: Path) -> Fault:
    """Return the fault in a TOML file; raises BadConfig with a sentence for one that makes no sense."""
    table = read_config(path, "the description of a fault")
    require_known_keys(str(path), table, set(Fault.__dataclass_fields__))
    try:
        fault: Fault = schema.read(Fault, _plain(table), path.name)
    except ValueError as problem:
        raise BadConfig(f"{path} is not the description of a fault: {problem}") from problem
    for flaw in _flaws(fault):
        raise BadConfig(f"{path}: {flaw}")
    return fault


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with dates as text."""
    return {key: value.isoformat() if type(value) is date else value for key, value in table.items()}


def _flaws(fault: Fault) -> Iterator[str]:
    yield from _unknown("gpus", fault.gpus, (*devices(), ANY))
    yield from _unknown("delegates", fault.delegates, tuple(registry.delegates()))
    yield from _unknown("pattern", filter(None, [fault.pattern]), tuple(PATTERNS))
    for version in (*fault.versions, *filter(None, [fault.fixed_in, fault.since])):
        if not VERSION.fullmatch(version):
            yield f"{version!r} is no version; write one such as '2.1.5', each by itself"
    yield from _operation(fault.operation)
    if not fault.gpus:
        yield f"gpus is empty; name some of configs/devices, or {ANY!r}"
    if bool(fault.delegates) != bool(fault.operation or fault.pattern):
        yield "delegates go with an operation or a pattern, and neither without the other"
    if not fault.source.startswith("https://"):
        yield f"source is {fault.source!r}; a public address that begins with https:// was expected"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", fault.reported):
        yield f"reported is {fault.reported!r}; a day such as 2026-07-10 was expected"


def _operation(kind: str) -> Iterator[str]:
    try:
        opset.spec(kind or "ADD")
    except TypeError as problem:
        yield f"operation: {problem}"


def _unknown(key: str, values: Any, known: tuple[str, ...]) -> Iterator[str]:
    for value in values:
        if value not in known:
            yield f"{key} has {value!r}; there are {', '.join(known)}"


def reported_findings(
    model: Model, delegate: str, device: Device, release: str | None = None
) -> tuple[Finding, ...]:
    """Return what was reported of a model's operations under a delegate on a device, in the file's order.

    `release` is one of the delegate's library; None is the newest.
    """
    asked = [f for f in faults() if delegate in f.delegates and f.is_in(release)]
    concerned = [f for f in asked if f.concerns(device)]
    ops = ((graph, op) for graph in executed_graphs(model) for op in graph.ops)
    views = ((View(place, op), graph) for place, (graph, op) in enumerate(ops))
    return tuple(
        _finding(view, fault) for view, graph in views for fault in concerned if fault.holds(view, graph)
    )


def _finding(view: View, fault: Fault) -> Finding:
    return Finding(
        op=view.place,
        kind=view.kind,
        tensors=tuple(t.name for t in view.outputs[:1]),
        severity="reported",
        code="reported",
        sentence=fault.sentence,
        fix=None,
        source=fault.source,
    )


def driver_faults(device: Device) -> tuple[Fault, ...]:
    """Return what was reported of a GPU or of its driver whatever the file, the newest first."""
    found = [fault for fault in faults() if not fault.delegates and fault.concerns(device)]
    return tuple(sorted(found, key=lambda fault: fault.reported, reverse=True))
