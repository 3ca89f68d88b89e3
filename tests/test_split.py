"""A U-Net in two files computes what it does in one: in Python, Kotlin and JavaScript, and by the rules."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import msd
from msd.bundle import Bundle, ImageSize, open_bundle
from msd.cli import msd as command
from msd.errors import BadBundle, BadConfig, OutputExists
from msd.export.app.manifest import NAME, describe, write_manifest
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Signature, Tensor
from msd.graph.ir.halves import split_halves
from msd.graph.parity import psnr
from msd.measure.blockwise.compare import compare, components_of_both
from msd.run.runners.runner import Runnable
from msd.run.runtime.control import Control
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, controlnets, xl_checkpoints
from tests.jvm import Jvm
from tests.test_wiring import REPLAY, Player, close, decoded, encoded, mapped
from tests.web.arrays import floats, sent
from tests.web.node import evaluate

PARITY = 120.0
"""dB: the asked. The files run the same operators on the same numbers, so that nothing differs."""
PROMPT, NEGATIVE, STEPS = "a red dog!", "blurry", 2
CHECKPOINTS: Mapping[str, Any] = {
    "1.5": checkpoints.SD15,
    "2.1": checkpoints.SD21,
    "three levels": checkpoints.TINY,
    "XL": None,
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    for name, config in CHECKPOINTS.items():
        if config is None:
            xl_checkpoints.write(folder / name)
        else:
            checkpoints.write(folder / name, config)
    return {name: folder / name for name in CHECKPOINTS}


def both(source: Path, folder: Path, **options: Any) -> tuple[Bundle, Bundle]:
    """Return a checkpoint's bundle with its U-Net in one file, and in two."""
    whole = msd.convert(source, folder / "whole", **options)
    return whole, msd.convert(source, folder / "split", split=True, **options)


def latents(bundle: Bundle, guidance: float, **settings: Any) -> np.ndarray:
    return msd.generate(
        bundle, PROMPT, negative_prompt=NEGATIVE, seed=5, steps=STEPS, guidance=guidance, **settings
    ).latents


@pytest.fixture(scope="module")
def xl(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Bundle]:
    return both(sources["XL"], tmp_path_factory.mktemp("xl"), recipe="gpu-w8")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("1.5", {"recipe": "float32", "batch": 2}),
        ("2.1", {"recipe": "gpu-w4"}),
        ("three levels", {"recipe": "float32", "sizes": [ImageSize(24, 40), ImageSize(32, 16)]}),
        ("XL", {"recipe": "float32"}),
    ],
)
def test_two_files_generate_what_one_does(
    name: str, options: dict[str, Any], sources: dict[str, Path], tmp_path: Path
) -> None:
    whole, split = both(sources[name], tmp_path, **options)
    for size in options.get("sizes", [None]):
        for guidance in (5.0, 1.0):
            wanted, found = (latents(bundle, guidance, size=size) for bundle in (whole, split))
            assert psnr(wanted, found) >= PARITY


def test_int8_is_equal(xl: tuple[Bundle, Bundle]) -> None:
    wanted, found = (latents(bundle, 5.0) for bundle in xl)
    assert np.array_equal(wanted, found)


def test_the_halves_are_halves(xl: tuple[Bundle, Bundle]) -> None:
    whole, split = (bundle.manifest.components for bundle in xl)
    first, second = split["unet_first"], split["unet"]
    assert 0.4 < first.bytes / (first.bytes + second.bytes) < 0.6
    assert first.bytes + second.bytes < 1.3 * whole["unet"].bytes
    names = [spec.name for spec in first.outputs]
    # The skips of the three levels below the middle, and the state: neither keys nor embeddings.
    assert names == [f"state_{i}" for i in range(9)]
    assert {*names} < {spec.name for spec in second.inputs}
    assert "latent" not in {spec.name for spec in second.inputs}
    assert [spec.name for spec in second.outputs] == ["noise"]
    assert xl[1].manifest.configuration.split
    assert not xl[0].manifest.configuration.split


