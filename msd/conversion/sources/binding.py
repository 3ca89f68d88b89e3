"""Binds each variable of a Keras model to its tensor in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Array, Weights
from msd.models.structure import VariableSpec

TORCH_NAMES = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "alpha": "weight",
    "bias": "bias",
    "beta": "bias",
}
"""Torch's name of each of Keras's variables."""

KERNEL_AXES = {2: (1, 0), 4: (2, 3, 1, 0)}
"""The permutation that turns torch's axes, (out, in) and (out, in, height, width), into Keras's."""


@dataclass(frozen=True)
class Binding:
    """The `weights` of each variable, by its key, and the names of the tensors that remain, `unexpected`."""

    weights: dict[str, Weights]
    unexpected: tuple[str, ...]


def bind(component: str, variables: Mapping[str, VariableSpec], weights: Mapping[str, Weights]) -> Binding:
    """Return the tensor of each variable, float32 in Keras's layout; loading it fails if it is not finite.

    Messages begin with `component`. Raises BadCheckpoint naming the tensors that are missing, or the first
    whose shape or dtype is wrong.
    """
    places = _places(component, variables, weights)
    bound_weights = {key: place.take(component, weights[place.name]) for key, place in places.items()}
    return Binding(bound_weights, _others(places, weights))


def unexpected(
    component: str, variables: Mapping[str, VariableSpec], weights: Mapping[str, Weights]
) -> tuple[str, ...]:
    """Return the names of the tensors that remain, as `bind` does, and raise what it raises."""
    places = _places(component, variables, weights)
    for place in places.values():
        place.fitted(component, weights[place.name])
    return _others(places, weights)


def _places(
    component: str, variables: Mapping[str, VariableSpec], weights: Mapping[str, Weights]
) -> dict[str, _Place]:
    places = {key: _place(spec) for key, spec in variables.items()}
    missing = [place.name for place in places.values() if place.name not in weights]
    if missing:
        raise BadCheckpoint(f"{component} lacks {some(missing)}, which its configuration requires")
    if len({place.name for place in places.values()}) != len(places):
        raise ValueError(f"two variables of {component} would be the same tensor")
    return places


def _others(places: Mapping[str, _Place], weights: Mapping[str, Weights]) -> tuple[str, ...]:
    return tuple(sorted(weights.keys() - {place.name for place in places.values()}))


@dataclass(frozen=True)
class _Place:
    """A variable's tensor: its name and shape in torch, and the permutation of axes to Keras's layout."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def fitted(self, component: str, weights: Weights) -> Weights:
        """Return `weights` in the shape of the tensor; raises BadCheckpoint where they do not fit."""
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
        return weights

    def take(self, component: str, weights: Weights) -> Weights:
        """Return `weights` as the variable takes them; raises BadCheckpoint where they do not fit."""
        where = f"{component}'s tensor {self.name}"

        def finite(array: Array) -> Array:
            if not np.isfinite(array).all():
                raise BadCheckpoint(f"{where} holds values that are not finite (NaN or infinity)")
            return array

        checked = replace(self.fitted(component, weights).map_each("finite", finite), sources=(self.name,))
        return checked if self.axes == tuple(range(len(self.axes))) else checked.transpose(self.axes)


def tensor_name(spec: VariableSpec) -> str:
    """Return the name of a variable's tensor in the checkpoint."""
    layer, _, variable = spec.path.rpartition("/")
    return f"{layer.replace('/', '.')}.{TORCH_NAMES[variable]}"


def _place(spec: VariableSpec) -> _Place:
    variable = spec.path.rpartition("/")[2]
    rank = len(spec.shape)
    axes = KERNEL_AXES[rank] if variable == "kernel" else tuple(range(rank))
    shape = tuple(spec.shape[axes.index(i)] for i in range(rank))
    return _Place(tensor_name(spec), shape, axes)


def some(names: Sequence[str]) -> str:
    """Return up to three names and the number of the others."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
