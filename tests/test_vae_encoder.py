"""The encoder of the autoencoder, a fourth file on request: converted, calibrated, measured, exported."""

from __future__ import annotations

import json
import shutil
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.cli import msd as umbrella
from msd.compress.calibration.generated_inputs import collect_inputs
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.conversion.trace import with_weights
from msd.errors import BadBundle, BadConfig
from msd.graph.ir import Graph, Model
from msd.graph.parity import psnr
from msd.graph.prediction.device import Device
from msd.graph.prediction.rules import predict
from msd.graph.prediction.size_limits import size_problems
from msd.graph.rewrite import apply
from msd.measure.bench.image_time import image_time
from msd.measure.bench.measure import measure
from msd.measure.judging import judge
from msd.models.families import optional_names
from msd.models.structure_cache import structure_of
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runners.timings import Effort
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from tests import checkpoints, single_files
from tests.reference import Array, Modules, reference
from tests.stable_diffusion import COMPONENTS, networks_for, public_configs
from tests.traced import random_weights

NAME = "vae_encoder"
ALL = ("text_encoder", NAME, "unet", "vae_decoder")
HEIGHT, WIDTH = 24, 40
PIXELS = ("--height", HEIGHT, "--width", WIDTH)
INPAINTING = checkpoints.vary(checkpoints.TINY, unet={"in_channels": 9})
LACKING = "has no weights of the VAE encoder"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(umbrella, [str(argument) for argument in arguments], catch_exceptions=False)


