"""The conversion of one checkpoint, once it is opened: its settings and its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msd.conversion.settings import Settings
from msd.errors import BadCheckpoint, BadConfig
from msd.families import Family
from msd.models.networks import Configs, Network, Size, networks, size_of
from msd.sources.checkpoint import Checkpoint
from msd.sources.formats import open_checkpoint
from msd.sources.keras_cv import networks as keras_cv
from msd.sources.lora import merge

NETWORKS: Mapping[str, Callable[[Family, Configs, Size], dict[str, Network]]] = {
    "msd": networks,
    "keras-cv": keras_cv.networks,
}


@dataclass(frozen=True)
class Job:
    """A checkpoint, the settings and sizes of its conversion, and the `components` to convert, in order."""

    checkpoint: Checkpoint
    settings: Settings
    sizes: tuple[Size, ...]
    components: tuple[str, ...]

    @property
    def size(self) -> Size:
        """The first size, which is the default."""
        return self.sizes[0]

    @property
    def family(self) -> Family:
        """The family of the model."""
        return self.checkpoint.family

    @cached_property
    def networks(self) -> dict[str, Network]:
        """The network of each component of the checkpoint, by its name."""
        make = NETWORKS[self.checkpoint.networks]
        return make(self.family, self.checkpoint.configs, self.size)

    @cached_property
    def each_size(self) -> tuple[Job, ...]:
        """This job for each of its sizes alone."""
        return tuple(replace(self, sizes=(size,)) for size in self.sizes)

    def variants(self, name: str) -> tuple[Job, ...]:
        """Return the jobs of single sizes that a component needs: only one where sizes do not change it."""
        first, *others = self.each_size
        changed = [job for job in others if job.networks[name].inputs != first.networks[name].inputs]
        return first, *changed

    @property
    def unpruned(self) -> Job:
        """The same checkpoint in one size with nothing pruned, with which calibration generates images."""
        settings, names = self.settings.unpruned, self.family.required
        return replace(self, settings=settings, components=names, sizes=self.sizes[:1])


def open_job(path: Path, settings: Settings) -> Job:
    """Return the job of converting the checkpoint at `path`; raises BadCheckpoint and BadConfig."""
    checkpoint = open_checkpoint(path, settings.prediction_type, settings.networks)
    checkpoint = merge(checkpoint, settings.lora)
    components = settings.selected_components(checkpoint.family)
    for name in components:
        if name not in checkpoint.weights:
            raise BadCheckpoint(f"{path} has no weights of the {checkpoint.family.component(name).title}")
    return Job(checkpoint, settings, _sizes(checkpoint, settings), components)


def _sizes(checkpoint: Checkpoint, settings: Settings) -> tuple[Size, ...]:
    """Return the sizes to convert for; raises BadConfig for one that is impossible or given twice."""

    def size(height: int | None, width: int | None) -> Size:
        return size_of(checkpoint.family, checkpoint.configs, height, width, settings.batch)

    if twice := [str(each) for each in settings.sizes if settings.sizes.count(each) > 1]:
        raise BadConfig(f"the size {twice[0]} is given twice; each is converted once")
    sizes = tuple(size(each.height, each.width) for each in settings.sizes)
    return sizes or (size(settings.height, settings.width),)
