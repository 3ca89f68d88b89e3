"""Several image sizes in one bundle: weights stored once, and each size as if converted alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import graph_rewrites
from msd.bundle import Bundle, ImageSize, open_bundle
from msd.cli import msd
from msd.cli.kernels import networks
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import find_recipe
from msd.compress.pruning.settings import Budget, Pruning
from msd.conversion.convert import Settings, convert
from msd.conversion.sizes.pick import one_size
from msd.conversion.sizes.share import SharedFile
from msd.errors import BadConfig, DelegateFailed
from msd.graph import tflite
from msd.graph.parity import psnr
from msd.measure.bench import run as bench_run
from msd.measure.bench.image_time import why_none
from msd.measure.judging import judge
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints
from tests.app_bundles import write_bundle

WIDE, TALL = ImageSize(48, 32), ImageSize(16, 64)
SIZED = ("unet", "vae_decoder")
Convert = Callable[..., Bundle]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """`converted(recipe, *sizes)`: a tiny checkpoint converted for these sizes, once for all tests."""
    folder, bundles = tmp_path_factory.mktemp("sizes"), dict[str, Bundle]()
    checkpoints.write(folder / "source", checkpoints.TINY)

    def bundle(recipe: str, *sizes: ImageSize, **more: Any) -> Bundle:
        name = f"{recipe} {'-'.join(map(str, sizes))}{'-'.join(more)}"
        if name not in bundles:
            settings = Settings(graph_rewrites.load(), find_recipe(recipe), sizes=sizes, **more)
            convert(folder / "source", folder / name, settings)
            bundles[name] = open_bundle(folder / name, verify=True)
        return bundles[name]

    return bundle


def run(*args: object) -> Result:
    return CliRunner().invoke(msd, list(map(str, args)))


@pytest.mark.parametrize("recipe", ["gpu-w8", "float16"])
def test_each_size_is_to_the_byte_what_a_conversion_for_it_alone_writes(
    converted: Convert, recipe: str
) -> None:
    both = converted(recipe, WIDE, TALL)
    for size in (WIDE, TALL):
        single = converted(recipe, size)
        assert "sizes" not in (single.folder / "manifest.json").read_text("utf-8")
        with one_size(both, size) as picked:
            for name, part in single.manifest.components.items():
                assert picked.path(name).read_bytes() == single.path(name).read_bytes()
                assert picked.component(name).inputs == part.inputs
                assert picked.component(name).sha256 == part.sha256
            assert picked.model_hash == single.model_hash
            settings = picked.manifest.configuration
            assert (settings.width, settings.height, settings.sizes) == (size.width, size.height, ())


def test_weights_are_stored_once(converted: Convert) -> None:
    """Learnt ones; only small constants such as shapes are a size's own."""
    both = converted("gpu-w8", WIDE, TALL)
    for name in SIZED:
        graphs = tflite.read(both.path(name)).graphs
        first, second = ({id(t.data): t for t in g.tensors() if t.data is not None} for g in graphs)
        own = [t for key, t in second.items() if key not in first]
        assert sum(t.size for t in own) < 1000, own
        alone = sum(converted("gpu-w8", size).component(name).bytes for size in (WIDE, TALL))
        assert both.component(name).bytes < alone
    assert not both.component("text_encoder").signatures
    alone = converted("gpu-w8", WIDE).path("text_encoder").read_bytes()
    assert both.path("text_encoder").read_bytes() == alone


def test_the_runtime_runs_every_signature_of_the_file_to_the_same_bits(converted: Convert) -> None:
    from ai_edge_litert.interpreter import Interpreter as LiteRt

    both = converted("gpu-w8", WIDE, TALL)
    for name in SIZED:
        assert both.component(name).signatures == ("48x32", "16x64")
        library = LiteRt(str(both.path(name)))
        for size in (WIDE, TALL):
            with Interpreter(converted("gpu-w8", size).path(name)) as network:
                inputs = random_inputs(network.inputs.values())
                (expected,) = network.run(inputs).values()
            (found,) = library.get_signature_runner(str(size))(**inputs).values()
            np.testing.assert_array_equal(found, expected)


def test_the_delegate_takes_every_signature_of_the_file_whole(converted: Convert) -> None:
    both = converted("gpu-w8", WIDE, TALL)
    verdict = judge(both.path("unet"))
    assert verdict.ok, verdict.objections
    assert verdict.subgraphs == verdict.partitions == 2
    assert verdict.delegated == verdict.operations == 2 * both.component("unet").operations


def test_a_report_judges_each_size(converted: Convert) -> None:
    both = converted("gpu-w8", WIDE, TALL, components=("vae_decoder",))
    result = run("report", both.folder, "--format", "json")
    assert result.exit_code == 0, result.output
    files = json.loads(result.stdout)["files"]
    assert [Path(file["file"]).name for file in files] == [f"vae_decoder.tflite at {s}" for s in (WIDE, TALL)]
    assert all(file["run"]["ok"] and file["run"]["psnr_db"] > 80 for file in files)
    singles = [converted("gpu-w8", size).component("vae_decoder").sha256 for size in (WIDE, TALL)]
    assert [file["sha256"] for file in files] == singles


