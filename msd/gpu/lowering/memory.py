"""The values of a graph's tensors in GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from msd.errors import DelegateFailed
from msd.gpu.gpu import Element, Gpu
from msd.gpu.kernels.measured_output import MeasuredOutput
from msd.gpu.lowering.weights import require_known
from msd.gpu.switches import Switches
from msd.gpu.value import Dispatch, Value
from msd.gpu.views import StridedView, view
from msd.graph.ir import Tensor
from msd.graph.ir.real_numbers import FLOATS, real_numbers
from msd.graph.ir.weights import Array

INTEGERS = ("INT32", "INT64")


class Memory:
    """The value of each tensor, created once; a tensor that rearranges another may share its value.

    `outputs` are the graph's, which callers read, `last` those of them that no operator reads: the GPU writes
    these as f32, because a processor widens a picture of f16 slowly. `measurable` returns how a value
    can be measured when it is written, `replaced` has the dispatches in whose place others do that. Raises
    DelegateFailed, a clause, for tensors of types without kernels.
    """

    def __init__(
        self, gpu: Gpu, switches: Switches, outputs: Iterable[Tensor] = (), last: Iterable[Tensor] = ()
    ) -> None:
        self.gpu, self.switches = gpu, switches
        self.outputs, self._last = frozenset(outputs), frozenset(last)
        self._values: dict[Tensor, Value] = {}
        self._constants: dict[Tensor, Value] = {}
        self._narrow: dict[Value, Value] = {}
        self.measurable: dict[Value, Callable[[], MeasuredOutput | None]] = {}
        self.replaced: dict[Dispatch, Dispatch] = {}

    def value(self, tensor: Tensor) -> Value:
        """Return the value of a computed tensor, of an input, or of a constant whose numbers are real."""
        if tensor.data is not None:
            return self.constant(tensor)
        if tensor not in self._values:
            self._values[tensor] = Value(tensor.name, self._element(tensor), tensor.size)
        return self._values[tensor]

    def activation(self, tensor: Tensor) -> Value:
        """Return the value of a tensor in the type of activations, for kernels that read no other."""
        value = self.value(tensor)
        if value.load is None or value.element == self.gpu.real:
            return value
        if value not in self._narrow:
            self._narrow[value] = replace(value, element=self.gpu.real, load=partial(_narrowed, value.load))
        return self._narrow[value]

    def share(self, tensor: Tensor, other: Tensor) -> None:
        """Make `tensor` the same value as `other`, in another shape."""
        self._values[tensor] = self.value(other)

    def view(self, tensor: Tensor) -> tuple[StridedView, Value]:
        """Return a tensor as a view and the value that the view is of."""
        seen = view(tensor)
        return seen, self.value(seen.base)

    def scratch(self, name: str, element: Element, count: int) -> Value:
        """Return a new value for intermediate results."""
        return Value(name, element, count)

    def constant(self, tensor: Tensor) -> Value:
        """Return a constant of real numbers as f32, of integers as i32."""
        if tensor not in self._constants:
            whole = tensor.dtype in INTEGERS
            load = partial(_integers, tensor) if whole else partial(real_numbers, tensor)
            if not whole:
                require_known(tensor)
            self._constants[tensor] = Value(tensor.name, "i32" if whole else "f32", tensor.size, load)
        return self._constants[tensor]

    def _element(self, tensor: Tensor) -> Element:
        if tensor.dtype in FLOATS:
            return "f32" if tensor in self._last else self.gpu.real
        if tensor.dtype in INTEGERS:
            return "i32"
        if tensor.dtype == "BOOL":
            return self.gpu.real
        raise DelegateFailed(f"computes {tensor.name} of type {tensor.dtype.lower()}, which kernels do not")


def _narrowed(load: Callable[[], Array]) -> Array:
    with np.errstate(over="ignore"):  # it becomes infinite, as an activation does
        return load().astype(np.float16)


def _integers(tensor: Tensor) -> Array:
    return np.asarray(tensor.weights.load(), np.int32)
