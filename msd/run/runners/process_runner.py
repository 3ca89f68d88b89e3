"""A .tflite file loaded in a process of its own: the common part of the backends that need one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msd.errors import MsdError
from msd.run.runners.checks import check, one_line
from msd.run.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.run.runners.messages import Done, Load, Request, RunModel
from msd.run.runners.program_facts import Opening
from msd.run.runners.runner import Placement, ProcessMemory

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array


class ProcessRunner(ABC):
    """A file loaded by a child process, to be run many times; a context manager that ends the process.

    Each backend's subclass describes the placement, and words the errors for a lost process and a refused
    file. `load` is the request that loads the file, sent before the file is read here, or makes it of the key
    of the file's signature; `environment` is for the child only. Raises BadModelFile for a file that is no
    model, and the subclass's errors.
    """

    def __init__(
        self,
        path: Path,
        load: Load | Callable[[str | None], Load],
        bounds: Bounds,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        from msd.graph import tflite  # not before processes have been started ahead
        from msd.graph.ir.interface import Interface

        self.path = path
        self.run_seconds: list[float] = []
        self._child = self.start(environment or {}, bounds)
        try:
            if not callable(load):
                self._child.tell(load)
            interface = Interface.of(tflite.read(path), path)
            if callable(load):
                self._child.tell(load(interface.signature))
            self.inputs, self.outputs = interface.inputs, interface.outputs
            loaded = self._answer(loading=True)
        except BaseException:
            self._child.close()
            raise
        self.load_seconds, self.placed, self.program = loaded.seconds, loaded.placed, loaded.program
        self.opening = loaded.opening or Opening()
        self.memory = ProcessMemory(loaded.before, loaded.peak)

    def start(self, environment: Mapping[str, str], bounds: Bounds) -> Child:
        """Return the child process, just started."""
        return Child(environment, bounds)

    @property
    def log(self) -> str:
        """The child's output until now."""
        return self._child.log

    @property
    @abstractmethod
    def placement(self) -> Placement:
        """The placement of the file, as reported by the log."""

    @abstractmethod
    def lost(self, problem: ChildLost) -> MsdError:
        """Return the error for a process that died or exceeded its bounds."""

    @abstractmethod
    def refused(self, why: str, loading: bool) -> MsdError:
        """Return the error for a file that could not be loaded, or not be run."""

    def why(self, problem: ChildRefused) -> str:
        """Return the reason of a refusal, as a clause."""
        return one_line(problem)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile if `inputs` do not fit, or as the subclass says."""
        check(inputs, self.inputs, self.path)
        done = self._ask(RunModel(dict(inputs)))
        self.run_seconds.append(done.seconds)
        self.memory = ProcessMemory(self.memory.before, max(self.memory.peak or 0, done.peak))
        return done.outputs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def _ask(self, request: Request) -> Done:
        self._child.tell(request)
        return self._answer(loading=False)

    def _answer(self, loading: bool) -> Done:
        try:
            return self._child.answer()
        except ChildLost as problem:
            problem.log = self.log
            raise self.lost(problem) from problem
        except ChildRefused as problem:
            problem.log = self.log
            problem.why = self.why(problem)
            raise self.refused(problem.why, loading) from problem
