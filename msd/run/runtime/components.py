"""One converted network, opened on a backend: named arrays in, named arrays out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from msd.bundle import Bundle, ConvertedFile
from msd.errors import BadBundle
from msd.gpu.phases import Phase
from msd.graph.ir.weights import Array
from msd.run.runners.engine import Engine
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.program_facts import Opening
from msd.run.runners.runner import Runnable, Runner, other_precision
from msd.run.runtime.ports import require_ports
from msd.run.runtime.timeline import Watch, unwatched
from msd.tensor_spec import TensorSpec

Wrap = Callable[[str, Runnable], Runnable]
"""Returns the runner to use in place of a network's own, from the network's name and its own runner."""


class LoadedNetwork:
    """A network of a bundle that maps rows to rows, whatever its batch size and the rank of its tensors.

    `opening`: the parts of loading it, where they are known.
    """

    def __init__(
        self,
        name: str,
        description: ConvertedFile,
        runner: Runnable,
        watch: Watch = unwatched,
        opening: tuple[Phase, ...] = (),
    ) -> None:
        self.name, self.opening = name, opening
        self._inputs = {i.name: i for i in description.inputs}
        self._outputs = {o.name: o for o in description.outputs}
        self._runner, self._watch = runner, watch

    def rows(
        self, output: str, inputs: Mapping[str, Array], shared: Mapping[str, Array] | None = None
    ) -> Array:
        """Return one output of `all_rows`; raises BadBundle where there is none of that name too."""
        self._require_output(output)
        return self.all_rows(inputs, shared)[output]

    def all_rows(
        self, inputs: Mapping[str, Array], shared: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Return each output as (rows, elements) for inputs of shape (rows, …), in as few runs as possible.

        `shared` inputs are the same for every row. Raises BadBundle where names or sizes do not fit.
        """
        batch = self._batch(inputs, shared or {})
        common = {name: _tile(value, self._inputs[name]) for name, value in (shared or {}).items()}
        count = len(next(iter(inputs.values())))
        runs = []
        for i in range(0, count, batch):
            feed = {n: _pad(value[i : i + batch], batch, self._inputs[n]) for n, value in inputs.items()}
            runs.append(self._run(feed | common))
        return {
            name: np.concatenate([run[name].reshape(batch, -1) for run in runs])[:count]
            for name in self._outputs
        }

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with self._watch(self.name, "run"):
            produced = self._runner.run(inputs)
        for output in self._outputs:
            if output not in produced:
                raise BadBundle(f"{self.name} gives {sorted(produced)}, not {output!r} as its manifest says")
        return produced

    def _require_output(self, output: str) -> None:
        if output not in self._outputs:
            raise BadBundle(f"{self.name} should compute {output!r}, not {sorted(self._outputs)}")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input or output; raises BadBundle if there is none of that name."""
        known = self._inputs | self._outputs
        if name not in known:
            raise BadBundle(f"{self.name} should have a tensor {name!r}; it has {sorted(known)}")
        return known[name].shape

    def _batch(self, inputs: Mapping[str, Array], shared: Mapping[str, Array]) -> int:
        """Return the number of rows in one run; raises BadBundle unless all inputs agree on it."""
        names = sorted([*inputs, *shared])
        if names != sorted(self._inputs):
            raise BadBundle(f"{self.name} should take {names}, not {sorted(self._inputs)}")
        rows = {name: math.prod(value.shape[1:]) for name, value in inputs.items()}
        sizes = {name: math.prod(spec.shape) for name, spec in self._inputs.items()}
        batches = {sizes[name] / row for name, row in rows.items()}
        batch = min(batches)
        fits = batch.is_integer() and all(sizes[name] % value.size == 0 for name, value in shared.items())
        if max(batches) != batch or not fits:
            shapes = {name: list(spec.shape) for name, spec in self._inputs.items()}
            counts = rows | {name: value.size for name, value in shared.items()}
            raise BadBundle(f"{self.name} takes {shapes}, which rows of {counts} elements do not fit")
        return int(batch)


@contextmanager
def open_component(
    bundle: Bundle,
    name: str,
    engine: Engine,
    watch: Watch = unwatched,
    wrap: Wrap | None = None,
    on_remark: Callable[[str], None] | None = None,
) -> Iterator[LoadedNetwork]:
    """Open one network of a bundle for a `with` block; raises BadBundle and what the engine raises.

    `on_remark` is called with a sentence where a GPU computes in fp32 though fp16 was asked for, and with
    what opening the file tells.
    """
    description = bundle.component(name)
    with engine.on(description.runs_on).load(bundle.path(name)) as runner:
        require_ports(bundle.path(name), description, runner.inputs, runner.outputs)
        opening = runner.opening if isinstance(runner, ProcessRunner) else Opening()
        if on_remark:
            for remark in _fallbacks(runner, engine.on(description.runs_on)):
                on_remark(remark)
            for remark in opening.remarks:
                on_remark(f"{name}: {remark}")
        running = wrap(name, runner) if wrap else runner
        yield LoadedNetwork(name, description, running, watch, opening.phases)


def _fallbacks(runner: Runner, engine: Engine) -> Iterator[str]:
    if engine.precision == "fp16" and (place := runner.placement).precision != "fp16":
        yield other_precision(place.processor, place.precision, "fp16")


def _pad(rows: Array, batch: int, spec: TensorSpec) -> Array:
    """Return rows in the input's shape and dtype; copies of the last row pad a chunk that is too short."""
    padded = np.concatenate([rows, *[rows[-1:]] * (batch - len(rows))])
    return np.ascontiguousarray(padded.reshape(spec.shape), dtype=spec.dtype)


def _tile(value: Array, spec: TensorSpec) -> Array:
    """Return one row repeated to fill the input, in its dtype."""
    tiled: Array = np.resize(value, spec.shape).astype(spec.dtype)
    return tiled
