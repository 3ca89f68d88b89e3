"""A pruned network in PyTorch: modules that lack the units, and checkpoints that have zeros in their place.

Pruning happens on the traced graph, whose constants are transposed and reshaped tensors of the checkpoint.
Which rows of which tensor stay is found by tracing coordinates: each tensor is bound to the coordinates of
its elements along one axis after the other, and the pruned constants are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from msd.conversion.job import Job
from msd.conversion.settings import Settings
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.trace import traced_model
from msd.graph.ir import Graph
from msd.graph.ir.weights import Array, Weights
from msd.models.networks import size_of

QUERIES, VALUES = "to_q", "to_v"
"""The layers of an attention whose rows are those of its heads, and those that it passes on."""


@dataclass(frozen=True)
class Narrowing:
    """What stays of tensors that lose something: for each of their axes the indices, int64 and ascending."""

    kept: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)

    def narrow(self, network: Any) -> Any:
        """Return the module, whose parameters lose what does not stay; it computes the pruned network."""
        for name, kept in self.kept.items():
            place, _, which = name.rpartition(".")
            layer = network.get_submodule(place)
            if which == "weight":
                _count_again(network, place, kept)
            weight = getattr(layer, which)
            setattr(layer, which, torch.nn.Parameter(_taken(weight.detach(), kept), weight.requires_grad))
        return network

    def widen(self, state: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        """Return the tensors of a narrow network in their original shapes, with zeros for what it lacks."""
        return {
            name: _widened(tensor, self.kept[name], shapes[name]) if name in self.kept else tensor
            for name, tensor in state.items()
        }


def narrowing_of(
    checkpoint: Checkpoint, component: str, prune: Callable[[Graph], None] | None = None
) -> Narrowing:
    """Return what stays of a component's tensors: of a checkpoint that was trained without some units, or
    what `prune` leaves of the traced graph.
    """
    axis = _Axis()
    traced = {
        name: replace(tensor, read=partial(axis.load, tensor), changes=(), parts=(), rows=None)
        for name, tensor in checkpoint.weights[component].items()
    }
    switched = replace(checkpoint, weights={**checkpoint.weights, component: traced})
    graph = traced_model(job_of(switched, Settings(()), component), component).main
    if prune:
        prune(graph)
    shapes = {name: tensor.shape for name, tensor in checkpoint.weights[component].items()}
    kept = dict[str, tuple[Array, ...]]()
    for weights in (t.weights for t in graph.tensors() if t.data is not None):
        names = weights.sources
        if len(names) == 1 and weights.size < np.prod(shapes[names[0]]):
            kept[names[0]] = axis.kept(weights, shapes[names[0]])
    return Narrowing(kept)


def job_of(checkpoint: Checkpoint, settings: Settings, component: str) -> Job:
    """Return the job of converting one component of an opened checkpoint for one image of its own size."""
    return Job(checkpoint, settings, (size_of(checkpoint.family, checkpoint.configs),), (component,))


class _Axis:
    """Loads tensors, or once it is switched to an axis, the coordinates of their elements along it."""

    def __init__(self) -> None:
        self._axis: int | None = None

    def load(self, weights: Weights) -> Array:
        """Return the array of `weights`, or of its coordinates, as exact floats."""
        if self._axis is None:
            return weights.load()
        ones = [1] * len(weights.shape)
        ones[self._axis] = -1
        along = np.arange(weights.shape[self._axis], dtype=np.float32).reshape(ones)
        return np.broadcast_to(along, weights.shape)

    def kept(self, weights: Weights, shape: tuple[int, ...]) -> tuple[Array, ...]:
        """Return the indices that `weights`, computed from a tensor of this shape, have of each axis."""
        found = []
        for self._axis, length in enumerate(shape):
            there = np.zeros(length, bool)
            there[weights.load().astype(np.int64).reshape(-1)] = True
            found.append(np.flatnonzero(there))
        self._axis = None
        if np.prod([len(each) for each in found]) != weights.size:
            raise ValueError(f"{weights.history} is not made of whole rows")
        return tuple(found)


def _count_again(network: Any, place: str, kept: tuple[Array, ...]) -> None:
    """Correct what modules know beside their weights, of which `kept` stay: groups, heads and channels."""
    from diffusers.models.downsampling import Downsample2D
    from diffusers.models.upsampling import Upsample2D

    layer = network.get_submodule(place)
    if isinstance(layer, torch.nn.GroupNorm):
        size = layer.num_channels // layer.num_groups
        layer.num_groups, layer.num_channels = len(np.unique(kept[0] // size)), len(kept[0])
    outer, _, name = place.rpartition(".")
    around = network.get_submodule(outer)
    if name == QUERIES:
        around.heads = around.heads * len(kept[0]) // layer.weight.shape[0]
    elif name == VALUES:
        around.set_processor(attend)
    elif isinstance(around, Downsample2D | Upsample2D):
        around.channels = len(kept[1])


def attend(
    attention: Any,
    hidden_states: Any,
    encoder_hidden_states: Any = None,
    attention_mask: Any = None,
    temb: Any = None,
) -> Any:
    """Return the output of a transformer's attention, (B, tokens, width): diffusers' AttnProcessor2_0.

    But its values may be narrower than its keys. The arguments have the names that diffusers passes.
    """
    context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
    layers = ((attention.to_q, hidden_states), (attention.to_k, context), (attention.to_v, context))
    heads = [layer(x).unflatten(-1, (attention.heads, -1)).transpose(1, 2) for layer, x in layers]
    attended = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=attention_mask)
    projection, dropout = attention.to_out
    return dropout(projection(attended.transpose(1, 2).flatten(2)))


def _taken(values: Any, kept: tuple[Array, ...]) -> Any:
    for axis, indices in enumerate(kept):
        if len(indices) < values.shape[axis]:
            values = values.index_select(axis, torch.from_numpy(indices).to(values.device))
    return values.clone(memory_format=torch.preserve_format)


def _widened(values: Any, kept: tuple[Array, ...], shape: tuple[int, ...]) -> Any:
    whole = torch.zeros(shape, dtype=values.dtype, device=values.device)
    places = (torch.from_numpy(each).to(values.device) for each in kept)
    whole[torch.meshgrid(*places, indexing="ij")] = values
    return whole
