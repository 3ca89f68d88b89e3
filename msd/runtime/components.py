"""One converted network, opened on a backend: named arrays in, named arrays out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle, Component, Interface
from msd.errors import BadBundle

Array = npt.NDArray[Any]
Backend = Literal["cpu", "gpu"]


class Session(Protocol):
    """A .tflite file ready to run. Its memory is free again when the `with` block ends."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs, by name; inputs have exactly the shapes and dtypes of the file."""


class CpuSession:
    """A .tflite file on LiteRT's interpreter with XNNPACK.

    int8 weights without a DEQUANTIZE are run in dynamic range arithmetic: the activations of those operations
    are rounded to 8 bits too, which a GPU delegate does not do.
    """

    def __init__(self, path: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._path = path
        try:
            self._interpreter: Any = Interpreter(model_path=str(path), num_threads=threads)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise BadBundle(f"LiteRT cannot load {path}: {error}") from error
        self._inputs, self._outputs = _named_indices(self._interpreter)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interpreter = None

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs, by name; raises BadBundle for an input that the file does not take."""
        try:
            for name, value in inputs.items():
                self._interpreter.set_tensor(self._inputs[name], value)
        except (KeyError, ValueError) as error:
            raise BadBundle(f"{self._path} does not take what its manifest says: {error}") from error
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}


class Network:
    """A network of a bundle that takes and gives rows, whatever its batch and the rank of its tensors."""

    def __init__(self, name: str, description: Component, session: Session) -> None:
        self.name = name
        self._inputs = {i.name: i for i in description.inputs}
        self._outputs = {o.name: o for o in description.outputs}
        self._session = session

    def rows(self, output: str, **inputs: Array) -> Array:
        """Return `output` as (rows, elements) for inputs of shape (rows, …), in as few runs as may be.

        A one-element row (a timestep) fills whatever the file wants. Raises BadBundle where sizes cannot fit.
        """
        batch = self._batch(output, inputs)
        count = len(next(iter(inputs.values())))
        chunks = [
            self._run({name: value[i : i + batch] for name, value in inputs.items()}, batch, output)
            for i in range(0, count, batch)
        ]
        return np.concatenate(chunks)[:count]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input or output; raises BadBundle if there is none of that name."""
        known = self._inputs | self._outputs
        if name not in known:
            raise BadBundle(f"{self.name} should have a tensor {name!r}; it has {sorted(known)}")
        return known[name].shape

    def _batch(self, output: str, inputs: Mapping[str, Array]) -> int:
        """Return how many rows one run takes."""
        if set(inputs) != set(self._inputs) or output not in self._outputs:
            found = f"{sorted(self._inputs)} to {sorted(self._outputs)}"
            raise BadBundle(f"{self.name} should map {sorted(inputs)} to {output!r}, not {found}")
        rows = {name: math.prod(value.shape[1:]) for name, value in inputs.items()}
        takes = {name: math.prod(self._inputs[name].shape) for name, row in rows.items() if row > 1}
        batches = {takes[name] / rows[name] for name in takes}
        batch = min(batches)
        if max(batches) != batch or not batch.is_integer():
            shapes = {name: list(interface.shape) for name, interface in self._inputs.items()}
            raise BadBundle(f"{self.name} takes {shapes}, which rows of {rows} elements do not fit")
        return int(batch)

    def _run(self, inputs: Mapping[str, Array], batch: int, output: str) -> Array:
        fed = {name: _fill(value, batch, self._inputs[name]) for name, value in inputs.items()}
        return np.asarray(self._session.run(fed)[output]).reshape(batch, -1)


@contextmanager
def open_component(
    bundle: Bundle, name: str, backend: Backend = "cpu", threads: int = 1, precision: str = "fp16"
) -> Iterator[Network]:
    """Open one network of a bundle for the length of a `with` block.

    `precision` is for the GPU, "fp16" or "fp32". Raises BadBundle, or NoDelegate where no GPU can be used.
    """
    with ExitStack() as stack:
        session = stack.enter_context(_session(bundle.path(name), backend, threads, precision))
        yield Network(name, bundle.component(name), session)


def _session(path: Path, backend: Backend, threads: int, precision: str) -> Session:
    if backend == "cpu":
        return CpuSession(path, threads)
    from msd import delegate

    session: Session = delegate.Session(path, precision)
    return session


def _fill(rows: Array, batch: int, interface: Interface) -> Array:
    """Return rows as the file wants them; a last chunk that is too short is filled with its own last row."""
    padded = np.concatenate([rows, *[rows[-1:]] * (batch - len(rows))])
    shaped = np.resize(padded, interface.shape) if rows[0].size == 1 else padded.reshape(interface.shape)
    return np.ascontiguousarray(shaped, dtype=interface.dtype)


def _named_indices(interpreter: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return each input's and output's tensor index, by signature where there is one, else by tensor name."""
    signatures = list(interpreter.get_signature_list())
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(signatures[0])
        return _indices(runner.get_input_details()), _indices(runner.get_output_details())
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    return _indices({t["name"]: t for t in inputs}), _indices({t["name"]: t for t in outputs})


def _indices(details: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: int(tensor["index"]) for name, tensor in details.items()}
