"""The traced graph of a component with its weights, before pruning and rewriting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msd.compress.pruning.recorded import prune_as_recorded
from msd.conversion.job import Job
from msd.conversion.sources.binding import bind, some, unexpected
from msd.graph.ir import Model
from msd.graph.ir.weights import Weights
from msd.graph.rewrite import apply
from msd.graph.tflite.traced import parse_traced
from msd.models.structure import Structure, VariableSpec

INTERFACE = ("feed_timestep_embedding",)
"""Rewrites that change the inputs of a network."""


def traced_model(job: Job, name: str) -> Model:
    """Return the traced graph of a component, its weights not read yet.

    It lacks what its checkpoint was trained without.
    """
    model = with_weights(job.structure(name), bind(*_to_bind(job, name)).weights)
    if record := job.checkpoint.pruned.get(name):
        prune_as_recorded(model.main, name, record)
    return model


def unread_tensors(job: Job, names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each component whose weights hold tensors that its network has no place for.

    Raises BadCheckpoint, naming the tensors, where some are missing or have another shape.
    """
    for name in names:
        left_out = getattr(job.checkpoint.configs[name], "unread", ())
        others = unexpected(*_to_bind(job.variants(name)[0], name))
        if unread := [each for each in others if not each.startswith(left_out)]:
            files = ", ".join(job.checkpoint.weight_files[name][:3])
            yield f"{name} has no place for {some(unread)} of {files}, which its configuration does not name"


def _to_bind(job: Job, name: str) -> tuple[str, dict[str, VariableSpec], Mapping[str, Weights]]:
    """Return what a component is in messages, its variables, and the tensors of its checkpoint."""
    checkpoint = job.checkpoint
    where = f"{name} of {checkpoint.name} ({', '.join(checkpoint.weight_files[name][:3])})"
    return where, job.structure(name).variables, checkpoint.weights[name]


def traced_model_for_file(job: Job, name: str) -> Model:
    """Return the traced graph of a component, but with the inputs of its file."""
    model = traced_model(job, name)
    apply(model.main, [rule for rule in job.settings.active_rules if rule.name in INTERFACE])
    return model


def with_weights(structure: Structure, weights: Mapping[str, Weights]) -> Model:
    """Return the model of a traced structure whose variables are the constants `weights`, by tensor name."""
    named = {key: (structure.variables[key].path, each) for key, each in weights.items()}
    return parse_traced(structure.flatbuffer, named, structure.inputs, structure.outputs)
