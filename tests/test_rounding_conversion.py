"""Conversions of the demo checkpoint that round on a calibration: closer results, the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import graph_rewrites
from msd.bundle import ImageSize, Manifest, open_bundle
from msd.cli.convert import convert as command
from msd.compress.calibration.generated_inputs import Calibration, record_inputs
from msd.compress.encoding.recipe import Line, Recipe, find_recipe
from msd.compress.pruning.settings import Pruning, UnitShare
from msd.compress.rounding.rounding import Rounding
from msd.conversion.convert import Settings, convert, plan
from msd.errors import BadCalibration, BadConfig, OutputExists
from msd.graph import tflite
from msd.graph.ir.weights import Array
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.request import Request

Runs = list[Mapping[str, Array]]
INT4 = Recipe("int4", (Line("int4"),), trunk="float16")
ONLY = Settings(graph_rewrites.load(), find_recipe("gpu-w8"), ("vae_decoder",))


@pytest.fixture(scope="module")
def inputs(demo_float: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Runs]:
    """A folder of inputs to round on, and others of the decoder to measure on."""
    folder = tmp_path_factory.mktemp("inputs")
    both = [("calibration", captions("train", 6, 2)), ("measured", captions("held-back", 2, 1))]
    for name, prompts in both:
        requests = [Request(p, seed=i, steps=3, guidance=1) for i, p in enumerate(prompts)]
        drawn = record_inputs(open_bundle(demo_float), requests, folder / name)
    return folder / "calibration", list(drawn["vae_decoder"])


@pytest.fixture(scope="module")
def rounded(
    inputs: tuple[Path, Runs], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Recipe], tuple[Path, Manifest]]:
    """`rounded(recipe)`: the decoder rounded on the calibration, a folder and its manifest; read only."""

    @cache
    def make(recipe: Recipe) -> tuple[Path, Manifest]:
        folder = tmp_path_factory.mktemp("rounded") / recipe.name
        return folder, convert(CHECKPOINT, folder, calibrated(recipe, inputs))

    return make


def calibrated(recipe: Recipe, inputs: tuple[Path, Runs]) -> Settings:
    return replace(ONLY, recipe=recipe, calibration=Calibration(inputs[0]))


def noise(reference: Path, compressed: Path, inputs: Sequence[Mapping[str, Array]]) -> float:
    """Return the squares of the decoder's errors over those of its images."""
    images = []
    for path in (reference, compressed):
        with Interpreter(path / "vae_decoder.tflite", float_weights=True) as network:
            images.append(np.stack([next(iter(network.run(each).values())) for each in inputs]))
    return float(np.square(images[0] - images[1]).sum() / np.square(images[0]).sum())


@pytest.mark.parametrize("recipe", [find_recipe("gpu-w8"), INT4, find_recipe("cpu-w8")], ids=lambda r: r.name)
def test_a_calibration_halves_the_error(
    recipe: Recipe,
    demo_float: Path,
    inputs: tuple[Path, Runs],
    rounded: Callable[[Recipe], tuple[Path, Manifest]],
    tmp_path: Path,
) -> None:
    """On other images than those it is made of, to files of the same size, and the same every time."""
    folder, manifest = rounded(recipe)
    plain = convert(CHECKPOINT, tmp_path / "plain", replace(ONLY, recipe=recipe))
    errors = [noise(demo_float, path, inputs[1]) for path in (folder, tmp_path / "plain")]
    assert errors[0] < 0.5 * errors[1], errors
    assert manifest.components["vae_decoder"].bytes == plain.components["vae_decoder"].bytes
    kinds = {str(kind): kind.count for kind in manifest.ledger["vae_decoder"].weights}
    assert kinds == ({"int4 gptq": 38} if recipe is INT4 else {"int8 gptq": 36, "float16": 2})
    if recipe is INT4:
        again = convert(CHECKPOINT, tmp_path / "again", calibrated(INT4, inputs))
        assert again.components["vae_decoder"].sha256 == manifest.components["vae_decoder"].sha256


def test_pruned_and_refitted_weights_are_rounded(
    demo_float: Path, inputs: tuple[Path, Runs], tmp_path: Path
) -> None:
    folder, measured = inputs
    shares = (UnitShare("decoder.up_blocks.1.resnets.1.conv1", 2 / 3),)
    pruning = Pruning(shares=shares, components=("vae_decoder",))
    settings = replace(ONLY, pruning=pruning, calibration=Calibration(folder))
    plain = replace(settings, recipe=Recipe("plain", (Line("int8", algorithm="min-max"),), trunk="float16"))
    exact = replace(settings, recipe=find_recipe("float32"))
    for name, each in {"rounded": settings, "plain": plain, "exact": exact}.items():
        manifest = convert(CHECKPOINT, tmp_path / name, each)
        assert manifest.ledger["vae_decoder"].pruning is not None
    lost = [noise(tmp_path / "exact", tmp_path / name, measured) for name in ("rounded", "plain")]
    assert lost[0] < 0.6 * lost[1], lost


