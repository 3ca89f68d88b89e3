"""A model to compare: converted files, or a checkpoint in diffusers' layout, which PyTorch runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msd.bundle import MANIFEST, Bundle, ImageDefaults, open_bundle
from msd.conversion.sources.diffusers import INDEX
from msd.errors import BadConfig
from msd.files.packages import require_packages
from msd.run.runners.backend import Backend
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.needs import image_size, latent_shape, require_prompts_suffice
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import bundle_scheduler

PACKAGES = "torch", "diffusers", "transformers"
BATCH = 8


@dataclass(frozen=True)
class ComparedModel:
    """A model and how it generates images; None is what the model itself says, as in `msd generate`.

    `folder` is one that msd-convert wrote, or a checkpoint in diffusers' layout. Converted files run on
    `backend` (msd.run.runners.registry). `scheduler` is one of msd.run.runtime.scheduler.SCHEDULERS.
    """

    folder: Path
    steps: int | None = None
    guidance: float | None = None
    scheduler: str | None = None
    backend: str = "cpu"


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model whose files were found; its networks are not in memory. `rows` are those of the denoiser."""

    model: ComparedModel
    bundle: Bundle
    backend: str | Backend
    rows: int = 1

    @property
    def images(self) -> ImageDefaults:
        """The steps and the guidance of its images."""
        return self.bundle.manifest.images.unless(self.model.steps, self.model.guidance)

    @property
    def guidance(self) -> Guidance:
        """The guidance of its images."""
        return Guidance.of(self.bundle, self.images.guidance)

    def runs(self, steps: int) -> int:
        """Return how often the denoiser runs in `steps` steps; raises BadConfig for an impossible number."""
        return len(bundle_scheduler(self.bundle, self.model.scheduler).table(steps).steps)

    def pipeline(self) -> Pipeline:
        """Return its pipeline, the networks in memory; raises what `Pipeline` raises."""
        return Pipeline(
            self.bundle,
            self.backend,
            scheduler=self.model.scheduler,
            execution="resident",
            together=max(1, self.rows // self.guidance.rows),
        )


def is_bundle(folder: Path) -> bool:
    """Whether msd-convert wrote the folder."""
    return (folder / MANIFEST).is_file()


def open_model(model: ComparedModel, batch: int = BATCH, device: str | None = None) -> OpenedModel:
    """Return a model, opened. Of a checkpoint, `batch` guided images are denoised at once, on a `device`.

    `device` is one of PyTorch's, None for a CUDA GPU where there is one and else the CPU. Raises BadConfig
    for a folder that is neither kind of model, for a model that reads an image beside the prompt, and for a
    checkpoint where a package that runs it is missing;
    BadBundle and BadCheckpoint for damaged ones.
    """
    folder = model.folder
    if is_bundle(folder):
        bundle = open_bundle(folder, verify=True)
        require_prompts_suffice(bundle, "models are compared by prompts alone")
        return OpenedModel(model, bundle, model.backend)
    if not (folder / INDEX).is_file():
        raise BadConfig(
            f"{folder} is no model: it has neither the {MANIFEST} of a folder that msd-convert wrote nor the"
            f" {INDEX} of a checkpoint in diffusers' layout"
        )
    require_packages(folder, "train", *PACKAGES)
    from msd.train.pytorch.backend import torch_backend
    from msd.train.pytorch.bundle import PASSES, checkpoint_bundle

    checkpoint, bundle = checkpoint_bundle(folder, batch)
    return OpenedModel(model, bundle, torch_backend(checkpoint, bundle, device), PASSES * batch)


def require_comparable(reference: OpenedModel, other: OpenedModel) -> None:
    """Raise BadConfig for models that cannot begin from the same noise, or make images of two sizes."""
    shapes = [list(latent_shape(opened.bundle)[1:]) for opened in (reference, other)]
    if shapes[0] != shapes[1]:
        raise BadConfig(
            f"the latents of {reference.model.folder} have the shape {shapes[0]} and those of"
            f" {other.model.folder} {shapes[1]}; models are compared from the same noise, at one image size"
        )
    sizes = ["{1}x{0}".format(*image_size(opened.bundle)) for opened in (reference, other)]
    if sizes[0] != sizes[1]:
        raise BadConfig(
            f"{reference.model.folder} makes images of {sizes[0]} pixels and {other.model.folder} of"
            f" {sizes[1]}, from latents of one shape; models are compared at one image size"
        )
