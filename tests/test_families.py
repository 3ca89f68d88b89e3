"""A family that no source file knows goes through everything; only its description and networks are new."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from msd.bundle import Bundle, open_bundle
from msd.cli import msd as umbrella
from msd.conversion.job import Job, open_job
from msd.conversion.options import options
from msd.conversion.settings import Settings
from msd.conversion.sources.binding import bind
from msd.errors import BadConfig
from msd.export.android.probe import PROBE
from msd.export.app import manifest
from msd.files import schema
from msd.graph import tflite
from msd.graph.parity import psnr
from msd.models.families import Family, component_names, families, title_of
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL
from msd.models.structure import VariableSpec
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.run.runtime.step import StepTable
from tests.added_families import added_family
from tests.jvm import Jvm, floats
from tests.made_up.checkpoint import write_checkpoint

CPU = Engine(find_backend("cpu"), Conditions(threads=1))
ROOT = Path(__file__).parent.parent
MADE_UP = Path(__file__).parent / "made_up" / "families"
NAMES = ("text_encoder", "text_encoder_2", "image_encoder", "control", "transformer", "image_decoder")
RESIDUALS = tuple(f"residual_{i}" for i in range(13))
MOST_FILES = 8
"""How many files a family may need that msd does not know."""


@pytest.fixture(scope="module")
def family() -> Iterator[Family]:
    """The made-up family, found beside those that msd has."""
    with added_family("made-up", MADE_UP) as family:
        yield family


@pytest.fixture(scope="module")
def checkpoint(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(family, tmp_path_factory.mktemp("made-up") / "checkpoint")


@pytest.fixture(scope="module")
def exact(checkpoint: Path) -> Bundle:
    assert_done(call("convert", checkpoint, "-o", checkpoint.parent / "float32", "--recipe", "float32"))
    return open_bundle(checkpoint.parent / "float32", verify=True)


@pytest.fixture(scope="module")
def bundle(checkpoint: Path) -> Bundle:
    assert_done(call("convert", checkpoint, "-o", checkpoint.parent / "int8"))
    return open_bundle(checkpoint.parent / "int8", verify=True)


@pytest.fixture(scope="module")
def inputs(exact: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of inputs for each network, as --calibration takes it."""
    folder = tmp_path_factory.mktemp("inputs")
    for name in NAMES:
        (folder / name).mkdir()
        for seed in (1, 2):
            values = random_inputs(exact.component(name).inputs, seed)
            np.savez(folder / name / f"{seed}.npz", **values)
    return folder


def call(*arguments: object) -> Result:
    return CliRunner().invoke(umbrella, [str(argument) for argument in arguments], catch_exceptions=False)


def assert_done(result: Result) -> None:
    assert result.exit_code == 0, result.output


def test_families_are_found_by_being_there(family: Family) -> None:
    assert list(families()) == ["made-up", "stable-diffusion", "stable-diffusion-xl"]
    assert family.names == NAMES
    assert set(component_names()) == {*NAMES, *STABLE_DIFFUSION.names, *STABLE_DIFFUSION_XL.names}
    assert title_of("transformer") == "transformer"
    assert title_of("token_embedding_2") == "token embedding 2"


def test_the_manifest_has_each_component_with_its_inputs_and_settings(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.family, tuple(manifest.components)) == ("made-up", NAMES)
    assert manifest.configuration.components["transformer"]["context"] == 64
    assert (manifest.configuration.height, manifest.configuration.width) == (16, 24)
    shapes = {port.name: port.shape for port in bundle.component("transformer").inputs}
    assert shapes == {
        "latent": (1, 4, 6, 4),
        "timestep": (1,),
        "context": (1, 77, 64),
        "image_latent": (1, 4, 6, 4),
        **dict.fromkeys(RESIDUALS, (1, 4, 6, 4)),
    }
    assert {port.name for port in bundle.component("control").outputs} == set(RESIDUALS)
    assert [call.component for call in manifest.calls] == [*NAMES]
    assert set(manifest.source.files) >= {"vae/config.json", "text_encoder_2/model.safetensors"}
    stored = json.loads((bundle.folder / "manifest.json").read_text())
    assert stored["configuration"]["image_encoder"] == {"channels": 4, "width": 36}
    assert schema.read(type(manifest), stored, "manifest.json") == manifest


