"""Names and networks of the family that most tests are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msd.conversion.sources.checkpoint import Checkpoint
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, VAE_ENCODER
from msd.models.networks import Configs, Network, networks, read_configs, size_of

COMPONENTS = STABLE_DIFFUSION.required
FILES = (*STABLE_DIFFUSION.lookups, *COMPONENTS)
"""The components of a bundle by default, and the files of one whose lookup of tokens is cut off."""

STORED = STABLE_DIFFUSION.ordered({*COMPONENTS, VAE_ENCODER.name})
"""The components whose weights a whole checkpoint has."""

(LOOKUP,) = STABLE_DIFFUSION.lookups


def networks_of(
    checkpoint: Checkpoint, height: int | None = None, width: int | None = None, batch: int = 1
) -> dict[str, Network]:
    """Return the networks of a checkpoint, by component, for images of `height` by `width` pixels."""
    return networks_for(checkpoint.configs, height, width, batch)


def networks_for(
    configs: Configs,
    height: int | None = None,
    width: int | None = None,
    batch: int = 1,
    chunks: int = 1,
) -> dict[str, Network]:
    """Return the networks of configurations, both by component, for images of that many pixels."""
    size = size_of(STABLE_DIFFUSION, configs, height, width, batch=batch, chunks=chunks)
    return networks(STABLE_DIFFUSION, configs, size)


def public_configs(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configurations, by component, of what a file of configs/models/ says."""
    return read_configs(STABLE_DIFFUSION, model)