def test_no_output_is_also_read(xl: tuple[Bundle, Bundle]) -> None:
    graph = tflite.read(xl[1].path("unet_first")).main
    assert not [t.name for t in graph.outputs if t.uses]
    found = msd.predict(xl[1].path("unet_first"))
    assert found.predictions[0].delegated == found.operations


def test_controlnets_steer_two_files_as_one(sources: dict[str, Path], tmp_path: Path) -> None:
    unet = checkpoints.modules(checkpoints.TINY)["unet"]
    controlnets.write(tmp_path / "canny", unet, **controlnets.OF_TINY)
    bundles = both(
        sources["three levels"], tmp_path, recipe="float32", controlnets=[(tmp_path / "canny", None)]
    )
    height, width = (getattr(bundles[0].manifest.configuration, side) for side in ("height", "width"))
    hint = np.random.default_rng(1).uniform(-1, 1, (1, height, width, 3)).astype(np.float32)
    made = []
    for bundle in bundles:
        with Pipeline(bundle) as pipeline:
            controls = [Control("canny", hint, 0.8)]
            made.append(pipeline.generate(PROMPT, steps=STEPS, controls=controls).latents)
    assert psnr(*made) >= PARITY
    assert psnr(made[1], latents(bundles[1], 7.5)) < PARITY


class Recorded:
    """A network that keeps what each of its runs was given and computed."""

    def __init__(self, role: str, inner: Runnable, runs: list[dict[str, Any]]) -> None:
        self._role, self._inner, self._runs = role, inner, runs
        self.placement = inner.placement

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        made = self._inner.run(inputs)
        self._runs.append(
            {"role": self._role, "inputs": mapped(encoded, dict(inputs)), "outputs": mapped(sent, dict(made))}
        )
        return made


@pytest.fixture(scope="module")
def recorded(xl: tuple[Bundle, Bundle]) -> dict[str, Any]:
    """What Python gives the files of the split bundle, and the latents that follow."""
    bundle, runs = xl[1], list[dict[str, Any]]()
    write_manifest(describe(bundle, steps=(STEPS,)), bundle, bundle.folder)
    with Pipeline(bundle, wrap=lambda role, inner: Recorded(role, inner, runs)) as pipeline:
        made = pipeline.generate(PROMPT, negative_prompt=NEGATIVE, seed=5, steps=STEPS, guidance=5.0)
    roles = [run["role"] for run in runs]
    assert (roles.count("unet_first"), roles.count("unet")) == (2 * STEPS, 2 * STEPS)
    return {"runs": runs, "latents": sent(made.latents)}


REQUEST = {"prompt": PROMPT, "seed": 5, "steps": STEPS, "guidance": 5.0}


def test_kotlin_runs_both_halves(xl: tuple[Bundle, Bundle], recorded: dict[str, Any], kotlin: Jvm) -> None:
    player = Player(recorded)
    asked = {**REQUEST, "negative": NEGATIVE}
    found = kotlin.ask("generate served", player, folder=str(xl[1].folder), **asked)
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded["latents"]))


def test_javascript_runs_both_halves(xl: tuple[Bundle, Bundle], recorded: dict[str, Any]) -> None:
    texts = [(xl[1].folder / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    asked = {**REQUEST, "negativePrompt": NEGATIVE}
    found = evaluate(REPLAY, *texts, recorded["runs"], asked, None)
    player = Player(recorded)
    for run in found["given"]:
        player(run["role"], mapped(decoded, run["inputs"]))
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded["latents"]))


def test_a_report_knows_that_two_files_are_one_network(xl: tuple[Bundle, Bundle]) -> None:
    printed = [
        CliRunner().invoke(command, ["report", str(bundle.folder), "--no-run"], catch_exceptions=False).output
        for bundle in xl
    ]
    assert "are one network" not in printed[0]
    files = [xl[1].manifest.components[name].bytes for name in ("unet_first", "unet")]
    said = "unet_first.tflite and unet.tflite are one network, open side by side:"
    assert f"{said} {sum(files) / 1e6:.1f} MB of files" in printed[1]


