"""A model kept loaded on the GPU, in a child process, to be run many times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event
from types import TracebackType

from msd import tflite
from msd.errors import DelegateFailed
from msd.ir.interface import Interface
from msd.ir.weights import Array
from msd.runners import native_log
from msd.runners.adapter import Adapter, find
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.interpreter import check, one_line
from msd.runners.worker import Done, LoadOnGpu, Precision, Run


class Session:
    """A .tflite file compiled whole for the GPU; a context manager.

    `inputs` and `outputs` are its ports by name. `timeout` bounds the compilation and each run in seconds,
    `memory` the child's resident bytes, and `stop`, when set, ends it. Raises BadModelFile for a file that is
    no model, NoDelegate without an adapter, and DelegateFailed when an operation is rejected, or when the
    process dies or exceeds its bounds.
    """

    def __init__(
        self,
        path: Path,
        precision: Precision = "fp32",
        *,
        timeout: float = 600.0,
        memory: int | None = None,
        adapter: Adapter | None = None,
        stop: Event | None = None,
    ) -> None:
        ports = Interface.of(tflite.read(path), path)
        self.path, self.precision = path, precision
        self.inputs, self.outputs = ports.inputs, ports.outputs
        self.adapter = adapter or find()
        self._child = Child(self.adapter.environment, Bounds.of(timeout, memory, stop))
        try:
            self._ask(LoadOnGpu(path, precision, ports.signature))
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile where `inputs` do not fit, and DelegateFailed."""
        check(inputs, self.inputs, self.path)
        return self._ask(Run(dict(inputs))).outputs

    def close(self) -> None:
        """End the child process; the session cannot be used after it."""
        self._child.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: LoadOnGpu | Run) -> Done:
        try:
            return self._child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"The GPU delegate was lost with {self.path}: {problem}") from problem
        except ChildRefused as problem:
            why = refusal(self._child.log, problem)
            raise DelegateFailed(f"The GPU delegate refuses {self.path}: {why}") from problem


def refusal(text: str, problem: ChildRefused) -> str:
    """Return why the delegate refuses a file, from its native log `text`; else what was raised."""
    facts = native_log.parse(text)
    reasons = [f"{kind}: {reason.rstrip('.')}" for kind, reason in facts.rejected] or list(facts.problems)
    return "; ".join(reasons) or one_line(problem)


def run(path: Path, inputs: Mapping[str, Array], precision: Precision = "fp32") -> dict[str, Array]:
    """Return the outputs of one run of the file at `path` on the GPU; raises what `Session` does."""
    with Session(path, precision) as session:
        return session.run(inputs)
