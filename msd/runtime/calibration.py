"""What the networks of a bundle are fed while pictures are drawn: real inputs, for measuring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msd.bundle import Bundle
from msd.runtime.components import Engine, Session
from msd.runtime.pipeline import Pipeline, Request
from msd.weights import Array

Inputs = dict[str, Array]


@dataclass(frozen=True)
class Recorder(Engine):
    """An engine that keeps the inputs of every run, by the name of the file."""

    runs: dict[str, list[Inputs]] = field(default_factory=dict)

    @contextmanager
    def load(self, path: Path) -> Iterator[Session]:
        """Return a session whose inputs are kept; raises what `Engine.load` raises."""
        with super().load(path) as session:
            yield _Recorded(session, self.runs.setdefault(path.name, []))


@dataclass(frozen=True)
class _Recorded:
    session: Session
    runs: list[Inputs]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self.runs.append({name: value.copy() for name, value in inputs.items()})
        return self.session.run(inputs)


def gather(bundle: Bundle, requests: Sequence[Request]) -> dict[str, list[Inputs]]:
    """Return the inputs of each network, by component, while `requests` are drawn on the CPU.

    The same requests give the same inputs. Raises what `Pipeline.draw` raises.
    """
    pipeline = Pipeline(bundle)
    recorder = Recorder()
    pipeline.engine = recorder
    pipeline.draw(requests)
    return {name: recorder.runs[bundle.component(name).file] for name in bundle.manifest.components}
