"""Which tensor of a checkpoint each variable of a Keras model is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from msd.errors import BadCheckpoint
from msd.ir.weights import Array, Weights
from msd.models.structure import VariableSpec

TORCH_NAMES = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "bias": "bias",
    "beta": "bias",
}
"""What torch calls a variable that Keras calls so."""

KERNEL_AXES = {2: (1, 0), 4: (2, 3, 1, 0)}
"""The order in which Keras's axes are found in torch's: (out, in) and (out, in, height, width)."""


@dataclass(frozen=True)
class Binding:
    """`weights` of each variable, by the key it was asked for, and the tensors left over, `unexpected`."""

    weights: dict[str, Weights]
    unexpected: tuple[str, ...]


def bind(component: str, variables: Mapping[str, VariableSpec], weights: Mapping[str, Weights]) -> Binding:
    """Return for each variable its tensor, in Keras's layout, float32, refused at load if it is not finite.

    `component` is named in messages. Raises BadCheckpoint naming the tensors that are missing, or the first
    whose shape or dtype is wrong.
    """
    places = {key: _place(spec) for key, spec in variables.items()}
    missing = [place.name for place in places.values() if place.name not in weights]
    if missing:
        raise BadCheckpoint(f"{component} lacks {_some(missing)}, which its configuration requires")
    bound = {key: place.take(component, weights[place.name]) for key, place in places.items()}
    taken = {place.name for place in places.values()}
    if len(taken) != len(places):
        raise ValueError(f"two variables of {component} would be the same tensor")
    return Binding(bound, tuple(sorted(weights.keys() - taken)))


@dataclass(frozen=True)
class _Place:
    """A variable's tensor: its name and shape in torch, and the order of axes that makes it Keras's."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def take(self, component: str, weights: Weights) -> Weights:
        """Return `weights` as the variable, once they are known to fit."""
        where = f"{component}'s tensor {self.name}"
        if (*weights.shape, 1, 1) == self.shape:  # keras-cv has some linear layers as convolutions
            weights = weights.reshape(self.shape)
        if weights.shape != self.shape:
            raise BadCheckpoint(
                f"{where} has the shape {list(weights.shape)}, "
                f"but its configuration requires {list(self.shape)}"
            )
        if weights.dtype != np.float32:
            raise BadCheckpoint(f"{where} is {weights.dtype}, and only floating-point weights are supported")

        def finite(array: Array) -> Array:
            if not np.isfinite(array).all():
                raise BadCheckpoint(f"{where} holds values that are not finite (NaN or infinity)")
            return array

        checked = replace(weights.map("finite", finite), sources=(self.name,))
        return checked if self.axes == tuple(range(len(self.axes))) else checked.transpose(self.axes)


def tensor_name(spec: VariableSpec) -> str:
    """Return the name of the checkpoint's tensor that a variable is."""
    layer, _, variable = spec.path.rpartition("/")
    return f"{layer.replace('/', '.')}.{TORCH_NAMES[variable]}"


def _place(spec: VariableSpec) -> _Place:
    variable = spec.path.rpartition("/")[2]
    rank = len(spec.shape)
    axes = KERNEL_AXES[rank] if variable == "kernel" else tuple(range(rank))
    shape = tuple(spec.shape[axes.index(i)] for i in range(rank))
    return _Place(tensor_name(spec), shape, axes)


def _some(names: list[str]) -> str:
    """Return up to three names and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
