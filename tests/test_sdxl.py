"""Stable Diffusion XL, converted, against diffusers' own pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import msd
from msd.bundle import Bundle, open_bundle
from msd.compress.calibration.generated_inputs import Runnable
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.conversion.sources.formats import open_checkpoint
from msd.errors import BadCheckpoint
from msd.export.app import manifest
from msd.export.app.manifest import NAME
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.export.web.expected import expected_inputs
from msd.graph import tflite
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.blockwise.labels import label
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.tokenizer import open_tokenizer
from tests import checkpoints, xl_checkpoints
from tests.drawings import nchw, nhwc
from tests.jvm import Jvm, floats
from tests.late import diffusers
from tests.test_wiring import REPLAY, Player, decoded, encoded, mapped
from tests.web.node import SITE, evaluate

CPU = Engine(find_backend("cpu"), Conditions(threads=1))
START = np.random.default_rng(1).standard_normal((1, 8, 12, 4), np.float32)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, diffusers.StableDiffusionXLPipeline]:
    folder = tmp_path_factory.mktemp("xl") / "checkpoint"
    return folder, xl_checkpoints.write(folder)


@pytest.fixture(scope="module")
def bundle(theirs: tuple[Path, diffusers.StableDiffusionXLPipeline]) -> Bundle:
    out = theirs[0].parent / "float32"
    msd.convert(theirs[0], out, recipe="float32")
    return open_bundle(out, verify=True)


def test_the_calls_are_in_the_manifest(bundle: Bundle) -> None:
    calls = {call.component: call for call in bundle.manifest.calls}
    assert bundle.manifest.family == "stable-diffusion-xl"
    assert [*calls] == ["text_encoder", "text_encoder_2", "unet", "vae_decoder"]
    assert [*map(str, bundle.wiring.tokenizers)] == ["tokenizer", "tokenizer_2"]
    assert {each.name for each in calls["unet"].inputs} >= {"text_embeds", "time_ids_embedding"}
    assert (bundle.manifest.configuration.height, bundle.manifest.configuration.width) == (16, 24)


@pytest.mark.parametrize(
    ("tokenizer", "encoder"), [("tokenizer", "text_encoder"), ("tokenizer_2", "text_encoder_2")]
)
def test_the_encoders_compute_what_transformers_do(
    tokenizer: str, encoder: str, bundle: Bundle, theirs: tuple[Path, diffusers.StableDiffusionXLPipeline]
) -> None:
    """The states before the last layer, without the last norm; the pooled vector is the end token's."""
    for prompt in ("a red dog!", "", "red " * 100):
        ids = open_tokenizer(bundle.folder / tokenizer).encode(prompt)
        read = getattr(theirs[1], tokenizer)(
            prompt, padding="max_length", max_length=77, truncation=True, return_tensors="pt"
        )
        np.testing.assert_array_equal(ids, read.input_ids[0].numpy())
        wanted = getattr(theirs[1], encoder)(read.input_ids, output_hidden_states=True)
        with Interpreter(bundle.path(encoder)) as network:
            found = network.run({"tokens": ids.reshape(1, -1).astype(np.int32)})
        states = wanted.hidden_states[-2].detach().numpy()
        assert psnr(states, found["context"].reshape(states.shape)) >= 75
        if "text_embeds" in found:
            assert psnr(wanted.text_embeds.detach().numpy(), found["text_embeds"]) >= 75


@pytest.mark.parametrize("guidance", [1.0, 7.5])
@pytest.mark.parametrize("negative", ["blurry", ""])
def test_an_image_is_diffusers_own(
    negative: str, guidance: float, bundle: Bundle, theirs: tuple[Path, diffusers.StableDiffusionXLPipeline]
) -> None:
    """20 steps; without a negative prompt, what would be its embeddings are zeros."""
    settings: dict[str, Any] = {
        "num_inference_steps": 20,
        "guidance_scale": guidance,
        "output_type": "latent",
    }
    settings |= {"height": 16, "width": 24, "negative_prompt": negative or None}
    wanted = theirs[1]("a red dog!", latents=nchw(START), **settings).images
    shown = theirs[1].vae.decode(wanted / theirs[1].vae.config.scaling_factor).sample.detach()
    made = Pipeline(bundle).generate(
        "a red dog!", negative_prompt=negative, steps=20, guidance=guidance, latents=START
    )
    assert psnr(nhwc(wanted), made.latents) >= 60
    assert psnr((nhwc(shown)[0] / 2 + 0.5).clip(0, 1), made.pixels / 255) >= 50


