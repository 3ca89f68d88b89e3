"""A checkpoint as keras-cv loads it: a folder with three or four .h5 files, which differ in their contents.

Weights are mapped by their order (`msd.conversion.sources.keras_cv.order`). The files contain no
configuration: it is Stable Diffusion 1.4's where the U-Net projects with convolutions and 2.1 base's where it
does so with linear layers, at whatever width the weights have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.conversion.sources import h5
from msd.conversion.sources.checkpoint import SCHEDULER, Checkpoint
from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, VOCABULARY, clip_tokenizer
from msd.conversion.sources.keras_cv.order import ORDERS, Slot
from msd.conversion.sources.stored import HDF5, first_bytes
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights
from msd.models.config import TextEncoderConfig, UNetConfig
from msd.models.families.calls import TOKENIZER
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER, UNET, VAE_DECODER
from msd.models.vae_config import VaeDecoderConfig, VaeEncoderConfig
from msd.run.runtime.tokenizer_files import LENGTH

USUAL_NAMES = {
    "text_encoder": "text_encoder_v2_1.h5 or kcv_encoder.h5",
    "unet": "diffusion_model_v2_1.h5 or kcv_diffusion_model.h5",
    "vae_decoder": "kcv_decoder.h5",
}
ENCODER = "vae_encoder"
"""The component that a folder may lack: keras-cv names its file vae_encoder.h5."""
MULTIPLES = (1, 2, 4, 4)
"""The widths of the levels of the U-Net and of both halves of the autoencoder, relative to the first."""
GROUPS = 32
HEAD = 64
"""Channels of a head, in both text encoders and in 2.1's U-Net; 1.4's U-Net has 8 heads everywhere."""
LAST_BIAS: dict[tuple[int, ...], str] = {(3,): "vae_decoder", (4,): "unet", (8,): ENCODER}
"""The component by the shape of its last bias: images, latents, or their means and log-variances."""
PROJECTION = 18
"""The index of the first projection's kernel in the U-Net's order: the first difference of 1.4 and 2.1."""
KERNEL_AXES = {2: (1, 0), 4: (3, 2, 0, 1)}
"""The permutation that turns the axes of Keras's kernels into torch's."""


def open_folder(folder: Path, networks: str = "msd", vae_is_given: bool = False) -> Checkpoint:
    """Return the checkpoint in `folder`, of whose weights only names and shapes are read.

    `networks` "keras-cv" asks for keras-cv's own networks: prompts are then padded as keras-cv pads them.
    Where `vae_is_given`, for the caller has another one, the decoder may be missing.
    Raises BadCheckpoint, which names the file and the remedy, for files that are missing, damaged, or in
    another order.
    """
    by_component = _components(folder, optional={VAE_DECODER.name} if vae_is_given else set())
    text_encoder, unet = _configurations(by_component)
    configs: dict[str, Any] = {TEXT_ENCODER.name: text_encoder, UNET.name: unet}
    if VAE_DECODER.name in by_component:
        configs[VAE_DECODER.name] = _vae_decoder(by_component[VAE_DECODER.name])
    if ENCODER in by_component:
        configs[ENCODER] = _vae_encoder(by_component[ENCODER])
    own_padding = PAD_2 if unet.linear_projection else PAD_1
    return Checkpoint(
        kind="keras-cv",
        name=folder.absolute().name,
        family=STABLE_DIFFUSION,
        configs=configs,
        weights={
            name: dict(_named(each, ORDERS[name](configs[name]))) for name, each in by_component.items()
        },
        tokenizers={TOKENIZER: clip_tokenizer(PAD_1 if networks == "keras-cv" else own_padding)},
        scheduler={**SCHEDULER, "prediction_type": "epsilon"},
        files={each.path.name: each.path for each in by_component.values()},
        weight_files={name: (each.path.name,) for name, each in by_component.items()},
        networks=networks,
    )


@dataclass(frozen=True)
class _StoredNetwork:
    """A component's weights in keras-cv's order, and the file that contains them."""

    path: Path
    weights: list[Weights]

    def shape(self, index: int, rank: int | None = None) -> tuple[int, ...]:
        """Return the shape of one weight, refused if it does not exist or has another rank."""
        shape = self.weights[index].shape if index < len(self.weights) else ()
        if not shape or (rank is not None and len(shape) != rank):
            raise BadCheckpoint(f"{self.path} is not arranged as keras-cv's: weight {index} is {list(shape)}")
        return shape


def weight_files(folder: Path) -> list[Path]:
    """Return the HDF5 files in a folder: those that begin as such, or are called so."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and (path.suffix == ".h5" or first_bytes(path).startswith(HDF5))
    ]


def _components(folder: Path, optional: Collection[str]) -> dict[str, _StoredNetwork]:
    """Return the contents of each component's file; other files of Keras weights are ignored."""
    by_component: dict[str, _StoredNetwork] = {}
    for path in weight_files(folder):
        stored = _StoredNetwork(path, h5.open_file(path))
        name = component([w.shape for w in stored.weights])
        if name in by_component:
            raise BadCheckpoint(
                f"{by_component[name].path} and {path} both hold a {name}; leave one of them in {folder}"
            )
        if name is not None:
            by_component[name] = stored
    for name, usual in USUAL_NAMES.items():
        if name not in by_component and name not in optional:
            raise BadCheckpoint(f"{folder} has no .h5 file with a {name}; keras-cv names it {usual}")
    return {name: by_component[name] for name in (*USUAL_NAMES, ENCODER) if name in by_component}


