"""The sizes that a manifest has beside the ports of its files: those that the networks have together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msd.bundle import MANIFEST, Bundle
from msd.errors import BadBundle
from msd.tensor_spec import TensorSpec

TOKENS = 1, -2
"""The axis of hidden states (N, length, width) along which tokens follow each other."""


def require_listed_sizes(bundle: Bundle) -> None:
    """Raise BadBundle where the configuration has another size, batch or number of chunks than the ports.

    A folder for another program has that one's ports, and passes.
    """
    if not bundle.manifest.configuration.interface:
        _require_batch(bundle)
        _require_image_size(bundle)
        _require_prompt_chunks(bundle)


def _require_batch(bundle: Bundle) -> None:
    """The batch is how many rows of latents the denoiser takes at once."""
    denoiser = bundle.manifest.components.get(bundle.family.denoiser.name)
    if denoiser and (latents := _image_like(denoiser.inputs)):
        rows, said = str(latents.shape[0]), str(bundle.manifest.configuration.batch)
        refuse_other(f"the batch of {bundle.folder / denoiser.file}", rows, said)


def _require_image_size(bundle: Bundle) -> None:
    """Images are the latents times what the decoder enlarges each cell by, which may decode tiles alone."""
    files, family, listed = bundle.manifest.components, bundle.family, bundle.manifest.configuration
    denoiser, decoder = files.get(family.denoiser.name), files.get(family.decoder.name)
    if not denoiser or not decoder:
        return
    latents, cells, pixels = map(_image_like, (denoiser.outputs, decoder.inputs, decoder.outputs))
    if latents and cells and pixels:
        for axis, name, said in (1, "height", listed.height), (2, "width", listed.width):
            size = latents.shape[axis] * pixels.shape[axis] // cells.shape[axis]
            what = f"the {name} of the images of {bundle.folder / denoiser.file}, decoded,"
            refuse_other(what, str(size), str(said))


def _require_prompt_chunks(bundle: Bundle) -> None:
    """A network takes as many tokens as the chunks of a prompt have together."""
    files, chunks = bundle.manifest.components, bundle.manifest.configuration.prompt_chunks
    calls = [call for call in bundle.wiring.calls if call.component in files]  # what lacks is refused later
    lengths = {
        output.value: spec.shape[1]
        for call in calls
        for output in call.outputs
        for spec in files[call.component].outputs
        if output.kind == "hidden states" and spec.name == output.tensor and len(spec.shape) == 3
    }
    for call in calls:
        for given in call.inputs:
            of_one = [lengths.get(source.of) if source.kind == "value" else None for source in given.sources]
            length = _joined(of_one, given.axis in TOKENS and not given.summed)
            takes = next((s.shape for s in files[call.component].inputs if s.name == given.name), ())
            if length and len(takes) == 3 and takes[1] != chunks * length:
                path = bundle.folder / files[call.component].file
                raise BadBundle(
                    f"the prompt_chunks of {path} are {takes[1] / length:g}, and {MANIFEST} says {chunks};"
                    " convert the checkpoint again"
                )


def _joined(lengths: Sequence[int | None], along_tokens: bool) -> int:
    """Return the tokens of a chunk in an input of hidden states of such lengths, 0 where one is unknown."""
    known = [length for length in lengths if length]
    if not known or len(known) < len(lengths):
        return 0
    return sum(known) if along_tokens else known[0]


def refuse_other(what: str, is_so: str, said: str) -> None:
    """Raise BadBundle where the manifest says something else of `what` than what is so."""
    if is_so != said:
        raise BadBundle(f"{what} is {is_so}, and {MANIFEST} says {said}; convert the checkpoint again")


def _image_like(specs: Iterable[TensorSpec]) -> TensorSpec | None:
    """Return the first tensor of rows and columns."""
    return next((spec for spec in specs if len(spec.shape) == 4), None)
