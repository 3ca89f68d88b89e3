"""The files of a bundle that an image needs, and what a bundle needs to be given for one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig
from msd.files.wording import counted
from msd.graph.ir.weights import Array
from msd.models.families.calls import Call, OutputKind
from msd.run.runtime.initial_image import Fit, InitialImage, open_initial_image
from msd.run.runtime.listed_sizes import require_listed_sizes
from msd.run.runtime.request import Request
from msd.run.runtime.upscale import require_enlarges
from msd.tensor_spec import TensorSpec


def files_in_order(bundle: Bundle, image: bool = False, controls: Collection[str] = ()) -> list[str]:
    """Return the files that generating an image needs, each once, in the order in which they run.

    `image`: an image is given; `controls` are the names of the ControlNets that steer it.
    """
    wiring = bundle.wiring
    images = [*wiring.of_images] if image else [*wiring.conditions]
    calls = [*wiring.of_prompts, *images, *wiring.steps_with(controls), wiring.decoder]
    return [*dict.fromkeys(call.component for call in calls)]


def require_generates(bundle: Bundle) -> None:
    """Raise BadBundle for a bundle that lacks a network that every image needs, or lists wrong sizes."""
    for name in bundle.family.required:
        bundle.component(name)
    require_listed_sizes(bundle)


def require_prompts_suffice(bundle: Bundle, given: str) -> None:
    """Raise what `require_generates` does, and BadConfig where images need more than a prompt.

    Its sentence ends in what is `given` instead.
    """
    require_generates(bundle)
    if bundle.wiring.needed_pixels:
        does = "repaints a part of an image" if takes_mask(bundle) else "edits an image"
        raise BadConfig(f"the model in {bundle.folder} {does}, and {given}")


def require_ids_fit(bundle: Bundle, ids: Iterable[int]) -> None:
    """Raise BadBundle for a tokenizer with an id beyond the table of a network that looks it up."""
    largest = max(ids)
    for call in bundle.wiring.of_prompts:
        file = bundle.component(call.component)
        named = {each.name for each in call.inputs if any(source.kind == "tokens" for source in each.sources)}
        for spec in (spec for spec in file.inputs if spec.name in named):
            if spec.table_length is not None and largest >= spec.table_length:
                raise BadBundle(
                    f"the tokenizer of {bundle.folder} has the id {largest}, and the table of {file.file} has"
                    f" {counted(spec.table_length, 'row')}; convert the checkpoint again"
                )


def require_image_encoder(bundle: Bundle) -> str | None:
    """Return the name of the component that encodes an image to begin from, None where one only steers.

    Raises BadConfig for a family that reads no image, and BadBundle for a bundle without the component.
    """
    encoder = bundle.family.image_encoder
    if encoder is not None:
        bundle.component(encoder.name)
        return encoder.name
    if not bundle.wiring.needed_pixels:
        raise BadConfig(f"{bundle.family.title} begins from no image: no component of it encodes one")
    return None


def latent_shape(bundle: Bundle) -> tuple[int, ...]:
    """Return the shape of one image's latents: (1, rows, columns, channels)."""
    return (1, *tensor_of(bundle, bundle.wiring.denoiser, "prediction").shape[1:])


def require_shape(latent: Array, shape: tuple[int, ...]) -> Array:
    """Return latents as float32; raises BadConfig for those of another shape."""
    if latent.shape != shape:
        raise BadConfig(f"latents of shape {latent.shape} do not fit this model, which takes {shape}")
    return latent.astype(np.float32)


def image_size(bundle: Bundle) -> tuple[int, int]:
    """Return the height and width of images in pixels."""
    _, rows, columns, _ = latent_shape(bundle)
    return rows * cell_size(bundle), columns * cell_size(bundle)


def cell_size(bundle: Bundle) -> int:
    """Return the number of pixels along the side of a latent cell, as the decoder's file has it."""
    return tensor_of(bundle, bundle.wiring.decoder, "image").shape[1] // decoded_cells(bundle)[0]


def decoded_cells(bundle: Bundle) -> tuple[int, ...]:
    """Return the rows and columns of the latents that the decoder takes: fewer than there are, if tiles."""
    call = bundle.wiring.decoder
    shapes = {spec.name: spec.shape for spec in bundle.component(call.component).inputs}
    return shapes[call.inputs[0].name][1:3]


def takes_mask(bundle: Bundle) -> bool:
    """Return whether a network takes the mask, as those for inpainting do."""
    return "mask" in bundle.wiring.needed_pixels


def strength_of(bundle: Bundle, request: Request) -> float | None:
    """Return how much of a request's image changes; None where the model begins from none."""
    return request.effective_strength if bundle.wiring.initial else None


def require_possible(bundle: Bundle, requests: Iterable[Request]) -> None:
    """Raise BadConfig or BadBundle for the first request that a bundle cannot fulfil with its networks."""
    for request in requests:
        _require_image(bundle, request)
        _require_controls(bundle, request)
        require_enlarges(bundle, request)


def _require_image(bundle: Bundle, request: Request) -> None:
    """Raise BadConfig where a request's image does not fit the bundle, or there is none and it needs one.

    Raises BadBundle where no network encodes the image.
    """
    image, needed = request.image, bundle.wiring.needed_pixels
    if needed - {"image"} and (image is None or image.mask is None):
        raise BadConfig(f"the model in {bundle.folder} repaints a part of an image: give an image and a mask")
    if image is None and needed:
        raise BadConfig(f"the model in {bundle.folder} reads an image beside the prompt: give one")
    if request.image_guidance is not None and not bundle.wiring.edited:
        raise BadConfig(f"the model in {bundle.folder} edits no image: leave image guidance out")
    if image is None:
        return
    require_image_encoder(bundle)
    if bundle.wiring.edited and image.mask is not None:
        raise BadConfig(f"the model in {bundle.folder} edits the whole image: leave the mask out")
    if bundle.wiring.initial is None and request.strength is not None:
        raise BadConfig(
            f"the model in {bundle.folder} reads an image and does not begin from it: leave strength out"
        )
    height, width = image_size(bundle)
    if image.pixels.shape != (1, height, width, 3):
        raise BadConfig(f"an image of shape {image.pixels.shape} should be (1, {height}, {width}, 3)")


def _require_controls(bundle: Bundle, request: Request) -> None:
    """Raise BadConfig for a control that the bundle has no ControlNet for, or whose picture does not fit."""
    known, shape = bundle.wiring.controls, (1, *image_size(bundle), 3)
    for control in request.controls:
        if control.name not in known:
            there = f"it has {', '.join(known)}" if known else "msd convert --controlnet PATH adds one"
            raise BadConfig(f"{bundle.folder} has no ControlNet {control.name!r}; {there}")
        if control.hint.shape != shape:
            raise BadConfig(f"a control picture of shape {control.hint.shape} should be {shape}")


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


def tensor_of(bundle: Bundle, call: Call, kind: OutputKind) -> TensorSpec:
    """Return the tensor that a call computes of a kind; raises BadBundle where its file has none such."""
    file = bundle.component(call.component)
    named = {output.tensor for output in call.outputs if output.kind == kind}
    found = next((spec for spec in file.outputs if spec.name in named), None)
    if found is None:
        raise BadBundle(
            f"{file.file} should compute the {kind}; it has {[spec.name for spec in file.outputs]}"
        )
    return found
