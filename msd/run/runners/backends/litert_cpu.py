"""LiteRT on the CPU (XNNPACK), in this process or in one of its own.

Large files run in a process of their own, which returns all its memory when it ends: LiteRT's interpreter in
this process would hold Python's lock while it loads, and leave freed memory in the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msd.errors import BadModelFile, DelegateFailed, MsdError
from msd.run.runners import native_log
from msd.run.runners.backend import Backend
from msd.run.runners.child import Bounds, ChildLost
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.messages import CompileForCpu, Load, LoadOnCpu
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.runner import Conditions, Placement, Runner

SECONDS = 3600.0
"""The most seconds that loading, or one run, may take in a process of its own."""

DELEGATE = "XNNPACK"


class CpuProcess(ProcessRunner):
    """A file on the CPU in a process of its own, with the numbers of msd.run.runners.interpreter.Interpreter.

    Raises BadModelFile for a file that is damaged or that the CPU cannot run, and DelegateFailed when its
    process is lost.
    """

    def __init__(self, path: Path, conditions: Conditions) -> None:
        self.conditions = conditions
        bounds = Bounds.of(conditions.seconds or SECONDS, conditions.memory, conditions.stop)
        super().__init__(path, self._load(path), bounds)

    @property
    def placement(self) -> Placement:
        """The placement of the file, with XNNPACK's operations by the log."""
        counts = native_log.parse(self.log).on_cpu[:1] or ((None, None, None),)
        return on_cpu(self.conditions, *counts[0])

    def lost(self, problem: ChildLost) -> MsdError:
        """Return the error for a process that died or exceeded its bounds."""
        return DelegateFailed(f"{self.path} was lost on the CPU: {problem}")

    def refused(self, why: str, loading: bool) -> MsdError:
        """Return the error for a file that could not be loaded, or not be run."""
        verdict = "cannot be loaded" if loading else "failed"
        return BadModelFile(f"{self.path} {verdict} on the CPU: {why}")

    def _load(self, path: Path) -> Callable[[str | None], Load]:
        cores, float_weights = self.conditions.cores, self.conditions.float_weights
        if self.conditions.isolation == "mapped":
            return lambda signature: CompileForCpu(path, cores, float_weights, signature)
        return lambda signature: LoadOnCpu(path, cores, float_weights)


def on_cpu(
    conditions: Conditions,
    delegated: int | None = None,
    nodes: int | None = None,
    partitions: int | None = None,
) -> Placement:
    """Return the placement of a file on the CPU."""
    return Placement(
        processor="CPU",
        precision=conditions.cpu_arithmetic,
        threads=conditions.cores,
        delegate=DELEGATE,
        nodes=nodes,
        delegated=delegated,
        partitions=partitions,
    )


def open_file(path: Path, conditions: Conditions) -> Runner:
    """Load a file and return its runner; raises BadModelFile and DelegateFailed."""
    if conditions.isolation == "none":
        return Interpreter(path, threads=conditions.cores, float_weights=conditions.float_weights)
    return CpuProcess(path, conditions)


BACKEND = Backend(
    name="litert-cpu",
    alias="cpu",
    open=open_file,
    takes=frozenset({"threads", "float_weights"}),
)
