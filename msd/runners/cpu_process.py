"""A .tflite file on the CPU in a process of its own: for large ones, whose memory is to come back whole.

LiteRT's interpreter in this process would hold Python's lock while it loads, and leave freed memory in its
heap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event
from types import TracebackType

from msd import tflite
from msd.errors import BadModelFile, DelegateFailed
from msd.ir.interface import Interface
from msd.ir.weights import Array
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.interpreter import check, one_line
from msd.runners.worker import CompileForCpu, Done, Run


class CpuProcess:
    """A .tflite file loaded on the CPU, to be run many times; a context manager that ends its process.

    `threads` and `float_weights` as in msd.runners.interpreter.Interpreter, whose numbers it gives; `timeout`
    bounds the loading and each run in seconds, and `stop`, when set, ends them. Raises BadModelFile for a
    file that is damaged or that the CPU cannot run, and DelegateFailed when its process is lost.
    """

    def __init__(
        self,
        path: Path,
        threads: int,
        float_weights: bool,
        timeout: float = 3600.0,
        stop: Event | None = None,
    ) -> None:
        ports = Interface.of(tflite.read(path), path)
        self.path, self.inputs = path, ports.inputs
        self._child = Child({}, Bounds.of(timeout, stop=stop))
        try:
            self._ask(CompileForCpu(path, threads, float_weights, ports.signature), "cannot be loaded")
        except BaseException:
            self._child.close()
            raise

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile where `inputs` do not fit, and DelegateFailed."""
        check(inputs, self.inputs, self.path)
        return self._ask(Run(dict(inputs)), "failed").outputs

    def __enter__(self) -> CpuProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def _ask(self, request: CompileForCpu | Run, verdict: str) -> Done:
        try:
            return self._child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"{self.path} was lost on the CPU: {problem}") from problem
        except ChildRefused as problem:
            raise BadModelFile(f"{self.path} {verdict} on the CPU: {one_line(problem)}") from problem
