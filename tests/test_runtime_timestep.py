"""The sinusoids of a timestep against diffusers'."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msd.run.runtime.timestep import embed_timestep


@pytest.mark.parametrize("cosine_first", [True, False])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("width", [320, 16, 7])
def test_the_embedding_is_diffusers(width: int, shift: int, cosine_first: bool) -> None:
    from diffusers.models.embeddings import get_timestep_embedding

    for timestep in (0, 1, 487, 999):
        expected = get_timestep_embedding(
            torch.tensor([timestep]), width, flip_sin_to_cos=cosine_first, downscale_freq_shift=shift
        )[0].numpy()
        got = embed_timestep(timestep, width, cosine_first, shift)
        assert (got.dtype, got.shape) == (np.float32, (width,))
        # An angle of 999 in float32 is known to 6e-5, and so are its sine and cosine.
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
