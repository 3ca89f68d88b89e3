"""A network's structure, traced once, and weights for it: to be rewritten and run many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msd.conversion.trace import with_weights
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.weights import Weights
from msd.graph.rewrite import Ledger, Rewrite, Target, apply
from msd.models.networks import Network
from msd.models.structure import Structure, VariableSpec
from msd.models.structure_cache import structure_of
from tests.reference import Array, draw


@dataclass(frozen=True)
class Traced:
    """`inputs` are what the network takes when traced, and also what it may take when rewritten."""

    structure: Structure
    weights: dict[str, Weights]
    inputs: dict[str, Array]

    def model(self) -> Model:
        """Return the model as it was traced, weights and all."""
        return with_weights(self.structure, self.weights)

    def write(self, path: Path, rules: Sequence[Rewrite] = (), target: Target | None = None) -> Ledger:
        """Write the model, rewritten by `rules`, as float32."""
        model = self.model()
        ledger = apply(model.main, rules, target)
        tflite.write(model, path)
        return ledger


def random_weights(structure: Structure) -> dict[str, Weights]:
    """Return described weights for every variable, the same each time, of the sizes that training gives."""
    return {key: _random(i, v) for i, (key, v) in enumerate(structure.variables.items())}


def _random(seed: int, variable: VariableSpec) -> Weights:
    kind = variable.path.rpartition("/")[2]
    fan_in = int(np.prod(variable.shape[:-1]))
    scale = {"gamma": 0.1, "beta": 0.1, "bias": 0.1, "embeddings": 0.5}.get(kind, fan_in**-0.5)

    def load() -> Array:
        values = np.random.default_rng(seed).standard_normal(variable.shape, np.float32) * np.float32(scale)
        return values + np.float32(kind == "gamma")

    return Weights(variable.shape, np.dtype(np.float32), load, variable.path)


def trace_random(network: Network, vocabulary: int) -> Traced:
    """Return `network` with random weights and inputs; `positions` count from 0."""
    structure = structure_of(network)
    inputs = draw(network.inputs, vocabulary, np.random.default_rng(2))
    if "positions" in inputs:
        inputs["positions"] = np.arange(inputs["positions"].size, dtype=np.int32)[None]
    return Traced(structure, random_weights(structure), inputs)