@pytest.mark.parametrize("name", NAMES)
def test_networks_compute_what_the_keras_models_do(
    name: str, exact: Bundle, bundle: Bundle, checkpoint: Path
) -> None:
    given = random_inputs(exact.component(name).inputs, 3)
    wanted = run_keras(checkpoint, name, given)
    assert psnr(wanted, run(exact, name, given)) > 80
    assert psnr(wanted, run(bundle, name, given)) > 30


def test_a_part_of_a_folder_is_one_component_only(exact: Bundle) -> None:
    for name in ("image_encoder", "image_decoder"):
        constants = [n for n in constant_names(exact.path(name)) if "conv" in n]
        prefix = "encoder" if name == "image_encoder" else "decoder"
        assert constants
        assert all(prefix in constant for constant in constants)


def test_the_classic_recipe_cuts_off_the_lookups_of_both_text_encoders(checkpoint: Path) -> None:
    out = checkpoint.parent / "classic"
    assert_done(call("convert", checkpoint, "-o", out, "--recipe", "tflite-gpu-w8"))
    manifest = open_bundle(out, verify=True).manifest
    cut = ("token_embedding", "text_encoder", "token_embedding_2", "text_encoder_2")
    assert tuple(manifest.components) == (*cut, *NAMES[2:])
    assert [n for n, part in manifest.components.items() if part.runs_on == "cpu"] == [*cut[::2]]


def test_converting_again_does_nothing_and_one_component_alone_is_added(checkpoint: Path) -> None:
    out = checkpoint.parent / "some"
    assert_done(call("convert", checkpoint, "-o", out, "--component", "transformer"))
    assert tuple(open_bundle(out).manifest.components) == ("transformer",)
    assert_done(call("convert", checkpoint, "-o", out))
    assert tuple(open_bundle(out).manifest.components) == NAMES
    assert "Nothing to convert" in call("convert", checkpoint, "-o", out).output
    assert_done(call("convert", checkpoint, "-o", out, "--dry-run"))


def test_pruning_applies_to_what_the_family_prunes(checkpoint: Path, inputs: Path) -> None:
    out = checkpoint.parent / "pruned"
    result = call("convert", checkpoint, "-o", out, "--prune", "10%", "--calibration", inputs)
    assert_done(result)
    ledger = open_bundle(out).manifest.ledger
    assert [name for name, entry in ledger.items() if entry.pruning] == ["transformer"]
    assert ledger["transformer"].pruning is not None
    assert ledger["transformer"].pruning.removed > 0


def test_the_report_judges_every_file_by_the_rules(bundle: Bundle) -> None:
    result = call("report", bundle.folder, "--no-run", "--format", "json")
    assert_done(result)
    report = json.loads(result.stdout)
    assert [Path(file["file"]).stem for file in report["files"]] == list(NAMES)


def test_blocks_are_measured_on_a_folder_of_inputs(exact: Bundle, bundle: Bundle, inputs: Path) -> None:
    result = call("blocks", bundle.folder, "--reference", exact.folder, "--calibration", inputs, "--json")
    assert_done(result)
    assert tuple(json.loads(result.stdout)["components"]) == NAMES


def test_every_network_is_benched_and_the_image_computed(bundle: Bundle) -> None:
    result = call(
        "bench", bundle.folder, "--min-seconds", "0.1", "--max-seconds", "0.2", "--steps", "5", "--json"
    )
    assert_done(result)
    (benched,) = json.loads(result.stdout)["bundles"]
    assert [m["component"] for m in benched["measurements"]] == list(NAMES)
    (whole,) = benched["wholes"]
    assert (whole["steps"], whole["drawn"]) == (5, None)