def assert_done(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encoder")


@pytest.fixture(scope="module")
def modules(folder: Path) -> Modules:
    return checkpoints.write(folder / "tiny", checkpoints.TINY)


@pytest.fixture(scope="module")
def exact(folder: Path, modules: Modules) -> Bundle:
    options = ("--also", NAME, "--recipe", "float32", *PIXELS)
    assert_done(call("convert", folder / "tiny", "-o", folder / "float32", *options))
    return open_bundle(folder / "float32", verify=True)


@pytest.fixture(scope="module")
def small(folder: Path, modules: Modules) -> Bundle:
    assert_done(call("convert", folder / "tiny", "-o", folder / "int8", "--also", NAME, *PIXELS))
    return open_bundle(folder / "int8", verify=True)


@pytest.fixture(scope="module")
def inpainting(folder: Path) -> Path:
    checkpoints.write(folder / "inpainting", INPAINTING)
    return folder / "inpainting"


@pytest.fixture(scope="module")
def stripped(folder: Path, inpainting: Path) -> Path:
    """The checkpoint for inpainting with the decoder alone, but for a layer that was forgotten."""
    copy = Path(shutil.copytree(inpainting, folder / "stripped"))
    path = copy / "vae" / "diffusion_pytorch_model.safetensors"
    save_file({name: t for name, t in load_file(path).items() if not name.startswith("encoder.")}, path)
    return copy


@pytest.fixture(scope="module")
def full_size() -> Graph:
    """The encoder of Stable Diffusion 1.5 at 512 x 512 pixels, rewritten; no weight is read."""
    config = tomllib.loads((Path(__file__).parent.parent / "configs" / "models" / "sd15.toml").read_text())
    structure = structure_of(networks_for(public_configs(config))[NAME])
    model = with_weights(structure, random_weights(structure))
    apply(model.main, graph_rewrites.load())
    (image,) = model.main.inputs
    assert image.shape == (1, 512, 512, 3)
    return model.main


def planned(source: Path, *options: object) -> tuple[list[str], str]:
    """Return the files that a conversion would write, and what it says on stderr."""
    result = assert_done(call("convert", source, "-o", source / "none", "--dry-run", "--json", *options))
    return list(json.loads(result.stdout)["parameters"]), result.stderr


def image_inputs(seed: int) -> dict[str, Array]:
    uniform = np.random.default_rng(seed).uniform(-1, 1, (1, HEIGHT, WIDTH, 3))
    return {"image": uniform.astype(np.float32)}


def moments(path: Path, inputs: dict[str, Array]) -> Array:
    with Interpreter(path, float_weights=True) as network:
        (found,) = network.run(inputs).values()
    return found


def test_log_variances_are_clipped_and_means_are_not() -> None:
    from msd.models.vae_encoder import LEAST, MOST, bounded

    values = np.linspace(-99, 99, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    mean, log_variance = np.split(np.asarray(bounded(values)), 2, axis=-1)
    np.testing.assert_array_equal(mean, values[..., :2])
    np.testing.assert_array_equal(log_variance, values[..., 2:].clip(LEAST, MOST))
    assert (log_variance.min(), log_variance.max()) == (-30, 20)


def test_the_moments_are_those_of_diffusers(exact: Bundle, small: Bundle, modules: Modules) -> None:
    inputs = image_inputs(1)
    wanted = reference(modules, NAME, inputs)
    assert wanted.shape == (1, 12, 20, 8)
    assert psnr(wanted, moments(exact.path(NAME), inputs)) >= 100
    assert psnr(wanted, moments(small.path(NAME), inputs)) >= 40


def test_extreme_log_variances_stay_in_bounds(folder: Path, modules: Modules, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder / "tiny", tmp_path / "loud"))
    path = copy / "vae" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    tensors["quant_conv.weight"] *= 1000
    save_file(tensors, path)
    settings = Settings(
        graph_rewrites.load(), find_recipe("float32"), components=(NAME,), height=HEIGHT, width=WIDTH
    )
    convert(copy, tmp_path / "out", settings)
    found = moments(open_bundle(tmp_path / "out").path(NAME), image_inputs(2))
    mean, log_variance = np.split(found, 2, axis=-1)
    assert (log_variance.min(), log_variance.max()) == (-30, 20)
    assert np.abs(mean).max() > 100


def test_the_delegate_takes_it_whole(small: Bundle) -> None:
    verdict = judge(small.path(NAME))
    assert verdict.ok, verdict.objections
    assert (verdict.delegated, verdict.partitions) == (small.component(NAME).operations, 1)


@pytest.mark.parametrize("recipe", ["gpu-w8", "tflite-gpu-w8"])
def test_both_delegates_should_take_it_whole(recipe: str, folder: Path, small: Bundle) -> None:
    out = folder / recipe
    options = ("--component", NAME, "--recipe", recipe, *PIXELS)
    assert_done(call("convert", folder / "tiny", "-o", out, *options))
    options = ("--no-run", "--delegate", "litert-gpu,tflite-gpu", "--json")
    (file,) = json.loads(assert_done(call("report", out, *options)).stdout)["files"]
    for prediction in file["predictions"]:
        assert (prediction["delegated"], prediction["partitions"]) == (file["operations"], 1)


@pytest.mark.parametrize("delegate", ["litert-gpu", "tflite-gpu"])
def test_the_rules_take_it_whole_at_full_size(delegate: str, full_size: Graph) -> None:
    assert not [f for f in predict(Model([full_size]), delegate) if f.severity != "note"]
    assert not [p for p in size_problems(full_size, Device().under(delegate)) if p.severity == "fails"]


def test_a_bundle_has_it_on_request(small: Bundle, folder: Path) -> None:
    assert NAME in optional_names()
    assert tuple(small.manifest.components) == ALL
    settings = small.manifest.configuration.components[NAME]
    assert (settings["scaling_factor"], settings["latent_channels"]) == (0.18215, 4)
    assert [port.name for port in small.component(NAME).inputs] == ["image"]
    assert [port.shape for port in small.component(NAME).outputs] == [(1, 12, 20, 8)]
    assert planned(folder / "tiny")[0] == [*COMPONENTS]
    assert planned(folder / "tiny", "--also", NAME) == ([*ALL], "")
    assert planned(folder / "tiny", "--component", "unet", "--also", NAME)[0] == [NAME, "unet"]


def test_a_bundle_without_it_says_how_to_get_it(bundle_folder: Path) -> None:
    with pytest.raises(
        BadBundle, match="has no vae_encoder; msd-convert CHECKPOINT --also vae_encoder -o OUT writes one"
    ):
        open_bundle(bundle_folder).path(NAME)


def test_it_is_added_to_a_bundle(folder: Path, modules: Modules, tmp_path: Path) -> None:
    source = folder / "tiny"
    assert_done(call("convert", source, "-o", tmp_path / "out", *PIXELS, "--component", "vae_decoder"))
    said = assert_done(call("convert", source, "-o", tmp_path / "out", *PIXELS, "--component", NAME)).stdout
    assert "vae_decoder.tflite" in said
    assert "unchanged" in said
    assert tuple(open_bundle(tmp_path / "out").manifest.components) == (NAME, "vae_decoder")


def test_a_model_for_inpainting_gets_it_unless_it_is_left_out(inpainting: Path) -> None:
    assert planned(inpainting) == ([*ALL], "")
    assert planned(inpainting, "--component", "unet") == (["unet"], "")


def test_one_that_is_lost_is_reported(stripped: Path, tmp_path: Path) -> None:
    names, said = planned(stripped)
    assert names == [*COMPONENTS]
    assert said == (
        f"{stripped} {LACKING}, which this model needs for its images; the bundle is without it\n"
    )
    assert planned(stripped, "--component", "unet") == (["unet"], "")
    result = assert_done(call("convert", stripped, "-o", tmp_path / "out", *PIXELS, "--json"))
    assert LACKING in result.stderr
    manifest = open_bundle(tmp_path / "out").manifest
    assert manifest.conversion.left_out == (NAME,)
    assert NAME not in manifest.configuration.components
    again = assert_done(call("convert", stripped, "-o", tmp_path / "out", *PIXELS))
    assert LACKING in again.stderr
    assert "Nothing to convert" in again.stdout


@pytest.mark.parametrize("option", ["--also", "--component"])
def test_one_that_is_lost_cannot_be_asked_for(option: str, stripped: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(umbrella, ["convert", str(stripped), "-o", str(tmp_path / "x"), option, NAME])
    assert result.exit_code == 1
    assert f"{stripped} {LACKING}" in result.stderr


def test_only_optional_components_are_added(folder: Path, modules: Modules) -> None:
    result = call("convert", folder / "tiny", "-o", folder / "none", "--also", "unet")
    assert result.exit_code == 2
    assert "'unet' is not" in result.stderr
    with pytest.raises(
        BadConfig, match="no component is called encoder; there are text_encoder, vae_encoder, unet"
    ):
        convert(folder / "tiny", folder / "none", Settings([], also=("encoder",)))


def test_a_single_file_may_lack_it_too(tmp_path: Path) -> None:
    path = single_files.write(tmp_path / "one.safetensors", single_files.INPAINTING)
    assert planned(path.rename(tmp_path / "whole.safetensors"))[0] == [*ALL]
    tensors = load_file(tmp_path / "whole.safetensors")
    left = {n: t for n, t in tensors.items() if not n.startswith("first_stage_model.encoder.")}
    save_file(left, path)
    names, said = planned(path)
    assert names == [*COMPONENTS]
    assert f"{path} {LACKING}" in said


def test_its_inputs_are_the_generated_images(exact: Bundle) -> None:
    requests = [Request("a", steps=2, seed=1), Request("b", steps=1, seed=2)]
    found = collect_inputs(exact, requests)
    images = Pipeline(exact).generate_all(requests)
    assert len(found[NAME]) == len(images)
    for inputs, image in zip(found[NAME], images, strict=True):
        (port,) = exact.component(NAME).inputs
        assert (inputs["image"].shape, inputs["image"].dtype) == (port.shape, np.float32)
        np.testing.assert_allclose(inputs["image"][0], image.pixels / 127.5 - 1, rtol=0, atol=1e-6)


def test_blocks_are_measured_on_images(exact: Bundle, small: Bundle) -> None:
    options = ("--reference", exact.folder, "--steps", 1, "--json")
    measured = json.loads(assert_done(call("blocks", small.folder, *options)).stdout)["components"]
    assert tuple(measured) == ALL
    assert measured[NAME]["runs"] == 4
    blocks = [block["name"] for block in measured[NAME]["blocks"]]
    assert "encoder.mid_block.resnets.1" in blocks
    assert all(name.startswith("encoder.") for name in blocks)


def test_a_recipe_is_found_for_it(folder: Path, modules: Modules, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.txt", tmp_path / "mixed.toml"
    prompts.write_text("a\n")
    options = ("--component", NAME, "--candidate", "gpu-w8", "--target-db", 20, "--steps", 1, "-o", out)
    result = call("sensitivity", folder / "tiny", *options, "--calibration", prompts, "--json")
    assert tuple(json.loads(assert_done(result).stdout)["found"]) == (NAME,)


def test_it_is_pruned_on_request(folder: Path, modules: Modules, tmp_path: Path) -> None:
    recipe, prompts = tmp_path / "pruned.toml", tmp_path / "prompts.txt"
    recipe.write_text(
        'delegate = "litert-gpu"\n[[line]]\nstore = "int8"\n[prune]\n'
        f'criterion = "activation"\ncomponents = ["{NAME}"]\n'
        '[[prune.unit]]\nname = "encoder.down_blocks.0.*.conv1"\nkeep = 0.5\n'
    )
    prompts.write_text("a\nb\n")
    options = ("--also", NAME, "--recipe", recipe, "--calibration", prompts, *PIXELS)
    assert_done(call("convert", folder / "tiny", "-o", tmp_path / "out", *options))
    ledger = open_bundle(tmp_path / "out").manifest.ledger
    assert [name for name, entry in ledger.items() if entry.pruning] == [NAME]
    pruning = ledger[NAME].pruning
    assert pruning is not None
    assert pruning.removed > 0


def test_float16_is_audited_on_pictures(small: Bundle, tmp_path: Path) -> None:
    shutil.copy(small.path(NAME), tmp_path / "alone.tflite")
    options = ("--no-run", "--audit-fp16", "--json")
    (alone,) = json.loads(assert_done(call("report", tmp_path / "alone.tflite", *options)).stdout)["files"]
    assert (alone["audit"]["inputs"], alone["audit"]["runs"]) == ("the demo's scenes", 3)
    assert alone["audit"]["out_of_range"] == []
    files = json.loads(assert_done(call("report", small.folder, *options)).stdout)["files"]
    audits = {Path(file["file"]).stem: file["audit"]["inputs"] for file in files}
    assert audits[NAME] == audits["unet"] == "generated images"


def test_an_images_time_is_without_it(small: Bundle) -> None:
    engine = Engine(find_backend("litert-cpu"), Conditions(isolation="none"))
    quick = partial(measure, engine=engine, effort=Effort(1, 1, 0.0, 1.0), report=lambda words: None)
    measured = [quick([small], name)[0] for name in ALL]
    seconds = {each.component: each.timings.typical for each in measured}
    found = image_time(small, "litert-cpu", measured, 10, None)
    assert found is not None
    assert found.encoding == pytest.approx(2 * seconds["text_encoder"])
    assert found.beside == (NAME,)


@pytest.mark.parametrize("platform", ["android", "ios"])
def test_exports_describe_it(platform: str, small: Bundle, tmp_path: Path) -> None:
    assert_done(call(f"export-{platform}", small.folder, "-o", tmp_path / "app"))
    (manifest,) = {path.read_text() for path in (tmp_path / "app").rglob("sd-manifest.json")}
    described: list[dict[str, Any]] = json.loads(manifest)["files"]
    (file,) = (each for each in described if each["role"] == NAME)
    assert [port["name"] for port in file["inputs"]] == ["image"]
    (copied,) = (tmp_path / "app").rglob(f"{NAME}.tflite")
    assert copied.stat().st_size == file["bytes"] == small.component(NAME).bytes