def test_the_bytes_are_stated_before_anything_is_written(converted: Convert, tmp_path: Path) -> None:
    source, out, said = (
        converted("gpu-w8", WIDE).folder.parent / "source",
        tmp_path / "out",
        list[SharedFile](),
    )

    def on_shared(file: SharedFile) -> None:
        assert not out.exists()
        said.append(file)

    manifest = convert(source, out, Settings(graph_rewrites.load(), sizes=(WIDE, TALL)), None, on_shared)
    assert [file.file for file in said] == ["unet.tflite", "vae_decoder.tflite"]
    for name, file in zip(SIZED, said, strict=True):
        assert file.sizes == ("48x32", "16x64")
        assert manifest.components[name].bytes == pytest.approx(file.together, rel=0.02)
        assert converted("gpu-w8", WIDE).component(name).bytes == pytest.approx(file.first, rel=0.02)
        assert 0 < file.added == file.together - file.first < file.separate - file.first


def test_pruned_weights_are_the_same_in_every_size(converted: Convert) -> None:
    """Without a calibration also those of a conversion for each size alone."""
    pruning = {"pruning": Pruning(Budget(share=5)), "components": ("unet",)}
    both = converted("gpu-w8", WIDE, TALL, **pruning)
    for size in (WIDE, TALL):
        single = converted("gpu-w8", size, **pruning)
        with one_size(both, size) as picked:
            assert picked.path("unet").read_bytes() == single.path("unet").read_bytes()
    assert both.manifest.ledger["unet"].pruning.removed > 0  # type: ignore[union-attr]