def test_it_is_exported_for_both_platforms(bundle: Bundle, tmp_path: Path) -> None:
    assert_done(call("export-android", bundle.folder, "-o", tmp_path / "android"))
    assert_done(call("export-ios", bundle.folder, "-o", tmp_path / "ios"))
    for platform in ("android", "ios"):
        exported = {path.name for path in (tmp_path / platform).rglob("*.tflite")} - {PROBE}
        assert exported == {f"{name}.tflite" for name in NAMES}
        (manifest,) = {path.read_text() for path in (tmp_path / platform).rglob("sd-manifest.json")}
        roles = [file["role"] for file in json.loads(manifest)["files"]]
        assert roles[: len(NAMES)] == list(NAMES)


def test_generating_needs_an_image(bundle: Bundle) -> None:
    with Pipeline(bundle) as pipeline:
        with pytest.raises(BadConfig, match="reads an image beside the prompt: give one"):
            pipeline.generate("a cat")
        with pytest.raises(BadConfig, match="does not begin from it: leave strength out"):
            pipeline.generate("a cat", image=photo(), strength=0.5)


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_an_image_is_what_the_keras_models_compute(guidance: float, exact: Bundle, checkpoint: Path) -> None:
    with Pipeline(exact) as pipeline:
        made = pipeline.generate("red circles", seed=5, steps=4, guidance=guidance, image=photo())
        table, prompts = (
            pipeline.scheduler.table(4),
            pipeline.prompts(Request("red circles", guidance=guidance)),
        )
    latent = expected_latents(checkpoint, [prompt.tokens for prompt in prompts], table, guidance)
    assert psnr(latent, made.latents) > 80
    assert "strength" not in made.metadata


def test_the_kotlin_library_generates_its_images(bundle: Bundle, kotlin: Jvm, tmp_path: Path) -> None:
    """Its networks run on LiteRT's interpreter here; nothing else is known of it but its manifest."""
    manifest.write_manifest(manifest.describe(bundle, steps=(3,)), bundle, tmp_path)
    with ExitStack() as stack:
        opened = {name: stack.enter_context(CPU.load(bundle.path(name))) for name in NAMES}

        def serve(role: str, given: dict[str, Any]) -> dict[str, Any]:
            ports = bundle.component(role).inputs
            return opened[role].run({port.name: given[port.name].reshape(port.shape) for port in ports})

        levels = np.rint((photo().pixels[0].astype(np.float64) + 1) * 127.5).astype(np.int64)
        argb = (levels[..., 0] << 16 | levels[..., 1] << 8 | levels[..., 2]) - (1 << 24)
        image = {"argb": argb.ravel().tolist(), "strength": 0.8}
        found = kotlin.ask(
            "generate served", serve, folder=str(tmp_path), prompt="red circles", negative="", seed=5,
            steps=3, guidance=3.0, image=image,
        )  # fmt: skip
    wanted = Pipeline(bundle, threads=1).generate("red circles", seed=5, steps=3, guidance=3.0, image=photo())
    assert psnr(wanted.latents.ravel(), floats(found["latents"])) > 80


def test_it_needs_few_files_and_none_in_kotlin_or_javascript(family: Family) -> None:
    """A second denoising network with 13 outputs, and an image as its input, are among them."""
    files = [path for path in Path(__file__).parent.joinpath("made_up").rglob("*") if path.is_file()]
    sources = [path for path in files if path.suffix != ".pyc"]
    assert {path.suffix for path in sources} == {".py"}
    assert len(sources) <= MOST_FILES


def test_no_source_file_knows_the_family(family: Family) -> None:
    folders, endings = (ROOT / "msd", ROOT / "graph_rewrites"), (".py", ".kt", ".js")
    sources = [path for folder in folders for path in folder.rglob("*") if path.suffix in endings]
    known = re.compile(r"made[-_]up|image_decoder|image_latent|residual_", re.IGNORECASE)
    assert not [path for path in sources if known.search(path.read_text("utf-8"))]


