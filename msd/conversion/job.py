"""The conversion of one checkpoint, once it is opened: its settings and its sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from msd.bundle import ImageDefaults
from msd.compress.calibration.generated_inputs import NO_IMAGES, Calibration
from msd.compress.pruning.settings import parse_pruning
from msd.conversion.client_ports import require_takes
from msd.conversion.remarks import conversion_remarks
from msd.conversion.room import with_room
from msd.conversion.runnable import require_runnable
from msd.conversion.schedule import EMBEDDED_GUIDANCE, few_steps_of, image_defaults, scheduled
from msd.conversion.settings import Settings
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.clip_skip import skip_layers
from msd.conversion.sources.controlnet import add_controls
from msd.conversion.sources.embedding import add
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.keras_cv import networks as keras_cv
from msd.conversion.sources.lora import merge
from msd.conversion.sources.unet import replace_unet
from msd.conversion.sources.upscaler import add_upscaler
from msd.conversion.sources.vae import add_preview, replace_vae
from msd.errors import BadCheckpoint, BadConfig
from msd.files.wording import listed
from msd.models.families import Component, Family
from msd.models.families.wiring import is_guided
from msd.models.networks import Configs, Network, Size, networks, require_depth, size_of
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from msd.run.runtime.scheduler import insisted_settings, make_scheduler, require_valid

LEAST_CELLS = 8
"""Of the latents along the side of a tile."""

ONE_AT_A_TIME = threading.Lock()
"""Held for a trace: of two threads that import TensorFlow and Keras at once each gets modules half made."""

NETWORKS: Mapping[str, Callable[[Family, Configs, Size], dict[str, Network]]] = {
    "msd": networks,
    "keras-cv": keras_cv.networks,
}


@dataclass(frozen=True)
class Job:
    """A checkpoint, the settings and sizes of its conversion, and the `components` to convert, in order.

    `left_out` are components that the model needs, and of which the checkpoint has no weights.
    """

    checkpoint: Checkpoint
    settings: Settings
    sizes: tuple[Size, ...]
    components: tuple[str, ...]
    left_out: tuple[str, ...] = ()

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
        make = partial(NETWORKS[self.checkpoint.networks], self.family, self.checkpoint.configs)
        tile = self.tile
        made = make(self.size)
        if tile is not None:
            of_tiles = make(tile)
            made |= {name: of_tiles[name] for name in self.family.tiled if name in of_tiles}
        interface = self.settings.interface
        for name, bound in interface.networks.items() if interface else ():
            if name in made and bound.batch:
                made[name] = make(replace(self.size, batch=bound.batch))[name]
        return made

    def structure(self, name: str, on_trace: Callable[[], None] = lambda: None) -> Structure:
        """Return the traced structure of a component; `on_trace` is called before it is traced."""
        if name not in self._structures:
            with ONE_AT_A_TIME:
                self._structures[name] = structure_of(self.networks[name], on_trace)
        return self._structures[name]

    @cached_property
    def _structures(self) -> dict[str, Structure]:
        return {}

    @property
    def tile(self) -> Size | None:
        """The size of the autoencoder's tiles; None where it takes whole images."""
        pixels, size = self.settings.vae_tile, self.size
        if pixels is None or pixels >= max(size.pixels):
            return None
        cells = pixels // size.scale
        return replace(size, rows=min(cells, size.rows), columns=min(cells, size.columns))

    @cached_property
    def each_size(self) -> tuple[Job, ...]:
        """This job for each of its sizes alone."""
        many = len(self.sizes) > 1
        return tuple(replace(self, sizes=(size,)) for size in self.sizes) if many else (self,)

    def variants(self, name: str) -> tuple[Job, ...]:
        """Return the jobs of single sizes that a component needs: only one where sizes do not change it."""
        first, *others = self.each_size
        changed = any(job.networks[name].inputs != first.networks[name].inputs for job in others)
        return self.each_size if changed else (first,)

    @property
    def pruned_components(self) -> tuple[str, ...]:
        """The components to prune, in order, without those that were trained without their pruned units."""
        pruning = self.settings.pruning_of(self.family)
        whole = {*self.components} - {*self.checkpoint.pruned}
        return self.family.ordered(whole & {*pruning.components}) if pruning else ()

    @property
    def rounded_components(self) -> tuple[str, ...]:
        """The components whose rounding the calibration decides, in order."""
        recipe, calibration = self.settings.recipe, self.settings.calibration
        if calibration is None:
            return ()
        sole = {*self.pruned_components, *self.checkpoint.pruned} | (
            {*self.components} if len(self.components) == 1 else set()
        )
        return tuple(
            name
            for name in self._with_inputs(calibration)
            if recipe.rounds(name, ("gptq",))
            or (recipe.rounds(name, ("auto",)) and (name in sole or calibration.is_for(name)))
        )

    def _with_inputs(self, calibration: Calibration) -> tuple[str, ...]:
        """Return the components but for ControlNets of which a calibration has no inputs."""
        controls = self.family.controls
        return tuple(name for name in self.components if name not in controls or calibration.is_for(name))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what was chosen or left out in the files read, and on settings that do nothing."""
        inputs = self.networks[self.family.denoiser.name].inputs
        unused = conversion_remarks(self.checkpoint, self.settings, self.components, inputs, self.sizes)
        smaller = (self.settings.smaller_because,) if self.settings.smaller_because else ()
        return (*self.checkpoint.remarks, *smaller, *unused)

    @property
    def images(self) -> ImageDefaults:
        """The steps and the guidance of images by default."""
        denoiser = self.networks.get(self.family.denoiser.name)
        takes_guidance = denoiser is not None and is_guided(self.family, denoiser.inputs)
        own = None if self.settings.scheduler else self.checkpoint.images
        kind = few_steps_of(self.checkpoint, self.settings)
        few = kind.images(EMBEDDED_GUIDANCE if takes_guidance else None) if kind else None
        defaults = own or few or image_defaults(self.checkpoint.scheduler, takes_guidance)
        return defaults.unless(self.settings.steps, self.settings.guidance)

    @property
    def unpruned(self) -> Job:
        """The same checkpoint in one size with nothing pruned, with which calibration generates images."""
        calibrated = {*self.pruned_components, *self.rounded_components}
        components = self.family.ordered({*self.family.required, *calibrated})
        return replace(self, settings=self.settings.unpruned, components=components, sizes=self.sizes[:1])


def _absence(path: Path, component: Component, family: Family) -> str:
    hints = {family.preview: "; --preview-vae gives some", family.upscaler: "; --upscaler gives some"}
    return f"{path} has no weights of the {component.title}{hints.get(component, '')}"


def _open_changed(path: Path, settings: Settings) -> Checkpoint:
    """Return the checkpoint at `path` with the changes that `settings` ask for."""
    checkpoint = open_checkpoint(
        path, settings.prediction_type, settings.networks, vae_is_given=bool(settings.vae)
    )
    checkpoint = replace_vae(replace_unet(checkpoint, settings.unet), settings.vae)
    if settings.preview_vae:
        checkpoint = add_preview(checkpoint, settings.preview_vae)
    if settings.upscaler:
        checkpoint = add_upscaler(checkpoint, settings.upscaler)
    checkpoint = merge(checkpoint, settings.lora)
    checkpoint = add(skip_layers(checkpoint, settings.clip_skip), settings.embeddings)
    checkpoint = add_controls(checkpoint, settings.controlnets, settings.fuse_control)
    return scheduled(checkpoint, settings)


def open_job(path: Path, settings: Settings) -> Job:
    """Return the job of converting the checkpoint at `path`; raises BadCheckpoint and BadConfig."""
    checkpoint = _open_changed(path, settings)
    _require_usable(checkpoint)
    needed = checkpoint.family.needs(checkpoint.configs)
    available = [name for name in needed if name in checkpoint.weights]
    components = settings.selected_components(checkpoint.family, available)
    for name in components:
        if name not in checkpoint.weights:
            family = checkpoint.family
            raise BadCheckpoint(_absence(path, family.component(name), family))
    settings = with_room(checkpoint, settings, components)
    left_out = () if settings.components else tuple(name for name in needed if name not in components)
    job = Job(
        checkpoint=checkpoint,
        settings=settings,
        sizes=_sizes(checkpoint, settings),
        components=components,
        left_out=left_out,
    )
    _require_whole(job)
    _require_bound(job)
    _require_fusible(job)
    _require_images(job)
    if settings.recipe.needs_calibration and settings.calibration is None:
        raise BadConfig(
            f"the recipe {settings.recipe.name} rounds by gptq, which needs a calibration: give"
            " --calibration PROMPTS.txt, a folder of inputs, or random-words"
        )
    if settings.steps is not None:
        insisted = insisted_settings(checkpoint.family)
        make_scheduler(checkpoint.scheduler, insisted=insisted).table(settings.steps)
    require_runnable(checkpoint, components, job.images.steps)
    if settings.calibration is None:
        return job
    return replace(job, settings=replace(settings, calibration=settings.calibration.completed(job.images)))


def _require_whole(job: Job) -> None:
    """Refuse to prune what is pruned already, where more than the recipe's own pruning is asked for."""
    asked, recipe = job.settings.pruning, job.settings.recipe
    own = parse_pruning(recipe.prune) if recipe.prune is not None else None
    if asked is None or (own and replace(asked, refit=own.refit) == own):
        return
    for name in asked.components or job.family.prunable:
        if name in job.checkpoint.pruned:
            raise BadConfig(
                f"the {name} of {job.checkpoint.name} has been pruned and trained so; convert it without"
                " pruning options, or prune the checkpoint that it comes from"
            )