def component(shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Return the component that has weights of these shapes: the last bias tells what a network computes."""
    if shapes and all(len(shape) < 4 for shape in shapes):
        return "text_encoder"
    return LAST_BIAS.get(shapes[-1] if shapes else ())


def _configurations(by_component: Mapping[str, _StoredNetwork]) -> tuple[TextEncoderConfig, UNetConfig]:
    """Return the configurations, whose widths and text encoder's depth follow from the shapes."""
    text, unet = by_component[TEXT_ENCODER.name], by_component[UNET.name]
    (vocabulary, width), (length, _) = text.shape(0, 2), text.shape(1, 2)
    if vocabulary < VOCABULARY:
        raise BadCheckpoint(
            f"{text.path} knows {vocabulary} tokens; keras-cv's tokenizer, which is CLIP's, has {VOCABULARY}"
        )
    if length != LENGTH:
        raise BadCheckpoint(
            f"{text.path} reads {length} tokens at once; keras-cv's text encoders read {LENGTH}"
        )
    first = _require_divisible(unet, unet.shape(2, 4)[-1], GROUPS)
    second = len(unet.shape(PROJECTION)) == 2
    text_encoder = TextEncoderConfig(
        vocabulary=vocabulary,
        length=length,
        width=_require_divisible(text, width, HEAD),
        hidden=4 * width,
        layers=(len(text.weights) - 4) // 16,
        heads=width // HEAD,
        activation="gelu" if second else "quick_gelu",
        epsilon=1e-5,
    )
    return text_encoder, _unet(first, width, second)


def _require_divisible(stored: _StoredNetwork, width: int, by: int) -> int:
    """Return `width`, refused if it cannot be divided into groups or heads."""
    if width % by or not width:
        raise BadCheckpoint(f"{stored.path} is {width} channels wide; a multiple of {by} was expected")
    return width


def _unet(first: int, context: int, second: bool) -> UNetConfig:
    channels = tuple(first * n for n in MULTIPLES)
    return UNetConfig(
        in_channels=4,
        out_channels=4,
        size=(64, 64),
        channels=channels,
        resnets=(2, 2, 2, 2),
        down_attention=(True, True, True, False),
        up_attention=(True, True, True, False),
        heads=tuple(max(1, n // HEAD) for n in channels) if second else (8, 8, 8, 8),
        transformers=(1, 1, 1, 1),
        middle=True,
        context_width=context,
        added=None,
        linear_projection=second,
        groups=GROUPS,
        epsilon=1e-5,
        time_width=4 * first,
        guidance_width=None,
        cosine_first=True,
        frequency_shift=0.0,
    )


def _vae_decoder(stored: _StoredNetwork) -> VaeDecoderConfig:
    base = _require_divisible(stored, stored.shape(2, 4)[-1], GROUPS * MULTIPLES[-1]) // MULTIPLES[-1]
    return VaeDecoderConfig(out_channels=3, post_quant_conv=True, **_of_both_halves(base))


def _vae_encoder(stored: _StoredNetwork) -> VaeEncoderConfig:
    base = _require_divisible(stored, stored.shape(0, 4)[-1], GROUPS)
    return VaeEncoderConfig(in_channels=3, quant_conv=True, **_of_both_halves(base))


def _of_both_halves(base: int) -> dict[str, Any]:
    """Return the settings that the encoder and the decoder of keras-cv's autoencoder share."""
    return {
        "latent_channels": 4,
        "channels": tuple(base * n for n in MULTIPLES),
        "resnets": 2,
        "groups": GROUPS,
        "scaling_factor": 0.18215,
        "mid_attention": True,
    }


def _named(stored: _StoredNetwork, order: Iterator[Slot]) -> Iterator[tuple[str, Weights]]:
    """Yield each weight by its name in diffusers, in torch's layout, once its shape is checked."""
    slots = list(order)
    if len(slots) != len(stored.weights):
        raise BadCheckpoint(
            f"{stored.path} has {len(stored.weights)} weights; keras-cv's network so wide has {len(slots)}"
        )
    for slot, weights in zip(slots, stored.weights, strict=True):
        if weights.shape != slot.shape:
            raise BadCheckpoint(
                f"{weights.history} in {stored.path.parent} is {slot.name} by its place; its shape is "
                f"{list(weights.shape)}, and {list(slot.shape)} was expected"
            )
        yield slot.name, _as_torch(slot, weights)


def _as_torch(slot: Slot, weights: Weights) -> Weights:
    """Return weights in torch's layout, where all of an attention's projections are linear layers."""
    axes = None if slot.name.startswith("embeddings.") else KERNEL_AXES.get(len(slot.shape))
    transposed = weights if axes is None else weights.transpose(axes)
    return transposed.reshape(transposed.shape[:2]) if ".to_" in slot.name else transposed