def test_stable_diffusions_components_are_literals_in_its_family_and_in_readers_only() -> None:
    names = "|".join({*STABLE_DIFFUSION.files} - {*options()})
    command = ["git", "grep", "-lE", f"""["']({names})["']""", "--", "msd/*.py", "graph_rewrites/*.py"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert "msd/models/families/stable_diffusion.py" in found
    assert not [
        path for path in found if not path.startswith(("msd/models/families/", "msd/conversion/sources/"))
    ]


def test_no_app_knows_the_names_of_networks() -> None:
    """What they are, and when they run, is in sd-manifest.json, one of whose keys is `upscaler`."""
    names = re.compile(rf"""(?<!optJSONObject\()["'`]({"|".join(STABLE_DIFFUSION.files)})["'`]""")
    sources = [path for path in (ROOT / "msd/export").rglob("*") if path.suffix in (".kt", ".js", ".xml")]
    assert len(sources) > 50
    assert not [path for path in sources if names.search(path.read_text("utf-8"))]


def photo() -> InitialImage:
    levels = np.random.default_rng(4).integers(0, 256, (1, 16, 24, 3), np.uint8)
    return InitialImage(levels / np.float32(127.5) - np.float32(1), None, "random")


def expected_latents(checkpoint: Path, tokens: list[Any], table: StepTable, scale: float) -> np.ndarray:
    """Return the latents that a plain loop over the Keras models comes to."""
    job = open_job(checkpoint, Settings(rules=()))
    models = {name: keras_model(job, name) for name in NAMES}

    def call(name: str, **given: Any) -> dict[str, np.ndarray]:
        return {key: np.asarray(value) for key, value in models[name](given).items()}

    pixels = photo().pixels
    features = call("image_encoder", image=pixels)["image_latent"]
    encoders = ("text_encoder", "text_encoder_2")
    contexts = [
        np.concatenate([call(name, tokens=row)["context"] for name in encoders], -1) for row in tokens
    ]
    latent = noise(5, (1, 4, 6, 4)) * np.float32(table.start)
    clean = None
    for step in table.steps:
        scaled, when = np.float32(step.scale) * latent, np.float32([step.timestep])
        residuals = call("control", latent=scaled, timestep=when, hint=pixels)
        shared = {"latent": scaled, "timestep": when, "image_latent": features, **residuals}
        outputs = [call("transformer", context=context, **shared)["noise"] for context in contexts]
        output = outputs[0] + np.float32(scale) * (outputs[-1] - outputs[0])
        latent, clean = step.apply(latent, output, clean, None)
    return latent


def keras_model(job: Job, name: str) -> Any:
    """Return a Keras model with the checkpoint's weights."""
    model = job.networks[name].build()
    specs = {v.path: VariableSpec(v.path, tuple(v.shape)) for v in model.variables}
    weights = bind(name, specs, job.checkpoint.weights[name]).weights
    for variable in model.variables:
        variable.assign(weights[variable.path].load())
    return model


def run(bundle: Bundle, name: str, given: dict[str, Any]) -> np.ndarray:
    with Interpreter(bundle.path(name), float_weights=True) as network:
        outputs = network.run(given)
    return np.concatenate([outputs[name].ravel() for name in sorted(outputs)])


def run_keras(checkpoint: Path, name: str, given: dict[str, Any]) -> np.ndarray:
    """Return what the Keras model computes with the checkpoint's weights."""
    model = keras_model(open_job(checkpoint, Settings(rules=())), name)
    return np.concatenate([np.asarray(output).ravel() for _, output in sorted(model(given).items())])


def constant_names(path: Path) -> list[str]:
    return [tensor.name for tensor in tflite.read(path).main.tensors() if tensor.data is not None]
