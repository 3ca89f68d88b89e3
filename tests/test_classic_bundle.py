"""Bundles for TensorFlow Lite's delegate: the text encoder is two files, and they are one component."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import graph_rewrites
from msd.bundle import Bundle, Manifest, open_bundle
from msd.cli.convert import convert as convert_command
from msd.cli.report import report as report_command
from msd.compress.calibration.generated_inputs import collect_inputs, record_inputs
from msd.compress.encoding.recipe import find_recipe, read_recipe
from msd.conversion.convert import Settings, convert, plan
from msd.errors import BadBundle, OutputExists
from msd.graph.prediction.device import Device, find_device, shipped
from msd.graph.rewrite import Target
from msd.measure.judging import judge
from msd.measure.report.examine import examine
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.registry import find_backend
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from tests import checkpoints
from tests.stable_diffusion import COMPONENTS, FILES, LOOKUP

ONE, TWO = (Settings(graph_rewrites.load(), find_recipe(r), batch=2) for r in ("gpu-w8", "tflite-gpu-w8"))
REQUESTS = [Request("a red dog", "blurry", seed=1, steps=2), Request("b", seed=2, steps=1, guidance=1)]
PAIR = {LOOKUP, "text_encoder"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classic") / "source"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The text encoder is one file."""
    out = tmp_path_factory.mktemp("whole") / "out"
    convert(source, out, ONE)
    return open_bundle(out, verify=True)


