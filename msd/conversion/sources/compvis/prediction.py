"""The prediction type and the image size of a single file's U-Net, which its shapes do not determine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msd.conversion.sources.compvis.original_config import OriginalConfig
from msd.conversion.sources.stored import Contents
from msd.errors import BadCheckpoint
from msd.files.wording import listed

EPSILON, VELOCITY = "epsilon", "v_prediction"
SPELLED = {
    **dict.fromkeys(("epsilon", "eps"), EPSILON),
    **dict.fromkeys(("v", "v_prediction", "v_pred", "vpred", "velocity"), VELOCITY),
}
STATED = ("modelspec.prediction_type", "modelspec.predict_key")
"""The keys of metadata that say it: Stability AI's, and ComfyUI's."""

V_PRED, ZTSNR = "v_pred", "ztsnr"
"""Empty tensors by which files of NoobAI and others say what ComfyUI and AUTOMATIC1111 read in them."""

ZERO_SNR = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
BASE_STEP = "875000"
"""The global_step of Stable Diffusion 2 base, by which diffusers recognises it."""

BY_METADATA = "its metadata says so"
ASSUMED = "assumed, as in diffusers, of a 2.x that does not tell (--prediction-type says otherwise)"
RESOLUTION = re.compile(r"(\d{1,5})x(\d{1,5})")


@dataclass(frozen=True)
class PredictionType:
    """The prediction type `kind`, "epsilon" or "v_prediction"; `because` gives the evidence or assumption."""

    kind: str
    because: str
    zero_snr: bool = False
    """Whether the file says that its last timestep is noise alone (Lin et al., arXiv:2305.08891)."""
    contradicted_by: str = ""
    """What says another type, and does not count."""

    def scheduler(self, usual: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `usual` configuration, with the reason under a key that diffusers ignores."""
        known = {**usual, "prediction_type": self.kind, "_prediction_type_because": self.because}
        return {**known, **ZERO_SNR} if self.zero_snr and self.kind == VELOCITY else known

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is assumed or left out, a sentence each."""
        said = []
        if self.contradicted_by:
            this, other = ("noise", "velocity") if self.kind == EPSILON else ("velocity", "noise")
            says = "metadata say" if self.because == BY_METADATA else f"key {V_PRED} says"
            said.append(
                f"the file's {says} that its U-Net predicts {this}, which counts, and {self.contradicted_by},"
                f" which other programs read, {other}; --prediction-type takes the other"
            )
        if self.zero_snr and self.kind != VELOCITY:
            said.append(
                f"the file's key {ZTSNR} says that its last timestep is noise alone, which is left out: of"
                " that, a U-Net can predict the velocity, and not the noise"
            )
        return tuple(said)


def prediction(
    path: Path, contents: Contents, original: OriginalConfig, option: str | None, ambiguous: bool
) -> PredictionType:
    """Return the prediction type of the U-Net in the file at `path`; `original`: what a .yaml beside it says.

    The first of these decides: the option `option`, what the file's metadata say, its key `v_pred`, a .yaml
    file beside it, the architecture that metadata name, which fine-tunes for velocity share with the others,
    its global_step. Without any, it is noise, or velocity if `ambiguous`, as diffusers assumes.
    The key `ztsnr` says that the last timestep is noise alone. Raises BadCheckpoint where metadata or the
    .yaml file state another type.
    """
    found = _prediction(path, contents, original, option, ambiguous)
    contradicted_by = "" if option else listed(_others(found.kind, contents, original))
    return replace(found, zero_snr=ZTSNR in contents.tensors, contradicted_by=contradicted_by)


def _others(kind: str, contents: Contents, original: OriginalConfig) -> Iterator[str]:
    """Yield what says another prediction type than `kind`, which something before it decided."""
    if V_PRED in contents.tensors and kind != VELOCITY:
        yield f"its key {V_PRED}"
    if SPELLED.get(original.parameterization, kind) != kind:
        yield f"{original.name} beside it"


def _prediction(
    path: Path, contents: Contents, original: OriginalConfig, option: str | None, ambiguous: bool
) -> PredictionType:
    metadata = contents.metadata
    if option:
        return PredictionType(option, "as asked for")
    for key in STATED:
        if spelled := metadata.get(key, "").strip():
            return PredictionType(_spelled(path, key, spelled), BY_METADATA)
    if V_PRED in contents.tensors:
        return PredictionType(VELOCITY, f"its key {V_PRED} says so")
    if original.name:
        return PredictionType(_by_original(path, original), f"{original.name} beside it says so")
    if (kind := _by_architecture(metadata.get("modelspec.architecture", ""))) is not None:
        return PredictionType(kind, "its metadata names an architecture that does")
    if not ambiguous:
        return PredictionType(EPSILON, "as Stable Diffusion 1.x, XL and inpainting do")
    if metadata.get("global_step") == BASE_STEP:
        return PredictionType(EPSILON, f"its global_step of {BASE_STEP} is that of Stable Diffusion 2 base")
    return PredictionType(VELOCITY, ASSUMED)


def _spelled(path: Path, key: str, spelled: str) -> str:
    kind = SPELLED.get(spelled.lower().replace("-", "_"))
    if kind is None:
        raise BadCheckpoint(
            f"{path}'s metadata says {key} = {spelled!r}, and only epsilon and v are supported"
            " (--prediction-type says otherwise)"
        )
    return kind


def cells(metadata: Mapping[str, str], usual: int, scale: int) -> list[int]:
    """Return the height and width in latent cells, of `scale` pixels each, for which a U-Net was trained.

    The metadata may give width x height in pixels; otherwise both are `usual`.
    """
    match = RESOLUTION.fullmatch(metadata.get("modelspec.resolution", ""))
    if match and all(int(pixels) >= scale for pixels in match.groups()):
        return [int(match[2]) // scale, int(match[1]) // scale]
    return [usual // 8] * 2


def _by_architecture(name: str) -> str | None:
    if name.startswith("stable-diffusion-v2-768-v"):
        return VELOCITY
    noise = ("stable-diffusion-v1", "stable-diffusion-v2-512", "stable-diffusion-xl-v1")
    return EPSILON if name.startswith(noise) else None


def _by_original(path: Path, original: OriginalConfig) -> str:
    """Return the prediction type that CompVis's configuration says; its default is noise."""
    kind = original.parameterization or "eps"
    if kind not in SPELLED:
        place = path.with_name(original.name)
        raise BadCheckpoint(f"{place} says parameterization: {kind}, and only eps and v are supported")
    return SPELLED[kind]
