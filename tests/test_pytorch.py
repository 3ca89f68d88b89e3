"""A checkpoint run by PyTorch as the runtime runs converted files, against diffusers' own pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from msd.errors import BadCheckpoint
from msd.graph.parity import psnr
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.train.pytorch.backend import torch_backend
from msd.train.pytorch.bundle import checkpoint_bundle
from msd.train.pytorch.modules import library_class
from tests.checkpoints import INPAINTING, SHALLOW, TINY, Config, vary, write
from tests.late import diffusers, transformers

WIDE = vary(TINY, unet={"sample_size": [4, 12]}, scheduler={"prediction_type": "v_prediction"})
TAKES_SCALE = vary(SHALLOW, unet={"sample_size": [6, 4]})
PROMPT = "red reed, nearly"


def pipeline(folder: Path, batch: int = 1, together: int = 1, scheduler: str | None = None) -> Pipeline:
    checkpoint, bundle = checkpoint_bundle(folder, batch)
    backend = torch_backend(checkpoint, bundle, "cpu")
    return Pipeline(bundle, backend, scheduler=scheduler, execution="resident", together=together)


def peer(
    folder: Path, modules: dict[str, torch.nn.Module], config: Config
) -> diffusers.StableDiffusionPipeline:
    return diffusers.StableDiffusionPipeline(
        **modules,
        tokenizer=transformers.CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        scheduler=diffusers.DDIMScheduler.from_config(config["scheduler"]),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


@pytest.mark.parametrize("guidance", [1.0, 4.0])
@pytest.mark.parametrize("config", [WIDE, TAKES_SCALE], ids=["v", "takes the scale"])
def test_images_are_those_of_diffusers(tmp_path: Path, config: Config, guidance: float) -> None:
    modules = write(tmp_path, config)
    rows, columns = config["unet"]["sample_size"]
    ours = pipeline(tmp_path).generate(PROMPT, seed=5, steps=3, guidance=guidance)
    theirs = peer(tmp_path, modules, config)
    theirs.set_progress_bar_config(disable=True)
    start = torch.from_numpy(noise(5, (1, rows, columns, 4)).transpose(0, 3, 1, 2))
    settings = {"num_inference_steps": 3, "guidance_scale": guidance, "latents": start}
    latents = theirs(PROMPT, **settings, output_type="latent").images.numpy().transpose(0, 2, 3, 1)
    assert ours.latents.shape == (1, rows, columns, 4)
    assert psnr(latents, ours.latents) > 100
    pixels = (theirs(PROMPT, **settings, output_type="np").images[0] * 255).round()
    assert np.abs(ours.pixels - pixels).max() <= 1
    assert len(np.unique(ours.pixels)) > 20


@pytest.mark.parametrize("scheduler", ["ddim", "euler-a", "lcm"])
def test_images_denoised_together_are_those_denoised_alone(tmp_path: Path, scheduler: str) -> None:
    write(tmp_path, WIDE)
    requests = [Request(f"red {i}", seed=3 * i, steps=3, guidance=2.5) for i in range(5)]
    requests.insert(2, Request("red", seed=1, steps=2, guidance=2.5))
    requests.append(Request("reed", seed=2, steps=3, guidance=1.0))
    told: list[tuple[int, int]] = []
    together = pipeline(tmp_path, 2, 2, scheduler).generate_all(
        requests, lambda done, total, seconds: told.append((done, total))
    )
    alone = pipeline(tmp_path, 1, 1, scheduler)
    for request, image in zip(requests, together, strict=True):
        (wanted,) = alone.generate_all([request])
        assert psnr(wanted.latents, image.latents) > 100
        assert image.metadata["prompt"] == request.prompt
        assert image.latents.shape == (1, 4, 12, 4)
    assert told == [(i, 20) for i in range(1, 21)]


def test_a_tiny_autoencoder_decodes(tmp_path: Path) -> None:
    config = vary(TINY, unet={"sample_size": [4, 6]})
    write(tmp_path, config)
    (tmp_path / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    torch.manual_seed(1)
    tiny = diffusers.AutoencoderTiny(
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    ).eval()
    tiny.save_pretrained(tmp_path / "vae")
    index = tmp_path / "model_index.json"
    index.write_text(index.read_text().replace("AutoencoderKL", "AutoencoderTiny"))
    image = pipeline(tmp_path).generate(PROMPT, steps=2)
    with torch.no_grad():
        decoded = tiny.decode(torch.from_numpy(image.latents.transpose(0, 3, 1, 2))).sample
    wanted = ((decoded[0].clamp(-1, 1) / 2 + 0.5) * 255).round().permute(1, 2, 0).numpy()
    assert np.abs(image.pixels - wanted).max() <= 1


def test_the_bundle_says_what_a_manifest_would(tmp_path: Path) -> None:
    write(tmp_path, WIDE)
    _, bundle = checkpoint_bundle(tmp_path, 3)
    unet = bundle.component("unet")
    assert {spec.name: spec.shape for spec in unet.inputs} == {
        "latent": (6, 4, 12, 4),
        "timestep": (6,),
        "context": (6, 77, 48),
    }
    assert (bundle.manifest.configuration.height, bundle.manifest.configuration.width) == (8, 24)
    assert (bundle.manifest.images.steps, bundle.manifest.images.guidance) == (20, 7.5)
    assert bundle.model_hash == checkpoint_bundle(tmp_path)[1].model_hash
    write(tmp_path, WIDE, seed=1)
    assert bundle.model_hash != checkpoint_bundle(tmp_path)[1].model_hash


def test_a_model_that_repaints_is_refused(tmp_path: Path) -> None:
    write(tmp_path, INPAINTING)
    with pytest.raises(
        BadCheckpoint, match="repaints or edits an image, and PyTorch runs models of prompts alone"
    ):
        checkpoint_bundle(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tensors: tensors.pop("conv_in.bias"), r"lacks the tensors \['conv_in.bias'\]"),
        (lambda tensors: tensors.update(more=torch.ones(2)), r"does not know \['more'\]"),
        (
            lambda tensors: tensors.update({"conv_in.bias": torch.ones(3)}),
            r"do not fit UNet.*conv_in\.bias",
        ),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path: Path, change, sentence: str) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, WIDE)
    path = tmp_path / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    with pytest.raises(BadCheckpoint, match=f"(?s){sentence}"):
        pipeline(tmp_path)


def test_one_thread_at_a_time_imports_the_libraries() -> None:
    """Networks are opened in threads of their own, and these libraries' late imports bear only one."""
    first, second, go = Event(), Event(), Event()

    def imported(library: str) -> Any:
        (second if first.is_set() else first).set()
        go.wait(60)
        return import_module(library)

    with mock.patch("msd.train.pytorch.modules.import_module", imported):
        one, other = (Thread(target=library_class, args=("CLIPTextModel",)) for _ in range(2))
        one.start()
        assert first.wait(60)
        other.start()
        assert not second.wait(0.5)
        go.set()
        for thread in (one, other):
            thread.join(60)
    assert second.is_set()
    assert library_class("UNet2DConditionModel") is diffusers.UNet2DConditionModel


@pytest.mark.parametrize("tensorflow", [True, False])
def test_triton_is_not_imported_behind_tensorflow(tensorflow: bool, tmp_path: Path) -> None:
    """The real one then ends the process, as this stand-in for it does whenever it is imported."""
    (tmp_path / "tensorflow.py").write_text("")
    (tmp_path / "triton.py").write_text("import os; os._exit(139)")
    code = "import tensorflow; " * tensorflow
    code += "from msd.train.pytorch.modules import library_class; library_class('AutoencoderKL'); "
    code += "import sys; assert 'triton' not in sys.modules"
    path = f"{tmp_path}{os.pathsep}{Path.cwd()}"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == (0 if tensorflow else 139)