def _require_bound(job: Job) -> None:
    """Refuse an interface for components that the model lacks, that msd rounds, or that take other inputs."""
    interface = job.settings.interface
    if interface is None:
        return
    for name in interface.networks:
        if name not in job.family.names:
            names = ", ".join(job.family.names)
            raise BadConfig(f"the interface binds {name}, and {job.family.title} has {names}")
    if rounded := [name for name in job.rounded_components if name in interface.networks]:
        raise BadConfig(
            f"--calibration rounds {listed(rounded)} by inputs of msd's own, and the interface"
            f" {interface.name} has others; leave one of both out"
        )
    for name in (each for each in job.components if each in interface.networks):
        require_takes(name, interface.networks[name], job.networks[name].inputs)


def _require_fusible(job: Job) -> None:
    """Refuse ControlNets inside a denoiser that is split, pruned, or rounded for inputs without pictures."""
    settings, denoiser = job.settings, job.family.denoiser.name
    if not settings.fuse_control:
        return
    if settings.split:
        raise BadConfig(
            f"--split writes the {denoiser} as two files, and --fuse-control puts ControlNets inside it;"
            " leave out one of the two"
        )
    if denoiser in job.pruned_components:
        raise BadConfig(
            f"pruning the {denoiser} would prune the ControlNets inside it too; leave out --fuse-control, or"
            " the pruning"
        )
    given = settings.calibration.given if settings.calibration else None
    if denoiser in job.rounded_components and not (given and given.is_dir()):
        raise BadConfig(
            f"prompts have no pictures by which the ControlNets inside the {denoiser} steer; leave out"
            " --fuse-control, or give --calibration a folder of inputs"
        )