def test_two_sizes_have_the_same_integers(
    inputs: tuple[Path, Runs], rounded: Callable[[Recipe], tuple[Path, Manifest]], tmp_path: Path
) -> None:
    """The second size is rounded as the first is, and its weights are in the file once."""
    sizes = (ImageSize(128, 128), ImageSize(128, 192))
    found = convert(CHECKPOINT, tmp_path / "both", replace(calibrated(INT4, inputs), sizes=sizes))
    _, alone = rounded(INT4)
    added = found.components["vae_decoder"].bytes - alone.components["vae_decoder"].bytes
    assert added < 0.5 * alone.components["vae_decoder"].bytes
    graphs = tflite.read(tmp_path / "both" / "vae_decoder.tflite").graphs
    integers = [{t.name: t for t in g.tensors() if t.data is not None and t.dtype == "INT4"} for g in graphs]
    assert integers[0].keys() == integers[1].keys()
    for name, tensor in integers[0].items():
        other = integers[1][name]
        assert np.array_equal(tensor.weights.load(), other.weights.load())
        assert tensor.quant is not None
        assert other.quant is not None
        assert np.array_equal(tensor.quant.scale, other.quant.scale)


def test_a_network_that_has_nothing_to_round_is_not_run(demo_float: Path, tmp_path: Path) -> None:
    """It was, and once for each size, on the inputs of the first."""
    graph = tflite.read(demo_float / "vae_decoder.tflite").main
    of_another_size = [{"latent": np.zeros((1, 2, 2, 4), np.float32)}]
    assert Rounding(of_another_size, tmp_path).apply(graph, {}) == {}


def test_a_calibration_decides_what_a_file_is(
    inputs: tuple[Path, Runs], rounded: Callable[[Recipe], tuple[Path, Manifest]]
) -> None:
    """The same again is done already; without it, a file would be overwritten."""
    folder, first = rounded(ONLY.recipe)
    assert convert(CHECKPOINT, folder, calibrated(ONLY.recipe, inputs)) == first
    with pytest.raises(OutputExists, match="made by another msd, or with other"):
        convert(CHECKPOINT, folder, ONLY)


def test_a_folder_rounds_what_it_has_inputs_of(inputs: tuple[Path, Runs], tmp_path: Path) -> None:
    """Other components are stored as without it, unless the recipe asks for a calibration."""
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "vae_decoder").symlink_to(inputs[0] / "vae_decoder")
    names, calibration = ("text_encoder", "vae_decoder"), Calibration(tmp_path / "inputs")
    both = replace(ONLY, components=names, calibration=calibration)
    manifest = convert(CHECKPOINT, tmp_path / "out", both)
    assert manifest.ledger["text_encoder"].weights[0].algorithm == "min-max"
    assert manifest.ledger["vae_decoder"].weights[0].algorithm == "gptq"
    asked = replace(both, recipe=Recipe("asked", (Line("int8", algorithm="gptq"),)))
    with pytest.raises(BadCalibration, match="of the text_encoder"):
        convert(CHECKPOINT, tmp_path / "other", asked)


def test_gptq_without_a_calibration_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[[line]]\nstore = "int8"\nalgorithm = "gptq"\n')
    words = (
        "the recipe mine rounds by gptq, which needs a calibration: give --calibration PROMPTS.txt, a folder"
        " of inputs, or random-words"
    )
    result = CliRunner().invoke(command, ["-o", str(tmp_path / "out"), "--recipe", str(recipe)])
    assert result.exit_code == 1
    assert words in " ".join(result.output.split())
    with pytest.raises(BadConfig, match="needs a calibration"):
        plan(CHECKPOINT, replace(ONLY, recipe=replace(INT4, lines=(Line("int4", algorithm="gptq"),))))
    assert list(tmp_path.iterdir()) == [recipe]


def test_the_manifest_says_it_once(rounded: Callable[[Recipe], tuple[Path, Manifest]]) -> None:
    folder, _ = rounded(ONLY.recipe)
    kinds = json.loads((folder / "manifest.json").read_text())["ledger"]["vae_decoder"]["weights"]
    assert kinds == [
        {"store": "int8", "algorithm": "gptq", "count": 36, "names": []},
        {
            "store": "float16",
            "algorithm": "",
            "count": 2,
            "names": ["decoder.conv_in/kernel", "decoder.up_blocks.3.resnets.0.conv_shortcut/kernel"],
        },
    ]
