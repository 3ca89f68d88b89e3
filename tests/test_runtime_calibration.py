"""Real inputs: what is gathered is what the networks were fed, the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from msd.bundle import COMPONENTS, open_bundle
from msd.interpreter import Interpreter
from msd.runtime.calibration import gather
from msd.runtime.pipeline import Pipeline, Request

REQUESTS = [Request("a", steps=3, seed=1), Request("b", steps=2, seed=2, guidance=1)]


def test_every_run_is_kept(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    found = gather(bundle, REQUESTS)
    # With guidance each step runs twice, and the negative prompt is read too.
    assert {name: len(runs) for name, runs in found.items()} == {
        "text_encoder": 3,
        "unet": 3 * 2 + 2,
        "vae_decoder": 2,
    }
    for name in COMPONENTS:
        for inputs in found[name]:
            assert {n: v.shape for n, v in inputs.items()} == {
                i.name: i.shape for i in bundle.component(name).inputs
            }


def test_the_last_latents_are_the_pictures(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    found = gather(bundle, REQUESTS)["vae_decoder"]
    for inputs, picture in zip(found, Pipeline(bundle).draw(REQUESTS), strict=True):
        np.testing.assert_array_equal(inputs["latent"].reshape(picture.latents.shape), picture.latents)


def test_it_is_deterministic(bundle_folder: Path) -> None:
    first, second = (gather(open_bundle(bundle_folder), REQUESTS) for _ in range(2))
    for name, runs in first.items():
        for a, b in zip(runs, second[name], strict=True):
            for key, value in a.items():
                np.testing.assert_array_equal(value, b[key])
    with Interpreter(bundle_folder / "unet.tflite", float_weights=True) as network:
        assert np.isfinite(network.run(first["unet"][0])["noise"]).all()
