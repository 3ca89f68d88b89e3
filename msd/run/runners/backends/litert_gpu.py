"""LiteRT's GPU delegate (ML Drift), in a process of its own because it may crash or hang."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msd.errors import DelegateFailed, MsdError
from msd.graph import tflite
from msd.graph.prediction.rules.apply import predict
from msd.run.runners import adapter, native_log
from msd.run.runners.backend import Backend
from msd.run.runners.backends import litert_cpu
from msd.run.runners.checks import one_line
from msd.run.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.run.runners.messages import LoadOnGpu
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.runner import Conditions, Placement, other_precision
from msd.run.runners.wheels.child import WheelChild
from msd.run.runners.wheels.environment import LiteRt

NAME = "litert-gpu"
SECONDS = 600.0
"""The most seconds that compiling, or one run, may take."""

REMEDY = "Convert with --recipe gpu-w8, or with another recipe for this delegate."
VERBS = {"rejected": "refuses", "wrong": "computes wrong"}
"""What the delegate does by findings that speak against a file."""


class GpuProcess(ProcessRunner):
    """A file compiled for the GPU alone; with `cpu_too`, operations that the GPU rejects run on the CPU.

    `litert`: another version of LiteRT, in place of the installed one. Raises BadModelFile for a file that is
    no model, NoDelegate without an adapter, and DelegateFailed when an operation is rejected, or when the
    process dies or exceeds its bounds.
    """

    def __init__(
        self, path: Path, conditions: Conditions, cpu_too: bool = False, litert: LiteRt | None = None
    ) -> None:
        self.litert = litert
        self.precision, self.adapter = conditions.precision, conditions.adapter or adapter.find()
        bounds = Bounds.of(conditions.seconds or SECONDS, conditions.memory, conditions.stop)
        load = partial(LoadOnGpu, path, conditions.precision, cpu_too=cpu_too)
        super().__init__(path, load, bounds, self.adapter.environment)

    def start(self, environment: Mapping[str, str], bounds: Bounds) -> Child:
        """Return the child process, just started, with the LiteRT that is asked."""
        if self.litert is None:
            return super().start(environment, bounds)
        return WheelChild(self.litert.python, environment, bounds)

    @property
    def placement(self) -> Placement:
        """The placement of the file, with the operations on the GPU by the log."""
        facts = native_log.parse(self.log)
        delegated, nodes, partitions = (*facts.replaced, (None, None, None))[0]
        half = self.precision == "fp16" and self.adapter.half_floats
        name = self.adapter.name
        differs = self.precision == "fp16" and not half
        return Placement(
            processor=facts.adapter or name,
            precision="fp16" if half else "fp32",
            delegate="ML Drift",
            nodes=nodes,
            delegated=delegated,
            partitions=partitions,
            notes=(other_precision(name, "fp32", "fp16"),) if differs else (),
        )

    def lost(self, problem: ChildLost) -> MsdError:
        """Return the error for a process that died or exceeded its bounds."""
        return DelegateFailed(f"The GPU delegate was lost with {self.path}: {problem}")

    def refused(self, why: str, loading: bool) -> MsdError:
        """Return the error for a file that could not be compiled, or not be run."""
        return DelegateFailed(f"The GPU delegate refuses {self.path}: {why}")

    def why(self, problem: ChildRefused) -> str:
        """Return the delegate's reasons in the native log, else the error's message."""
        facts = native_log.parse(problem.log)
        reasons = [f"{kind}: {reason.rstrip('.')}" for kind, reason in facts.rejected] or list(facts.problems)
        return "; ".join(reasons) or one_line(problem)


def require_supported(path: Path) -> None:
    """Raise DelegateFailed for a file that the delegate, by its rules, refuses or computes wrong.

    Some that it refuses crash it, which says nothing of why.
    """
    for finding in predict(tflite.read(path), NAME):
        if finding.severity in VERBS:
            verb = VERBS[finding.severity]
            raise DelegateFailed(f"The GPU delegate {verb} {path}: {finding.sentence} {REMEDY}")


def open_supported(path: Path, conditions: Conditions) -> GpuProcess:
    """Return the runner of a file that `require_supported` lets pass."""
    require_supported(path)
    return GpuProcess(path, conditions)


BACKEND = Backend(
    name=NAME,
    alias="gpu",
    open=open_supported,
    takes=frozenset({"precision"}),
    find_adapter=lambda conditions: adapter.find(),
    for_cpu=lambda: litert_cpu.BACKEND,
)
