"""One JVM that runs the exported Kotlin for all tests."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from msd.bundle import Bundle
from msd.run.runners.engine import Engine
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from tests.kotlinc import class_path, library

Serve = Callable[[str, dict[str, np.ndarray]], dict[str, np.ndarray]]


class Jvm:
    """A process that answers commands of tests/kotlin/Main.kt, or of another `main`; a context manager."""

    def __init__(self, path: str, main: str = "dev.msd.runtime.MainKt", *options: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", *options, "-cp", path, main],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, do: str, serve: Serve | None = None, **command: Any) -> Any:
        """Return what the command gives; raises Refused with the exception's name and message.

        `serve` gives the outputs of a network that the command runs, from its role and its inputs.
        """
        answer = self._answer(json.dumps({"do": do, **command}))
        while serve is not None and "run" in answer:
            given = {
                name: np.array(v, np.int32) if isinstance(v, list) else floats(v)
                for name, v in answer["inputs"].items()
            }
            outputs = serve(answer["run"], given).items()
            answer = self._answer(json.dumps({name: sent(value) for name, value in outputs}))
        if "error" in answer:
            raise Refused(f"{answer['error']}: {answer['message']}")
        return answer["ok"]

    def _answer(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, f"the JVM ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(said)
        return answer

    def kill(self) -> None:
        """End the process in the middle of whatever it does."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Jvm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)


class Refused(Exception):
    """An exception of the Kotlin sources."""


@contextmanager
def interpreted(bundle: Bundle) -> Iterator[Serve]:
    """Return what runs a bundle's networks in LiteRT's interpreter, on one thread."""
    engine = Engine(find_backend("cpu"), Conditions(threads=1))
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(engine.load(bundle.path(name))) for name in bundle.manifest.components
        }

        def serve(role: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            shapes = {port.name: port.shape for port in bundle.component(role).inputs}
            return opened[role].run({name: given[name].reshape(shape) for name, shape in shapes.items()})

        yield serve


def start() -> Jvm:
    """Return a JVM with the sources as they are, compiled if they have changed; skips without a compiler."""
    return Jvm(class_path(library()))


def floats(text: str) -> np.ndarray:
    """Return float32 numbers as the JVM sends them."""
    return np.frombuffer(base64.b64decode(text), "<f4")


def sent(values: np.ndarray) -> str:
    """Return float32 numbers as the JVM takes them."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
