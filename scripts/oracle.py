"""Ask the real delegate about every case of tests/oracle/ and compare the rules of litert-gpu with it.

    python scripts/oracle.py -o docs/results/oracle.json

Ends with exit code 1 where they agree on fewer than `ASKED` of the cases.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections import Counter, defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msd.run.runners.adapter import find
from msd.run.runners.runner import VulkanAdapter
from scripts.figures import save_figures
from tests.oracle.ask import in_turn
from tests.oracle.compare import Compared, compared, every_case

ASKED = 0.99
VERDICTS = ("right", "wrong", "rejected", "failed", "unchecked")


def main() -> int:
    """Ask the delegate, print a summary, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="ask only about cases whose name begins with this")
    options = parser.parse_args()
    begun, adapter = time.perf_counter(), find()
    cases = [case for case in every_case() if case.name.startswith(options.only)]
    done = [_shown(compared(case, answer)) for case, answer in in_turn(cases, adapter)]
    report = _report(done, adapter, time.perf_counter() - begun)
    save_figures(options.output, report, "msd/graph/prediction")
    print(f"{report['agree']} of {report['cases']} agree, in {report['seconds']} s")
    return 0 if report["agreement"] >= ASKED else 1


def _shown(one: Compared) -> Compared:
    if one.valid and not one.agrees:
        print(json.dumps(one.to_json(), ensure_ascii=False))
    return one


def _report(done: list[Compared], adapter: VulkanAdapter, seconds: float) -> dict[str, Any]:
    valid = [one for one in done if one.valid]
    agree = sum(one.agrees for one in valid)
    numbers = [one.answer.psnr for one in valid if one.answer.verdict == "right"]
    least = min((psnr for psnr in numbers if psnr is not None), default=math.inf)
    return {
        "command": "python scripts/oracle.py -o docs/results/oracle.json",
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "adapter": f"{adapter.name} ({adapter.type}), {adapter.origin}",
        "versions": {name: version(name) for name in ("ai-edge-litert", "numpy")},
        "seconds": round(seconds),
        "cases": len(valid),
        "not_loadable": len(done) - len(valid),
        "agree": agree,
        "agreement": round(agree / max(1, len(valid)), 5),
        "verdicts": dict(Counter(one.answer.verdict for one in valid)),
        "least_psnr_of_right": round(least, 1),
        "by_kind": _by_kind(valid),
        "disagreements": [one.to_json() for one in valid if not one.agrees],
        "seen_wrong": [one.case.name for one in valid if one.answer.verdict == "wrong"],
        "refused_or_crashed": {
            one.case.name: one.answer.failure for one in valid if one.answer.verdict == "failed"
        },
    }


def _by_kind(valid: list[Compared]) -> dict[str, dict[str, int]]:
    kinds: dict[str, list[Compared]] = defaultdict(list)
    for one in valid:
        kinds[one.case.kind].append(one)
    return {kind: _tally(kinds[kind]) for kind in sorted(kinds)}


def _tally(every: list[Compared]) -> dict[str, int]:
    seen = Counter(one.answer.verdict for one in every)
    counts = {verdict: seen[verdict] for verdict in VERDICTS if seen[verdict]}
    return {"cases": len(every), "agree": sum(one.agrees for one in every), **counts}


if __name__ == "__main__":
    sys.exit(main())
