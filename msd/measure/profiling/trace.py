"""Dispatches as a trace that Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) open.

The format is "Trace Event Format", its JSON object form: events of phase X have a beginning and a duration in
microseconds, those of phase M name processes and threads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msd.measure.profiling.kinds import kind_of
from msd.measure.profiling.result import NetworkCosts

MICROSECONDS = 1e6


def to_trace(networks: Sequence[NetworkCosts]) -> str:
    """Return the trace as JSON: a process for each network, the medians of its dispatches end to end."""
    events = [event for number, each in enumerate(networks, 1) for event in _events(number, each)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, indent=1) + "\n"


def _events(number: int, network: NetworkCosts) -> Iterator[dict[str, Any]]:
    yield _named("process_name", number, f"{network.component} on {network.adapter}, {network.precision}")
    yield _named("thread_name", number, "dispatches")
    start = 0.0
    for place, each in enumerate(network.dispatches):
        yield {
            "name": each.kernel,
            "cat": kind_of(each.kernel),
            "ph": "X",
            "ts": start * MICROSECONDS,
            "dur": each.seconds * MICROSECONDS,
            "pid": number,
            "tid": 1,
            "args": {
                "operation": each.operation,
                "dispatch": place,
                "workgroups": list(each.groups),
                "flops": each.flops,
                "bytes": each.bytes,
            },
        }
        start += each.seconds


def _named(what: str, number: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": number, "tid": 1, "args": {"name": name}}
