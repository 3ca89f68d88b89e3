"""A network on WebGPU that is timed when a line asks for it: the child process of bench_builds.

Reads lines of JSON from stdin, each a method and its arguments, and answers each with a line of JSON. It
imports msd from PYTHONPATH, which may be another commit's.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from msd.run.runners import adapter
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions


class TimedNetwork:
    """A file in one precision, with seeded random inputs."""

    def __init__(self, path: str, precision: Any) -> None:
        begun = time.perf_counter()
        found = adapter.find()
        self.found = time.perf_counter() - begun
        self.process = WebGpuProcess(
            Path(path), Conditions(precision=precision, gpu_api="dawn", adapter=found)
        )
        self.inputs = random_inputs(self.process.inputs.values())

    def first(self, output: str) -> dict[str, Any]:
        """Save the outputs of a run to a .npz file; return how long opening took, by parts."""
        outputs = self.process.run(self.inputs)
        np.savez(output, **outputs)
        opening = getattr(self.process, "opening", None)
        return {
            "finding the GPU": round(self.found, 3),
            "load": round(self.process.load_seconds, 3),
            "first run": round(self.process.run_seconds[0], 3),
            "parts": {part.name: round(part.seconds, 3) for part in opening.phases} if opening else {},
        }

    def runs(self, count: int) -> list[float]:
        """Return the seconds of whole runs, from inputs on the GPU to outputs there."""
        return [seconds for (seconds,) in self.process.time(self.inputs, count)]

    def dispatches(self, count: int) -> list[dict[str, Any]]:
        """Return each dispatch with the median of its seconds."""
        medians = np.median(np.array(self.process.time(self.inputs, count, True)), axis=0)
        return [
            {
                "kernel": each.kernel,
                "groups": each.groups,
                "flops": each.flops,
                "us": round(1e6 * float(t), 2),
            }
            for each, t in zip(self.process.compiled.dispatches, medians, strict=True)
        ]


def main() -> None:
    """Answer until stdin ends."""
    network: TimedNetwork | None = None
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        if method == "open":
            network = TimedNetwork(*arguments)
            reply: Any = "opened"
        else:
            reply = getattr(network, method)(*arguments)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
