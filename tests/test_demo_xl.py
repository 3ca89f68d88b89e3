"""The small Stable Diffusion XL of the demo's scenes, converted: images show what their captions say."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from safetensors import safe_open

import msd
from msd.bundle import open_bundle
from msd.cli.generate import generate
from msd.export.web.expected import expected_inputs, write_expected
from msd.graph import tflite
from msd.graph.ir.interface import compared_ids
from msd.models.demo import score
from msd.models.demo.captions import captions
from msd.models.demo.least_steps import LEAST_STEPS, XL_UNET_SHA256
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from scripts.lab import demo_xl_checkpoint, measure_demo_xl
from scripts.lab.demo_xl_checkpoint import TRAINED
from scripts.lab.measure_demo import figures
from tests.shared import shared_folder

CAPTIONS = 12
"""Of each recipe; docs/results/xl-demo.json has 120."""
Converted = Callable[[str], Path]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """`converted(recipe)`: the folder of the whole checkpoint, converted; read only."""

    def folder(recipe: str) -> Path:
        source = shared_folder(tmp_path_factory, "demo-xl", demo_xl_checkpoint.write)
        make = partial(msd.convert, source, recipe=recipe)
        return shared_folder(tmp_path_factory, f"demo-xl-{recipe}", make)

    return folder


@cache
def right(folder: Path, count: int) -> float:
    """Return the share of the attributes of `count` held-back captions that images show."""
    texts = captions("held-back", count, 0)
    score: float = figures(measure_demo_xl.images(open_bundle(folder), texts), texts)["score"]
    return score


def config(part: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((TRAINED / part / "config.json").read_text("utf-8"))
    return found


def test_it_is_small_and_its_weights_are_finite_halves() -> None:
    files = [*TRAINED.rglob("*.safetensors")]
    assert sum(path.stat().st_size for path in files) <= 15_000_000
    assert {path.parent.name for path in files} == {"text_encoder", "text_encoder_2", "unet"}
    for path in files:
        with safe_open(path, "np") as file:
            for name in file.keys():  # noqa: SIM118 (a safetensors file is not a dict)
                tensor = file.get_tensor(name)
                assert tensor.dtype == np.float16, name
                assert np.isfinite(tensor).all(), name


def test_it_has_the_shape_of_stable_diffusion_xl() -> None:
    """Two encoders, no attention at the first level, deeper transformers below, and the image's sizes."""
    unet, first, second = (config(part) for part in ("unet", "text_encoder", "text_encoder_2"))
    assert unet["down_block_types"] == ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"]
    assert unet["up_block_types"] == ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"]
    assert unet["transformer_layers_per_block"] == [1, 1, 2]
    assert (unet["addition_embed_type"], unet["use_linear_projection"]) == ("text_time", True)
    assert (first["hidden_act"], second["hidden_act"]) == ("quick_gelu", "gelu")
    assert (first["hidden_size"], second["hidden_size"], unet["cross_attention_dim"]) == (64, 128, 192)
    assert (second["projection_dim"], unet["projection_class_embeddings_input_dim"]) == (128, 128 + 6 * 32)


def test_the_command_writes_the_checkpoint_once(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo-xl"
    run = CliRunner().invoke(demo_xl_checkpoint.main, [str(folder)], catch_exceptions=False)
    assert (run.exit_code, [*folder.parent.iterdir()]) == (0, [folder])
    index = json.loads((folder / "model_index.json").read_text("utf-8"))
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {
        name for name, value in index.items() if isinstance(value, list)
    }
    again = CliRunner().invoke(demo_xl_checkpoint.main, [str(folder)])
    assert again.exit_code == 2
    assert f"{folder} exists; name a folder that does not" in again.output


def test_a_delegate_takes_it_whole_by_the_rules(converted: Converted) -> None:
    bundle = open_bundle(converted("gpu-w8"))
    assert bundle.manifest.family == "stable-diffusion-xl"
    for name in bundle.manifest.components:
        found = msd.predict(bundle.path(name))
        assert found.predictions[0].delegated == found.operations, name


def test_what_holds_a_pooled_vector_against_the_cpus_makes_one(converted: Converted, tmp_path: Path) -> None:
    """Ids without the end of a prompt pool nothing: zeros would agree with zeros, whatever a GPU computes."""
    bundle = open_bundle(converted("gpu-w8"))
    part, path = bundle.component("text_encoder_2"), bundle.path("text_encoder_2")
    ids = compared_ids(tflite.read(path))
    expected = write_expected(path, "text_encoder_2", part.inputs, tmp_path)
    assert expected.end == ids["tokens"] == random_inputs(part.inputs, compared=ids)["tokens"][0, -1]
    assert np.fromfile(tmp_path / expected.outputs["text_embeds"].file, "<f4").any()
    with Interpreter(path) as cpu:
        assert not cpu.run(expected_inputs(part.inputs, 0, expected.end))["text_embeds"].any()


def test_int8_images_show_what_captions_say(converted: Converted) -> None:
    assert right(converted("gpu-w8"), 3) == 1


@pytest.mark.parametrize(("recipe", "lost"), [("gpu-w8", 0.01), ("gpu-w4", 0.02)])
def test_a_recipe_keeps_what_images_show(recipe: str, lost: float, converted: Converted) -> None:
    wanted = right(converted("float32"), CAPTIONS)
    assert wanted >= 0.97
    assert right(converted(recipe), CAPTIONS) >= wanted - lost


@pytest.mark.parametrize(("missing", "warnings"), [(0, 0), (1, 1)])
def test_fewer_steps_than_it_needs_are_remarked_on(
    missing: int, warnings: int, converted: Converted, tmp_path: Path
) -> None:
    least, (text,) = LEAST_STEPS[XL_UNET_SHA256], captions("held-back", 1, 0)
    image = tmp_path / "a.png"
    words = [str(converted("gpu-w8")), "-p", text, "--steps", str(least - missing), "-o", str(image)]
    run = CliRunner().invoke(generate, words, catch_exceptions=False)
    assert run.exit_code == 0, run.output
    assert run.stderr.count(f"with fewer than {least} steps the demo may give other colours") == warnings
    if not warnings:
        assert score(np.array(Image.open(image)), text) == 1
