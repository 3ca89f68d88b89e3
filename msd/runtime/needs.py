"""The files of a bundle that an image needs, and what a bundle needs to be given for one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msd.bundle import Bundle, ConvertedFile
from msd.errors import BadBundle, BadConfig
from msd.families import Component
from msd.runtime.initial_image import Fit, InitialImage, open_initial_image
from msd.runtime.request import Request
from msd.tensor_spec import TensorSpec


def files_in_order(bundle: Bundle, image: bool = False) -> list[str]:
    """Return the files that generating an image needs, in the order in which they run.

    `image`: generation begins from an image.
    """
    family = bundle.family
    needed = {*family.required, *([require_image_encoder(bundle)] if image else [])}
    files = (file for name in family.ordered(needed) for file in family.component(name).files)
    return [file for file in files if file in bundle.manifest.components]


def require_prompts_suffice(bundle: Bundle) -> None:
    """Raise BadBundle for a bundle that lacks a network, BadConfig where encoders need more than a prompt."""
    for name in bundle.family.required:
        bundle.component(name)
    for encoder in bundle.family.encoders:
        if not encoder.optional:
            _require_prompt_suffices(bundle, encoder)


def require_ids_fit(bundle: Bundle, ids: Iterable[int]) -> None:
    """Raise BadBundle for a tokenizer with an id beyond the table of a network that looks it up."""
    largest = max(ids)
    for file in bundle.manifest.components.values():
        for spec in file.inputs:
            if spec.name == "tokens" and spec.table_length is not None and largest >= spec.table_length:
                raise BadBundle(
                    f"the tokenizer of {bundle.folder} has the id {largest}, and the table of {file.file} has"
                    f" {spec.table_length} rows; convert the checkpoint again"
                )


def require_image_encoder(bundle: Bundle) -> str:
    """Return the name of the component that encodes images.

    Raises BadConfig for a family without one, and BadBundle for a bundle without it.
    """
    name = bundle.family.image_encoder
    if name is None:
        raise BadConfig(f"{bundle.family.title} begins from no image: no component of it encodes one")
    bundle.component(name)
    return name


def latent_shape(bundle: Bundle) -> tuple[int, ...]:
    """Return the shape of one image's latents: (1, rows, columns, channels)."""
    return (1, *_tensor(_denoiser(bundle), bundle.family.denoiser.output).shape[1:])


def image_size(bundle: Bundle) -> tuple[int, int]:
    """Return the height and width of images in pixels."""
    decoder = bundle.component(bundle.family.decoder.name)
    height, width = _tensor(decoder, bundle.family.decoder.output).shape[1:3]
    return height, width


def inpaints(bundle: Bundle) -> bool:
    """Return whether the denoiser takes a mask and the latents of the masked image beside the latents."""
    return _tensor(_denoiser(bundle), "latent").shape[-1] == 2 * latent_shape(bundle)[-1] + 1


def require_image(bundle: Bundle, request: Request) -> None:
    """Raise BadConfig where a request's image does not fit the bundle, or there is none and it needs one.

    Raises BadBundle where no network encodes the image.
    """
    image = request.image
    if inpaints(bundle) and (image is None or image.mask is None):
        raise BadConfig(f"the model in {bundle.folder} repaints a part of an image: give an image and a mask")
    if image is None:
        return
    require_image_encoder(bundle)
    height, width = image_size(bundle)
    if image.pixels.shape != (1, height, width, 3):
        raise BadConfig(f"an image of shape {image.pixels.shape} should be (1, {height}, {width}, 3)")


def read_initial_image(
    bundle: Bundle, image: str | Path | None, mask: str | Path | None = None, fit: Fit = "crop"
) -> InitialImage | None:
    """Return the image in a file, with its mask, fitted to a bundle's size; None without a file.

    Raises BadImage, and BadConfig for a mask without an image.
    """
    if image is not None:
        return open_initial_image(Path(image), *image_size(bundle), fit, None if mask is None else Path(mask))
    if mask is not None:
        raise BadConfig(f"the mask {mask} says what to repaint of an image; give the image too")
    return None


def _denoiser(bundle: Bundle) -> ConvertedFile:
    return bundle.component(bundle.family.denoiser.name)


def _tensor(file: ConvertedFile, name: str) -> TensorSpec:
    tensors = {spec.name: spec for spec in (*file.inputs, *file.outputs)}
    if name not in tensors:
        raise BadBundle(f"{file.file} should have a tensor {name!r}; it has {sorted(tensors)}")
    return tensors[name]


def _require_prompt_suffices(bundle: Bundle, encoder: Component) -> None:
    lookup = bundle.manifest.components.get(encoder.lookup or "")
    available = {"tokens", *(output.name for output in lookup.outputs)} if lookup else {"tokens"}
    for tensor in bundle.component(encoder.name).inputs:
        takes = f"{encoder.title} takes {tensor.name!r}"
        if tensor.name not in available and encoder.lookup and not lookup:
            raise BadBundle(f"{bundle.folder} has no {encoder.lookup}; its {takes}")
        if tensor.name not in available:
            raise BadConfig(f"the {takes}, and images are generated from a prompt alone ({bundle.folder})")
