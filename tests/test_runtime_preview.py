"""Previews: what a step takes to be clean, against diffusers', and the decoder beside the U-Net."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.bundle import open_bundle
from msd.compress.calibration.generated_inputs import collect_inputs
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.run.runners.runner import Runnable
from msd.run.runtime.execution import EXECUTIONS, Execution
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.preview import Preview
from msd.run.runtime.request import Request
from msd.run.runtime.scheduler import make_scheduler
from tests import checkpoints, stand_in, tiny_autoencoders
from tests.reference import reference


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
@pytest.mark.parametrize(("name", "kind"), [("ddim", "DDIMScheduler"), ("euler", "EulerDiscreteScheduler")])
def test_what_is_clean_is_what_diffusers_takes_for_it(name: str, kind: str, prediction: str) -> None:
    import diffusers
    import torch

    config = {**stand_in.SCHEDULER, "prediction_type": prediction}
    theirs = getattr(diffusers, kind).from_config(config)
    theirs.set_timesteps(5)
    table = make_scheduler(config, name).table(5)
    latent = noise(1, (1, 4, 6, 4)) * np.float32(table.start)
    for i, (timestep, step) in enumerate(zip(theirs.timesteps, table.steps, strict=True)):
        output = noise(2, latent.shape, i)
        theirs.scale_model_input(torch.from_numpy(latent), timestep)
        done = theirs.step(torch.from_numpy(output), timestep, torch.from_numpy(latent))
        latent, memory = step.apply(latent, output)
        wanted = done.pred_original_sample.numpy()
        np.testing.assert_allclose(memory.clean, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random bundle with a preview decoder beside its own."""
    folder = tmp_path_factory.mktemp("tiny")
    checkpoints.write(folder / "source", checkpoints.TINY)
    tiny_autoencoders.write(folder / "taesd", **tiny_autoencoders.SHALLOW)
    settings = Settings(graph_rewrites.load(), find_recipe("float32"), preview_vae=folder / "taesd")
    convert(folder / "source", folder / "out", settings)
    return folder


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_the_preview_decoder_decodes_previews_and_leaves_the_picture_alone(
    execution: Execution, tiny_folder: Path
) -> None:
    from diffusers import AutoencoderTiny

    vae = AutoencoderTiny.from_pretrained(tiny_folder / "taesd")
    opened, shown = [], []

    def keep(preview: Preview) -> None:
        wanted = reference({"vae": vae}, "vae_decoder", {"latent": preview.latents})[0]
        shown.append(psnr((wanted / 2 + 0.5).clip(0, 1), preview.pixels() / 255))

    def note(name: str, runner: Runnable) -> Runnable:
        opened.append(name)
        return runner

    with Pipeline(open_bundle(tiny_folder / "out"), execution=execution, wrap=note) as pipeline:
        picture = pipeline.generate("a red dog", steps=2, on_preview=keep)
        first, opened[:] = [*opened], []
        assert np.array_equal(picture.pixels, pipeline.generate("a red dog", steps=2).pixels)
    assert min(shown) >= 50  # half a level of 255 is 54 dB
    assert len(shown) == 2
    assert first.count("preview_decoder") == (2 if execution == "sequential" else 1)
    assert first.count("vae_decoder") == 1
    assert "preview_decoder" not in opened


def test_the_preview_decoder_is_calibrated_on_the_latents_of_images(tiny_folder: Path) -> None:
    bundle, request = open_bundle(tiny_folder / "out"), Request("a red dog", steps=2)
    (found,) = collect_inputs(bundle, [request])["preview_decoder"]
    wanted = Pipeline(bundle).generate("a red dog", steps=2).latents
    assert psnr(wanted, found["latent"]) >= 40  # DDIM does not end at an alpha of 1


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_previews_end_in_the_picture_and_do_not_change_it(execution: Execution, bundle_folder: Path) -> None:
    shown: list[tuple[int, int, np.ndarray]] = []

    def keep(preview: Preview) -> None:
        assert preview.seconds > 0
        assert preview.latents.shape == (1, 4, 6, 4)
        shown.append((preview.number, preview.total, preview.pixels()))

    with Pipeline(open_bundle(bundle_folder), scheduler="euler", execution=execution) as pipeline:
        picture = pipeline.generate("a red dog", steps=4, on_preview=keep)
        assert np.array_equal(picture.pixels, pipeline.generate("a red dog", steps=4).pixels)
    assert [each[:2] for each in shown] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    np.testing.assert_array_equal(shown[-1][2], picture.pixels)
    assert not np.array_equal(shown[0][2], picture.pixels)