@pytest.mark.parametrize("recipe", ["gpu-w8", "gpu-w4", "tflite-gpu-w8"])
def test_every_recipe_keeps_the_image(
    recipe: str, bundle: Bundle, theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    msd.convert(theirs[0], tmp_path / "out", recipe=recipe)
    wanted = Pipeline(bundle).generate("a red dog!", steps=4, guidance=2.0, latents=START)
    made = Pipeline(open_bundle(tmp_path / "out")).generate(
        "a red dog!", steps=4, guidance=2.0, latents=START
    )
    assert psnr(wanted.latents, made.latents) >= (15 if recipe == "gpu-w4" else 30)


@pytest.mark.parametrize("encoder", ["text_encoder", "text_encoder_2"])
def test_the_encoders_run_on_webgpu(encoder: str, bundle: Bundle) -> None:
    given = random_inputs(bundle.component(encoder).inputs, 3)
    given["tokens"][0, 5:9] = 515
    with CPU.load(bundle.path(encoder)) as network:
        wanted = network.run(given)
    with Engine(find_backend("webgpu")).load(bundle.path(encoder)) as network:
        found = network.run(given)
    for name, values in wanted.items():
        assert psnr(values, found[name].reshape(values.shape)) >= 90, name


def changed(folder: Path, name: str, **settings: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        ("unet/config.json", {"addition_embed_type": None}, "addition_embed_type = None, and the U-Net of"),
        ("unet/config.json", {"cross_attention_dim": 48}, "cross_attention_dim = 48, but text_encoder and"),
        (
            "text_encoder_2/config.json",
            {"projection_dim": 32},
            "but text_encoder_2 say projection_dim = 32",
        ),
        ("unet/config.json", {"projection_class_embeddings_input_dim": 48}, "sinusoids of 6 sizes of 8 each"),
        (
            "model_index.json",
            {"force_zeros_for_empty_prompt": False},
            "force_zeros_for_empty_prompt = False, and only True is",
        ),
    ],
)
def test_networks_that_do_not_fit_are_refused(
    file: str,
    settings: dict[str, Any],
    message: str,
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "checkpoint"
    for path in theirs[0].rglob("*"):
        if path.is_file():
            (folder / path.relative_to(theirs[0])).parent.mkdir(parents=True, exist_ok=True)
            (folder / path.relative_to(theirs[0])).write_bytes(path.read_bytes())
    changed(folder, file, **settings)
    with pytest.raises(BadCheckpoint, match=re.escape(message)):
        msd.convert(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_its_second_tokenizer_is_refused(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    for path in theirs[0].iterdir():
        if path.name != "tokenizer_2":
            (tmp_path / path.name).symlink_to(path)
    with pytest.raises(BadCheckpoint, match=r"tokenizer_2 has neither vocab\.json and merges\.txt nor"):
        msd.convert(tmp_path, tmp_path / "out")


def test_a_unet_of_xl_among_the_networks_of_stable_diffusion_is_refused(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    checkpoints.write(tmp_path, checkpoints.TINY)
    changed(tmp_path, "unet/config.json", **json.loads((theirs[0] / "unet/config.json").read_text()))
    with pytest.raises(BadCheckpoint, match="says addition_embed_type = text_time, as Stable Diffusion XL's"):
        msd.convert(tmp_path, tmp_path / "out")


@pytest.fixture(scope="module")
def app(bundle: Bundle) -> Path:
    """The files of an app beside those of the bundle."""
    manifest.write_manifest(manifest.describe(bundle, steps=(3,), licence="MIT"), bundle, bundle.folder)
    return bundle.folder


@pytest.mark.parametrize("negative", ["blurry", ""])
def test_the_kotlin_library_generates_the_same_image(
    negative: str, app: Path, bundle: Bundle, kotlin: Jvm
) -> None:
    """On networks in LiteRT; calls, both tokenizers and zeros are the library's own."""
    with ExitStack() as stack:
        opened = {n: stack.enter_context(CPU.load(bundle.path(n))) for n in bundle.manifest.components}

        def serve(role: str, given: dict[str, Any]) -> dict[str, Any]:
            ports = bundle.component(role).inputs
            return opened[role].run({port.name: given[port.name].reshape(port.shape) for port in ports})

        wishes: dict[str, Any] = {"prompt": "a red dog!", "negative": negative, "seed": 5, "steps": 3}
        found = kotlin.ask("generate served", serve, folder=str(app), guidance=3.0, **wishes)
    wanted = Pipeline(bundle).generate("a red dog!", negative_prompt=negative, seed=5, steps=3, guidance=3.0)
    assert psnr(wanted.latents.ravel(), floats(found["latents"])) >= 60


class Recorder:
    """A network that writes down its runs."""

    def __init__(self, name: str, runner: Runnable, runs: list[dict[str, Any]]) -> None:
        self._name, self._runner, self._runs = name, runner, runs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        outputs = self._runner.run(inputs)
        given = {name: encoded(value) for name, value in inputs.items()}
        found = {name: encoded(value) for name, value in outputs.items()}
        self._runs.append({"role": self._name, "inputs": given, "outputs": found})
        return outputs


@pytest.mark.parametrize("negative", ["blurry", ""])
def test_the_page_gives_the_networks_the_same(negative: str, app: Path, bundle: Bundle) -> None:
    """In Node.js, with the networks' answers as they were to Python."""
    runs: list[dict[str, Any]] = []
    pipeline = Pipeline(bundle, wrap=lambda name, runner: Recorder(name, runner, runs))
    wanted = pipeline.generate("a red dog!", negative_prompt=negative, seed=5, steps=3, guidance=3.0)
    texts = [(app / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    request = {"prompt": "a red dog!", "negativePrompt": negative, "seed": 5, "steps": 3, "guidance": 3.0}
    found = evaluate(REPLAY, *texts, runs, request, None)
    player = Player({"runs": runs})
    for run in found["given"]:
        player(run["role"], mapped(decoded, run["inputs"]))
    player.require_done()
    assert psnr(wanted.latents.ravel(), floats(found["latents"])) >= 60


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, diffusers.StableDiffusionXLPipeline]:
    """A folder with a checkpoint, `folder`, and with the same in one file, `one.safetensors`."""
    place = tmp_path_factory.mktemp("both")
    pipeline = xl_checkpoints.write(place / "folder", single=True)
    xl_checkpoints.write_single_file(place / "one.safetensors", pipeline)
    return place, pipeline


def test_diffusers_reads_the_single_file(both: tuple[Path, diffusers.StableDiffusionXLPipeline]) -> None:
    """So that what is compared below is a file of the public layout."""
    place, pipeline = both
    read = diffusers.StableDiffusionXLPipeline.from_single_file(
        str(place / "one.safetensors"), config=str(place / "folder"), local_files_only=True
    )
    for name in ("text_encoder", "text_encoder_2", "unet", "vae"):
        wanted = pipeline.components[name].state_dict()
        for key, tensor in read.components[name].state_dict().items():
            assert torch.equal(tensor, wanted[key]), key


def test_a_single_file_makes_the_bytes_of_the_folder(
    both: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    made = {}
    for name in ("folder", "one.safetensors"):
        msd.convert(both[0] / name, tmp_path / name, height=16, width=24)
        made[name] = open_bundle(tmp_path / name).manifest
    folder, one = made.values()
    assert {n: f.sha256 for n, f in folder.components.items()} == {
        n: f.sha256 for n, f in one.components.items()
    }
    assert (one.family, one.calls) == (folder.family, folder.calls)
    ids = [open_tokenizer(tmp_path / n / "tokenizer_2").encode("a red dog!").tolist() for n in made]
    assert ids[0] == ids[1]
    scheduler = json.loads((tmp_path / "one.safetensors/scheduler/scheduler_config.json").read_text())
    assert (scheduler["_class_name"], scheduler["prediction_type"]) == ("EulerDiscreteScheduler", "epsilon")
    assert open_job(both[0] / "one.safetensors", Settings(())).size.pixels == (256, 256)


def test_keys_of_a_single_file_tell_of_velocity(
    both: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    """As NoobAI's and Illustrious's files for v-prediction have them."""
    keys = {"v_pred": torch.empty(0), "ztsnr": torch.empty(0)}
    path = xl_checkpoints.write_single_file(tmp_path / "v.safetensors", both[1], **keys)
    scheduler = open_checkpoint(path).scheduler
    wanted = {
        "prediction_type": "v_prediction",
        "rescale_betas_zero_snr": True,
        "timestep_spacing": "trailing",
    }
    assert {key: scheduler[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        (r"conditioner\.embedders\.1\.", r"has no second text encoder \(conditioner\.embedders\.1\.\*\)"),
        (r"conditioner\.embedders\.1\.model\.text_projection", "lacks .*text_projection"),
        (r"first_stage_model\.", r"has no VAE .* give one with --vae"),
        (r"conditioner\.", "other conditions than text .*Stable Diffusion XL beside its text encoders"),
    ],
)
def test_an_incomplete_single_file_is_refused(
    drop: str, message: str, both: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    tensors = load_file(both[0] / "one.safetensors")
    save_file({n: t for n, t in tensors.items() if not re.match(drop, n)}, tmp_path / "x.safetensors")
    with pytest.raises(BadCheckpoint, match=message):
        open_checkpoint(tmp_path / "x.safetensors")


def test_the_refiner_is_refused_by_name(
    both: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    tensors = load_file(both[0] / "one.safetensors")
    moved = {n.replace("embedders.1", "embedders.0"): t for n, t in tensors.items() if "embedders.0" not in n}
    save_file(moved, tmp_path / "refiner.safetensors")
    with pytest.raises(BadCheckpoint, match="is Stable Diffusion XL's refiner, which goes on where the base"):
        open_checkpoint(tmp_path / "refiner.safetensors")


@pytest.mark.parametrize("prefix", ["first_stage_model.", ""])
def test_an_autoencoder_in_one_file_scales_as_the_family_s_do(
    prefix: str, both: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    """By 0.13025, and not by the factor of Stable Diffusion 1.x, in place of the checkpoint's or of none."""
    tensors = load_file(both[0] / "one.safetensors")
    of_vae = {n: t for n, t in tensors.items() if n.startswith("first_stage_model.")}
    renamed = {prefix + n.removeprefix("first_stage_model."): t for n, t in of_vae.items()}
    save_file(renamed, tmp_path / "vae.safetensors")
    save_file({n: t for n, t in tensors.items() if n not in of_vae}, tmp_path / "without.safetensors")
    for source in (both[0] / "folder", both[0] / "one.safetensors", tmp_path / "without.safetensors"):
        job = open_job(source, Settings((), vae=[tmp_path / "vae.safetensors"]))
        assert job.checkpoint.configs["vae_decoder"].scaling_factor == 0.13025


@pytest.mark.parametrize("layout", ["folder", "single file"])
@pytest.mark.parametrize(("channels", "what"), [(8, "an image to edit"), (9, "a mask and the masked image")])
def test_a_unet_that_takes_more_than_latents_is_refused(
    channels: int, what: str, layout: str, tmp_path: Path
) -> None:
    """Those of SDXL's inpainting and InstructPix2Pix: the calls have nothing to put beside the latents."""
    folder = tmp_path / "checkpoint"
    theirs = xl_checkpoints.write(folder, single=layout != "folder", unet={"in_channels": channels})
    source = folder
    if layout != "folder":
        source = xl_checkpoints.write_single_file(tmp_path / "one.safetensors", theirs)
    with pytest.raises(
        BadCheckpoint, match=rf"takes {channels} channels: beside latents of 4 {what}.* 4 \(the"
    ):
        msd.convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_triangle_that_finds_the_end_is_no_block(bundle: Bundle) -> None:
    """Else a mixed recipe would name it, and it holds no weights to store."""
    graph = tflite.read(bundle.path("text_encoder_2")).main
    assert {*label(graph).values()} == {"embeddings", *(f"encoder.layers.{n}" for n in range(4))}


def test_a_page_makes_the_same_ids(bundle: Bundle) -> None:
    part = bundle.component("text_encoder_2")
    expected = expected_inputs(part.inputs, 3, 11, 200)["tokens"]
    inputs = [{"name": each.name, "shape": each.shape, "dtype": each.dtype} for each in part.inputs]
    script = f"""
      import {{ expectedInputs }} from '{SITE.as_uri()}/msd/verdict.js';
      const made = expectedInputs({{ inputs: input[0] }}, input[1]);
      console.log(JSON.stringify([...made.tokens]));
    """
    for end, last in ((200, [200]), (None, [76 % 11])):
        made = evaluate(script, inputs, {"seed": 3, "tokens": 11, "end": end})
        assert made == [*expected.reshape(-1)[:-1].tolist(), *last]