def test_refitted_weights_are_shared_too(converted: Convert, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a circle\ntwo stars\n")
    calibration = Calibration(prompts, steps=2, kept=1)
    both = converted(
        "gpu-w8", WIDE, TALL, pruning=Pruning(Budget(share=5), refit=True), calibration=calibration
    )
    first, second = tflite.read(both.path("unet")).graphs
    shared = {id(t.data) for t in first.tensors()}
    assert sum(t.size for t in second.tensors() if t.data is not None and id(t.data) not in shared) < 1000
    with one_size(both, TALL) as picked, one_size(converted("gpu-w8", WIDE, TALL), TALL) as plain:
        with Interpreter(plain.path("unet")) as network:
            inputs = random_inputs(network.inputs.values())
            (expected,) = network.run(inputs).values()
        with Interpreter(picked.path("unet")) as network:
            (found,) = network.run(inputs).values()
    assert psnr(expected, found) > 15, "5 % of random weights are gone, not the picture"


def test_images_are_those_of_a_conversion_for_the_size(converted: Convert, tmp_path: Path) -> None:
    both = converted("gpu-w8", WIDE, TALL).folder
    for size, arguments in ((WIDE, ()), (TALL, ("--size", "16x64"))):
        request = ("--prompt", "a", "--steps", 2)
        picked, single = tmp_path / f"{size}-picked.png", tmp_path / f"{size}.png"
        result = run("generate", both, *request, *arguments, "-o", picked)
        assert result.exit_code == 0, result.output
        assert f"{size.width}×{size.height}" in result.stderr
        assert run("generate", converted("gpu-w8", size).folder, *request, "-o", single).exit_code == 0
        assert picked.read_bytes() == single.read_bytes()


def test_a_pipeline_takes_the_first_size_of_the_whole_file_too(converted: Convert) -> None:
    found = [
        Pipeline(b).generate("a", steps=1)
        for b in (converted("gpu-w8", WIDE, TALL), converted("gpu-w8", WIDE))
    ]
    assert found[0].pixels.shape == (32, 48, 3)
    np.testing.assert_array_equal(found[0].pixels, found[1].pixels)


def test_converting_again_keeps_the_files_and_other_sizes_are_refused(converted: Convert) -> None:
    both = converted("gpu-w8", WIDE, TALL)
    source = both.folder.parent / "source"
    sizes = ("--size", WIDE, "--size", TALL)
    result = run("convert", source, "-o", both.folder, *sizes)
    assert "Nothing to convert" in result.output
    result = run("convert", source, "-o", both.folder, "--size", WIDE)
    assert result.exit_code == 1
    assert "another conversion of this checkpoint (48x32 and 16x64)" in result.output
    result = run("convert", source, "-o", converted("gpu-w8", WIDE).folder, *sizes)
    assert "another conversion of this checkpoint (one size)" in result.output


@pytest.mark.parametrize("options", [(), ("--upscale", "4"), ("--control", "edges={image}")])
def test_errors_name_the_folder_that_was_given(
    converted: Convert, options: tuple[str, ...], tmp_path: Path
) -> None:
    """And not the temporary one that has the files of one size."""
    image = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(image)
    both = shutil.copytree(converted("gpu-w8", WIDE, TALL).folder, tmp_path / "both")
    if not options:
        manifest = json.loads((both / "manifest.json").read_text("utf-8"))
        del manifest["components"]["text_encoder"]
        (both / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    given = [option.format(image=image) for option in options]
    result = run("generate", both, "--prompt", "a", "-o", tmp_path / "b.png", *given)
    assert result.exit_code == 1
    assert str(both) in result.stderr
    assert "msd-scratch" not in result.output


def test_a_size_that_is_missing_is_refused(converted: Convert, tmp_path: Path) -> None:
    both = converted("gpu-w8", WIDE, TALL)
    with (
        pytest.raises(BadConfig, match="has no size 32x48, it has 48x32 and 16x64"),
        one_size(both, ImageSize(32, 48)),
    ):
        pass
    single = converted("gpu-w8", WIDE)
    with one_size(single, WIDE) as picked:
        assert picked is single
    for command in ("generate", "bench"):
        options = ("--prompt", "a", "-o", tmp_path / "a.png") if command == "generate" else ()
        result = run(command, single.folder, "--size", "32x48", *options)
        assert result.exit_code == 1
        assert "has no size 32x48, it has 48x32; msd-convert --size adds sizes" in result.output


@pytest.mark.parametrize(
    ("sizes", "code", "words"),
    [
        (("48x32", "48x32"), 1, "the size 48x32 is given twice"),
        (("48x32", "40x30"), 1, "the height of 30 pixels must be a multiple of"),
        (("48",), 2, "'48' is not WIDTHxHEIGHT in pixels, such as 384x640"),
        (("0x32",), 2, "'0x32' is not WIDTHxHEIGHT"),
        (("48x32", "--width=8"), 2, "--width does nothing with --size, which already names"),
    ],
)
def test_impossible_sizes_are_refused(
    converted: Convert, tmp_path: Path, sizes: tuple[str, ...], code: int, words: str
) -> None:
    source = converted("gpu-w8", WIDE).folder.parent / "source"
    arguments = [part for size in sizes for part in ([size] if size[0] == "-" else ["--size", size])]
    result = run("convert", source, "-o", tmp_path / "out", *arguments)
    assert result.exit_code == code
    assert words in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["export-android", "export-ios"])
def test_an_app_is_exported_for_one_size(converted: Convert, tmp_path: Path, command: str) -> None:
    both = converted("gpu-w8", WIDE, TALL).folder
    result = run(command, both, "-o", tmp_path / "app")
    assert result.exit_code == 2
    assert "An export has one size of images: choose --size 48x32 or 16x64." in result.output
    result = run(command, both, "-o", tmp_path / "app", "--size", TALL)
    assert result.exit_code == 0, result.output
    (manifest,) = {path.read_text("utf-8") for path in (tmp_path / "app").rglob("sd-manifest.json")}
    facts = json.loads(manifest)
    assert (facts["width"], facts["height"]) == (16, 64)
    (unet,) = (tmp_path / "app").rglob("unet.tflite")
    assert unet.read_bytes() == converted("gpu-w8", TALL).path("unet").read_bytes()


def test_a_dry_run_names_every_size(converted: Convert, tmp_path: Path) -> None:
    source = converted("gpu-w8", WIDE).folder.parent / "source"
    result = run("convert", source, "-o", tmp_path / "out", "--size", WIDE, "--size", TALL, "--dry-run")
    assert result.stdout.startswith("48x32 and 16x64 pixels, batch 1")


def test_what_is_measured_of_one_size_has_the_bundle_s_own_paths(
    converted: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of the folder of one size, which is gone then."""
    bundle = converted("gpu-w8", WIDE, TALL)

    def refuse(bundles: list[Bundle], component: str, *_: object) -> None:
        raise DelegateFailed(f"{bundles[0].path(component)} is refused")

    monkeypatch.setattr(bench_run, "measure", refuse)
    out = tmp_path / "bench.json"
    refused = run("bench", bundle.folder, "--component", "unet", "--size", TALL, "-o", out)
    assert refused.exit_code == 1
    assert f"{bundle.path('unet')} is refused" in refused.stderr
    (why,) = (each["why"] for each in json.loads(out.read_text("utf-8"))["bundles"][0]["refusals"])
    assert why == f"{bundle.path('unet')} is refused"
    with networks(bundle.folder, ("unet",), TALL) as files:
        assert [each.label for each in files] == [str(bundle.path("unet"))]
        assert files[0].path != bundle.path("unet")


def test_why_no_image_is_timed_names_the_bundle_as_given(tmp_path: Path) -> None:
    bundle = open_bundle(write_bundle(tmp_path / "one-size", encoder=True, inpaints=True))
    assert str(why_none(bundle, "all-sizes")).startswith("the model in all-sizes repaints")