def _require_images(job: Job) -> None:
    calibration = job.settings.calibration
    if calibration is not None and (job.pruned_components or job.rounded_components):
        require_calibrates(job.checkpoint, calibration)


def require_calibrates(checkpoint: Checkpoint, calibration: Calibration) -> None:
    """Refuse, before anything is converted, prompts that calibrate a model that reads an image."""
    if checkpoint.family.needs(checkpoint.configs) and not calibration.is_of_files:
        raise BadConfig(f"the model in {checkpoint.name} {NO_IMAGES}")


def _require_usable(checkpoint: Checkpoint) -> None:
    """Refuse, before hours of work, what tracing or generating images would refuse."""
    if checkpoint.networks == "msd":
        for name, tensors in checkpoint.weights.items():
            require_depth(name, checkpoint.configs[name], tensors, checkpoint.name)
    try:
        require_valid(checkpoint.scheduler)
    except BadConfig as error:
        raise BadCheckpoint(f"the scheduler of {checkpoint.name} is not valid: {error}") from error


def _sizes(checkpoint: Checkpoint, settings: Settings) -> tuple[Size, ...]:
    """Return the sizes to convert for; raises BadConfig for one that is impossible or given twice."""

    def size(height: int | None, width: int | None) -> Size:
        return size_of(
            checkpoint.family,
            checkpoint.configs,
            height=height,
            width=width,
            batch=settings.batch,
            chunks=settings.prompt_chunks,
        )

    if twice := [str(each) for each in settings.sizes if settings.sizes.count(each) > 1]:
        raise BadConfig(f"the size {twice[0]} is given twice; each is converted once")
    sizes = tuple(size(each.height, each.width) for each in settings.sizes)
    sizes = sizes or (size(settings.height, settings.width),)
    _require_tile(settings.vae_tile, sizes[0].scale)
    return sizes


def _require_tile(pixels: int | None, scale: int) -> None:
    """Refuse tiles that are not whole cells of the latents, or too few to overlap."""
    least = LEAST_CELLS * scale
    if pixels is not None and (pixels % scale or pixels < least):
        raise BadConfig(f"tiles of {pixels} pixels must be a multiple of {scale}, and at least {least}")
