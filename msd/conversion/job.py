"""The conversion of one checkpoint, once it is opened: its settings and its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msd.conversion.settings import Settings
from msd.errors import BadCheckpoint
from msd.families import Component, Family
from msd.models.networks import Configs, Network, Size, networks, size_of
from msd.sources.checkpoint import Checkpoint
from msd.sources.formats import open_checkpoint
from msd.sources.keras_cv import networks as keras_cv
from msd.sources.lora import merge
from msd.sources.vae import add_preview, replace_vae

NETWORKS: Mapping[str, Callable[[Family, Configs, Size], dict[str, Network]]] = {
    "msd": networks,
    "keras-cv": keras_cv.networks,
}


@dataclass(frozen=True)
class Job:
    """A checkpoint, the settings and size of its conversion, and the `components` to convert, in order.

    `left_out` are components that the model needs, and of which the checkpoint has no weights.
    """

    checkpoint: Checkpoint
    settings: Settings
    size: Size
    components: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def family(self) -> Family:
        """The family of the model."""
        return self.checkpoint.family

    @cached_property
    def networks(self) -> dict[str, Network]:
        """The network of each component of the checkpoint, by its name."""
        make = NETWORKS[self.checkpoint.networks]
        return make(self.family, self.checkpoint.configs, self.size)

    @property
    def pruned_components(self) -> tuple[str, ...]:
        """The components to prune, in order."""
        pruning = self.settings.pruning_of(self.family)
        return self.family.ordered({*self.components} & {*pruning.components}) if pruning else ()

    @property
    def unpruned(self) -> Job:
        """The same checkpoint with nothing pruned, with which calibration generates images."""
        components = self.family.ordered({*self.family.required, *self.pruned_components})
        return replace(self, settings=self.settings.unpruned, components=components)


def _absence(path: Path, component: Component) -> str:
    hint = "; --preview-vae gives some" if component.stage == "preview" else ""
    return f"{path} has no weights of the {component.title}{hint}"


def open_job(path: Path, settings: Settings) -> Job:
    """Return the job of converting the checkpoint at `path`; raises BadCheckpoint and BadConfig."""
    checkpoint = open_checkpoint(path, settings.prediction_type, settings.networks)
    checkpoint = replace_vae(checkpoint, settings.vae)
    if settings.preview_vae:
        checkpoint = add_preview(checkpoint, settings.preview_vae)
    checkpoint = merge(checkpoint, settings.lora)
    needed = checkpoint.family.needs(checkpoint.configs)
    available = [name for name in needed if name in checkpoint.weights]
    components = settings.selected_components(checkpoint.family, available)
    for name in components:
        if name not in checkpoint.weights:
            raise BadCheckpoint(_absence(path, checkpoint.family.component(name)))
    size = size_of(checkpoint.family, checkpoint.configs, settings.height, settings.width, settings.batch)
    left_out = () if settings.components else tuple(name for name in needed if name not in components)
    return Job(checkpoint=checkpoint, settings=settings, size=size, components=components, left_out=left_out)
