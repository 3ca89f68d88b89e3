"""The noise schedule that a training program leaves among a single file's tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from msd.graph.ir.weights import Weights
from msd.run.runtime.diffusion import Diffusion

STORED = "alphas_cumprod"
NEAR = 2e-3
"""Float16 and bfloat16 round an alpha by less."""


def schedule_remarks(tensors: Mapping[str, Weights], scheduler: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence where the stored schedule is not the one of the configuration, which is used.

    Diffusers' loaders of single files do not read the stored one either.
    """
    if STORED not in tensors or tensors[STORED].shape != (int(scheduler["num_train_timesteps"]),):
        return
    stored = tensors[STORED].load().astype(np.float64)
    used = Diffusion.from_config(scheduler).alphas()
    if np.allclose(stored, used, rtol=0, atol=NEAR):
        return
    why = f"the file's {STORED} end at {stored[-1]:.4f}, and the schedule that is used at {used[-1]:.4f}"
    yield (
        f"{why}: they are left out, as in diffusers; --scheduler NAME:SETTING=VALUE changes the schedule, by"
        " beta_start, beta_end or rescale_betas_zero_snr"
    )
