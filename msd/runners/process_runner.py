"""A .tflite file loaded in a process of its own: what the backends that need one have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msd import tflite
from msd.errors import MsdError
from msd.ir.interface import Interface
from msd.ir.weights import Array
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.interpreter import check, one_line
from msd.runners.runner import Placement, ProcessMemory
from msd.runners.worker import Done, Load, RunModel


class ProcessRunner(ABC):
    """A file loaded by a child process, to be run many times; a context manager that ends the process.

    A backend's subclass says where it runs, and in which sentence it is lost or refused. `load` makes the
    request that loads it, given the key of the file's signature; `environment` is the child's alone. Raises
    BadModelFile for a file that is no model, and the subclass's errors.
    """

    def __init__(
        self,
        path: Path,
        load: Callable[[str | None], Load],
        bounds: Bounds,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        interface = Interface.of(tflite.read(path), path)
        self.path, self.inputs, self.outputs = path, interface.inputs, interface.outputs
        self.run_seconds: list[float] = []
        self._child = Child(environment or {}, bounds)
        try:
            loaded = self._ask(load(interface.signature))
        except BaseException:
            self._child.close()
            raise
        self.load_seconds = loaded.seconds
        self.memory = ProcessMemory(loaded.before, loaded.peak)

    @property
    def log(self) -> str:
        """What the child has printed until now."""
        return self._child.log

    @property
    @abstractmethod
    def placement(self) -> Placement:
        """Where the file runs, as the log says."""

    @abstractmethod
    def lost(self, problem: ChildLost) -> MsdError:
        """Return the sentence for a process that died or exceeded its bounds."""

    @abstractmethod
    def refused(self, why: str, loading: bool) -> MsdError:
        """Return the sentence for a file that was not loaded, or not run."""

    def why(self, problem: ChildRefused) -> str:
        """Return why the file is refused, as a clause."""
        return one_line(problem)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile where `inputs` do not fit, and the subclass's."""
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

    def _ask(self, request: Load | RunModel) -> Done:
        try:
            return self._child.ask(request)
        except ChildLost as problem:
            problem.log = self.log
            raise self.lost(problem) from problem
        except ChildRefused as problem:
            problem.log = self.log
            problem.why = self.why(problem)
            raise self.refused(problem.why, loading=not isinstance(request, RunModel)) from problem