@pytest.fixture(scope="module")
def cut(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The text encoder is two."""
    out = tmp_path_factory.mktemp("cut") / "out"
    convert(source, out, TWO)
    return open_bundle(out, verify=True)


@pytest.fixture
def out(cut: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copytree(cut.folder, tmp_path / "out"))


def converted(source: Path, out: Path, settings: Settings) -> tuple[Manifest, set[str]]:
    """Convert; return the manifest, and which components were worked on."""
    seen: set[str] = set()
    manifest = convert(source, out, settings, lambda component, what, done, total: seen.add(component))
    open_bundle(out, verify=True)
    assert {path.stem for path in out.glob("*.tflite")} == set(manifest.components)
    return manifest, seen


def test_the_manifest_says_which_file_is_for_the_cpu(whole: Bundle, cut: Bundle) -> None:
    assert tuple(whole.manifest.components) == COMPONENTS
    assert {part.runs_on for part in whole.manifest.components.values()} == {"gpu"}
    parts = cut.manifest.components
    assert tuple(parts) == FILES
    assert [name for name, part in parts.items() if part.runs_on == "cpu"] == [LOOKUP]
    (tokens,), (rows,) = parts[LOOKUP].inputs, parts[LOOKUP].outputs
    assert (tokens.name, tokens.shape, tokens.dtype) == ("tokens", (2, 77), "int32")
    assert parts["text_encoder"].inputs == (rows,)
    assert (rows.name, rows.shape[:2], rows.dtype) == ("token_embedding", (2, 77), "float32")
    assert parts["text_encoder"].outputs == whole.component("text_encoder").outputs
    ledger = cut.manifest.ledger
    assert set(ledger) == set(COMPONENTS)
    encoder = ledger["text_encoder"]
    assert encoder.before + sum(effect.ops for effect in encoder.rules) == encoder.after
    assert encoder.after == parts["text_encoder"].operations


def test_manifests_from_before_are_for_the_gpu(whole: Bundle, tmp_path: Path) -> None:
    out = Path(shutil.copytree(whole.folder, tmp_path / "out"))
    manifest = json.loads((out / "manifest.json").read_text())
    for part in manifest["components"].values():
        del part["runs_on"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert open_bundle(out).manifest == whole.manifest
    manifest["components"]["unet"]["runs_on"] = "npu"
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBundle, match=r"runs_on is 'npu', not one of 'gpu', 'cpu'"):
        open_bundle(out)


def test_only_the_text_encoder_is_another(whole: Bundle, cut: Bundle) -> None:
    for name in ("unet", "vae_decoder"):
        assert whole.component(name).sha256 == cut.component(name).sha256
    assert whole.model_hash != cut.model_hash


@pytest.mark.parametrize("float_weights", [True, False])
def test_both_files_compute_what_the_one_did(whole: Bundle, cut: Bundle, float_weights: bool) -> None:
    def run(bundle: Bundle, name: str, **inputs: Any) -> dict[str, Any]:
        with Interpreter(bundle.path(name), float_weights=float_weights) as network:
            return network.run(inputs)

    vocabulary = whole.manifest.configuration.components["text_encoder"]["vocabulary"]
    tokens = np.random.default_rng(0).integers(0, vocabulary, (2, 77)).astype(np.int32)
    tokens[0, :2] = 0, vocabulary - 1
    found = run(cut, "text_encoder", **run(cut, LOOKUP, tokens=tokens))
    np.testing.assert_array_equal(found["context"], run(whole, "text_encoder", tokens=tokens)["context"])


def test_pictures_are_the_same(whole: Bundle, cut: Bundle) -> None:
    drawn = [Pipeline(bundle).generate_all(REQUESTS) for bundle in (whole, cut)]
    for one, two in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one.latents, two.latents)
        np.testing.assert_array_equal(one.pixels, two.pixels)
    assert not np.array_equal(drawn[0][0].pixels, drawn[0][1].pixels)


def test_tokens_are_looked_up_on_the_cpu_whatever_the_rest_runs_on(
    cut: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str]] = []

    def load(engine: Engine, path: Path) -> AbstractContextManager[Any]:
        opened.append((path.stem, engine.backend.spelling))
        return real(replace(engine, backend=find_backend("cpu")), path)

    real: Callable[..., AbstractContextManager[Any]] = Engine.load
    monkeypatch.setattr(Engine, "load", load)
    Pipeline(cut, backend="gpu").generate_all(REQUESTS)
    assert opened == [(name, "cpu" if name == LOOKUP else "gpu") for name in FILES]


def test_what_networks_are_fed_is_gathered_of_both(cut: Bundle, tmp_path: Path) -> None:
    found = collect_inputs(cut, REQUESTS)
    assert {name: len(runs) for name, runs in found.items()} == {
        LOOKUP: 2, "text_encoder": 2, "unet": 3, "vae_decoder": 2
    }  # fmt: skip
    assert found[LOOKUP][0]["tokens"].dtype == np.int32
    filed = record_inputs(cut, REQUESTS, tmp_path)
    for name, runs in filed.items():
        for a, b in zip(runs, found[name], strict=True):
            for key, value in b.items():
                np.testing.assert_array_equal(a[key], value)
    with Interpreter(cut.path(LOOKUP)) as network:
        rows = network.run(found[LOOKUP][0])[LOOKUP]
    np.testing.assert_array_equal(found["text_encoder"][0][LOOKUP], rows)


def test_nothing_remains_on_both_delegates_and_all_devices(cut: Bundle) -> None:
    for name in COMPONENTS:
        for device in shipped():
            report = examine(cut.path(name), ("litert-gpu", "tflite-gpu"), find_device(device))
            for found in report.predictions:
                assert report.passes(found), (name, device, found.delegate)
                assert (found.delegated, found.partitions) == (report.operations, 1)


def test_the_whole_text_encoder_is_not_for_that_delegate(whole: Bundle) -> None:
    (found,) = examine(whole.path("text_encoder"), ("tflite-gpu",), Device()).predictions
    assert {f.kind for f in found.findings if f.severity == "rejected"} == {"EMBEDDING_LOOKUP", "RESHAPE"}


def test_the_real_delegate_takes_the_rest_whole(cut: Bundle) -> None:
    verdict = judge(cut.path("text_encoder"))
    assert verdict.ok, verdict.objections
    assert verdict.delegated == cut.component("text_encoder").operations


def test_what_is_finished_is_not_done_again(source: Path, out: Path) -> None:
    before = {path.name: path.read_bytes() for path in out.glob("*.*")}
    assert not converted(source, out, TWO)[1]
    assert {path.name: path.read_bytes() for path in out.glob("*.*")} == before


def test_both_files_are_one_component(source: Path, out: Path, cut: Bundle, tmp_path: Path) -> None:
    chosen = replace(TWO, components=("text_encoder",))
    manifest, seen = converted(source, tmp_path / "some", chosen)
    assert (seen, set(manifest.components)) == ({"text_encoder"}, PAIR)
    manifest, seen = converted(source, tmp_path / "some", TWO)
    assert seen == {"unet", "vae_decoder"}
    assert {n: p.sha256 for n, p in manifest.components.items()} == {
        n: p.sha256 for n, p in cut.manifest.components.items()
    }
    assert len({manifest.components[name].made_from for name in PAIR}) == 1
    for components, again in ((("unet",), {"unet"}), (("text_encoder",), {"text_encoder"})):
        manifest, seen = converted(source, out, replace(TWO, components=components, force=True))
        assert seen == again
        assert tuple(manifest.components) == FILES


def test_a_changed_lookup_is_noticed(source: Path, out: Path) -> None:
    path = out / f"{LOOKUP}.tflite"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadBundle, match=r"token_embedding\.tflite has another SHA-256"):
        open_bundle(out, verify=True)
    with pytest.raises(OutputExists, match=r"token_embedding\.tflite is not as msd-convert wrote it"):
        convert(source, out, TWO)
    path.unlink()
    with pytest.raises(BadBundle, match=r"token_embedding\.tflite is missing"):
        open_bundle(out)
    with pytest.raises(OutputExists, match=r"token_embedding\.tflite is missing"):
        convert(source, out, replace(TWO, components=("text_encoder",)))
    assert converted(source, out, replace(TWO, components=("text_encoder",), force=True))[1] == {
        "text_encoder"
    }


def test_the_lookup_goes_when_it_is_not_needed(source: Path, out: Path) -> None:
    with pytest.raises(OutputExists, match="another conversion of this checkpoint"):
        convert(source, out, ONE)
    manifest, _ = converted(source, out, replace(ONE, force=True))
    assert tuple(manifest.components) == COMPONENTS


def test_a_bundle_that_lacks_its_lookup_is_refused(cut: Bundle) -> None:
    parts = {name: part for name, part in cut.manifest.components.items() if name != LOOKUP}
    bundle = Bundle(cut.folder, replace(cut.manifest, components=parts))
    with pytest.raises(BadBundle, match=r"has no token_embedding; its text encoder takes 'token_embedding'"):
        Pipeline(bundle).generate_all(REQUESTS)


def test_the_device_is_taken_as_that_delegate_uses_it() -> None:
    assert ONE.effective_target == ONE.target
    assert TWO.effective_target == Target(Device().under("tflite-gpu"))
    limited = replace(TWO, target=Target(Device().under("litert-gpu"), 5.0))
    assert limited.effective_target == limited.target


def test_the_plan_counts_both_files(source: Path, whole: Bundle, cut: Bundle) -> None:
    one, two = plan(source, ONE), plan(source, TWO)
    assert set(two.bytes) == set(FILES)
    assert two.parameters[LOOKUP] + two.parameters["text_encoder"] == one.parameters["text_encoder"]
    assert two.bytes[LOOKUP] == pytest.approx(cut.component(LOOKUP).bytes, rel=0.5)


def test_weights_that_the_cpu_looks_up_are_no_matter_of_the_delegate(source: Path, tmp_path: Path) -> None:
    """It knows no int4, but never sees the table."""
    path = tmp_path / "mine.toml"
    text = 'delegate = "tflite-gpu"\n[[line]]\nstore = "int4"\nop = "{}"\n'
    path.write_text(text.format("EMBEDDING_LOOKUP"))
    chosen = replace(TWO, recipe=read_recipe(path), components=("text_encoder",))
    assert set(convert(source, tmp_path / "out", chosen).components) == PAIR


def call(command: Any, *arguments: Any) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_the_command_says_what_is_for_the_cpu(source: Path, tmp_path: Path) -> None:
    args = (source, "-o", tmp_path / "out", "--recipe", "tflite-gpu-w8", "--component", "text_encoder")
    first, second = call(convert_command, *args, "--explain"), call(convert_command, *args)
    assert first.exit_code == second.exit_code == 0, first.output
    assert "3 operations (for the CPU)\n" in first.stdout
    assert "split_lookup" in first.stdout
    assert second.stdout.count(", unchanged\n") == 2
    dry = call(convert_command, *args, "--dry-run")
    assert f"{LOOKUP}.tflite" in dry.stdout


@pytest.mark.parametrize("manifest", [True, False])
def test_the_report_lists_it_and_does_not_judge_it(out: Path, manifest: bool) -> None:
    if not manifest:
        (out / "manifest.json").unlink()
    said = "for the CPU, 3 operations, not judged"
    args = (out, "--no-run", "--delegate", "tflite-gpu,litert-gpu")
    for form in ("table", "markdown", "html"):
        result = call(report_command, *args, "--format", form)
        assert result.exit_code == 0, result.output
        assert result.stdout.count(said) == (2 if form == "html" else 1), "a page begins with the verdicts"
    form = json.loads(call(report_command, *args, "--json").stdout)
    judged = {Path(f["file"]).stem: (f["runs_on"], len(f["predictions"])) for f in form["files"]}
    assert judged == {LOOKUP: ("cpu", 0), **dict.fromkeys(COMPONENTS, ("gpu", 2))}


def test_named_as_a_file_it_is_judged_like_any_other(out: Path) -> None:
    result = call(report_command, out / f"{LOOKUP}.tflite", "--no-run", "--delegate", "tflite-gpu")
    assert result.exit_code == 3
    assert "EMBEDDING_LOOKUP" in result.stdout
    assert "not judged" not in result.stdout


def test_what_is_run_and_audited_is_what_is_for_the_gpu(cut: Bundle, tmp_path: Path) -> None:
    for path in cut.folder.glob("*.*"):
        if path.stem in PAIR:
            shutil.copy(path, tmp_path)
    manifest = json.loads((cut.folder / "manifest.json").read_text())
    del manifest["components"]["unet"], manifest["components"]["vae_decoder"]
    manifest["calls"] = [call for call in manifest["calls"] if call["component"] in PAIR]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    random = tmp_path / "inputs.npz"
    shape = cut.component("text_encoder").inputs[0].shape
    np.savez(random, token_embedding=np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    result = call(report_command, tmp_path, "--json", "--audit-fp16", "--inputs", random)
    assert result.exit_code == 0, result.output
    lookup, encoder = json.loads(result.stdout)["files"]
    assert (lookup["run"], lookup["audit"], lookup["witnesses"]) == (None, None, [])
    assert encoder["run"]["ok"]
    assert encoder["run"]["delegated"] == encoder["operations"]
    assert encoder["audit"]["inputs"] == "inputs.npz"
