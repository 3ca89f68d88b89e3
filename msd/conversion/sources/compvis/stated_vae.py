"""What a .yaml beside an autoencoder's file says: its own configuration, or that of a whole model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.conversion.sources.compvis.original_config import SCALE, read_model, read_scale
from msd.conversion.sources.compvis.stated_structure import StatedStructure, read_vae


@dataclass(frozen=True)
class StatedVae:
    """The factor of an autoencoder's latents, None where none is said, and its structure."""

    scale: float | None
    structure: StatedStructure

    def used(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return diffusers' settings of the weights with the factor.

        Raises BadCheckpoint where another structure is said.
        """
        self.structure.require_same(None, settings)
        return {**settings} if self.scale is None else {**settings, "scaling_factor": self.scale}

    def remark(self, usual: float) -> str:
        """Return a sentence where the factor is not the `usual` one, "" where it is."""
        if self.scale in (None, usual):
            return ""
        return (
            f"{self.structure.name} beside the file says {SCALE} = {self.scale:g}, which is used in place of"
            f" {usual:g}"
        )


def read_stated_vae(path: Path) -> StatedVae:
    """Return what a .yaml beside the file at `path` says of an autoencoder.

    Raises BadCheckpoint, naming it, for what no autoencoder has.
    """
    beside = path.with_suffix(".yaml")
    said = read_model(beside)
    return StatedVae(read_scale(beside, said), read_vae(beside, said))