def test_a_benchmark_counts_both_halves(xl: tuple[Bundle, Bundle], tmp_path: Path) -> None:
    words = ["bench", str(xl[1].folder), "--backend", "litert-cpu", "--threads", "1"]
    words += ["--min-seconds", "0.1", "--max-seconds", "0.2"]
    done = CliRunner().invoke(command, [*words, "-o", str(tmp_path / "b.json")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "b.json").read_text("utf-8"))["bundles"][0]
    typical = {each["component"]: each["timings"]["median"] for each in found["measurements"]}
    # With guidance, a step has two runs.
    assert found["wholes"][0]["step"] == pytest.approx(2 * (typical["unet_first"] + typical["unet"]))


def test_an_app_has_memory_for_both(xl: tuple[Bundle, Bundle]) -> None:
    whole, split = (describe(bundle, steps=(STEPS,)) for bundle in xl)
    assert [file.title for file in split.files if file.role.startswith("unet")] == [
        "U-Net, first half",
        "U-Net",
    ]
    assert split.min_memory > whole.min_memory


def test_blocks_are_those_of_one_file(xl: tuple[Bundle, Bundle]) -> None:
    whole, split = xl
    with pytest.raises(BadBundle, match="has the U-Net in two files, and blocks are compared in one"):
        compare(whole, split, components_of_both(whole, split), None, False, lambda *told: None)  # type: ignore[arg-type]


def test_a_folder_of_one_is_not_mixed_with_two(sources: dict[str, Path], xl: tuple[Bundle, Bundle]) -> None:
    folder = xl[0].folder
    with pytest.raises(OutputExists, match="the U-Net in one file"):
        msd.convert(sources["XL"], folder, recipe="gpu-w8", split=True)


def test_forced_back_to_one_the_first_half_is_gone(sources: dict[str, Path], tmp_path: Path) -> None:
    for split in (True, False):
        msd.convert(sources["three levels"], tmp_path / "out", split=split, force=True)
        assert (tmp_path / "out" / "unet_first.tflite").exists() == split
    open_bundle(tmp_path / "out", verify=True)


def test_an_interface_of_one_network_is_refused(sources: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="--split writes the U-Net as two files, and the interface"):
        msd.convert(sources["1.5"], tmp_path / "out", split=True, interface="mlperf-mobile")


def test_a_dry_run_says_what_both_take(sources: dict[str, Path], xl: tuple[Bundle, Bundle]) -> None:
    words = ["convert", str(sources["XL"]), "--recipe", "gpu-w8", "--split", "--dry-run"]
    printed = CliRunner().invoke(command, words, catch_exceptions=False).output
    assert "unet_first.tflite" in printed
    assert "Memory, predicted for adreno-740 in float16:" in printed
    assert "U-Net: " in printed


def test_each_half_is_named_as_one(sources: dict[str, Path], tmp_path: Path) -> None:
    words = ["convert", str(sources["three levels"]), "-o", str(tmp_path / "out"), "--split"]
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    said = [re.sub(r".*/(\w+)\.tflite: .* (\(.*\))", r"\1 \2", line) for line in lines[:4]]
    traced = said[1].split()[3]
    assert said[1:3] == [f"unet_first (half of {traced} traced)", f"unet (half of {traced} traced)"]
    assert [each.split()[1] for each in (said[0], said[3])] == ["(of", "(of"]


def tiny_model(*, narrow: bool) -> Model:
    """Return x -> two products with an axis in front that is the batch's, unless `narrow`."""
    new, x = Build(), Tensor("x", (2, 3, 4, 8))
    y = new.MUL(x, np.ones((8,), np.float32))
    if narrow:
        y = new.RESHAPE(y, [6, 4, 8])
    y = new.MUL(y, np.full((8,), 2, np.float32))
    graph = Graph([x], [y], new.ops)
    graph.signatures = [Signature("serving_default", {"x": x}, {"y": y})]
    return Model([graph])


def test_a_network_that_has_no_place_to_cut() -> None:
    assert split_halves(tiny_model(narrow=False), 2, ("x",)) is not None
    assert split_halves(tiny_model(narrow=True), 1, ("x",)) is None
