"""Converting into a folder that holds something: what is finished stays, what is not ours is not touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

import graph_rewrites
from msd.bundle import Manifest, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.client_interface import find_interface
from msd.conversion.convert import Settings, convert
from msd.conversion.reuse import stale_files
from msd.errors import OutputExists, OutputUnwritable
from msd.files.publication import publish, staged
from msd.graph.rewrite.spelling import find_spelling
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL
from tests import checkpoints, tiny_autoencoders
from tests.stable_diffusion import COMPONENTS

SETTINGS = Settings(graph_rewrites.load())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reuse") / "source"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


@pytest.fixture(scope="module")
def finished(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    convert(source, out, SETTINGS)
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def converted(source: Path, out: Path, settings: Settings) -> tuple[Manifest, set[str]]:
    """Convert; return the manifest, and which components were worked on."""
    seen: set[str] = set()
    manifest = convert(source, out, settings, lambda component, what, done, total: seen.add(component))
    open_bundle(out, verify=True)
    return manifest, seen


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_finished_is_not_done_again(source: Path, out: Path) -> None:
    before = contents(out)
    manifest, seen = converted(source, out, SETTINGS)
    assert not seen
    assert contents(out) == before
    assert list(manifest.components) == list(COMPONENTS)


def test_a_scheduler_that_was_edited_is_written_again(source: Path, out: Path) -> None:
    path = out / "scheduler" / "scheduler_config.json"
    written = path.read_text()
    path.write_text(written.replace("scaled_linear", "linear"))
    assert path.read_text() != written
    _, seen = converted(source, out, SETTINGS)
    assert (path.read_text(), seen) == (written, set())


@pytest.mark.parametrize("damaged", [False, True])
def test_files_of_another_tokenizer_go(source: Path, finished: Path, out: Path, damaged: bool) -> None:
    """A tokenizer reads them all: an earlier one's special tokens would be its own."""
    if damaged:
        (out / "manifest.json").write_text("{")
    (out / "tokenizer/special_tokens_map.json").write_text('{"pad_token": "!"}')
    (out / "tokenizer/notes.txt").write_text("mine")
    convert(source, out, replace(SETTINGS, force=True))
    files = {path.name for path in (out / "tokenizer").iterdir()}
    assert files == {"notes.txt", *(path.name for path in (finished / "tokenizer").iterdir())}
    assert "special_tokens_map.json" not in files


def test_the_second_tokenizer_of_an_xl_model_goes_with_it(source: Path, out: Path) -> None:
    """As its manifest's family tells."""
    shutil.copytree(out / "tokenizer", out / "tokenizer_2")
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    left = stale_files(
        replace(open_bundle(out).manifest, family=STABLE_DIFFUSION_XL.name), open_bundle(out).manifest
    )
    assert manifest["family"] != STABLE_DIFFUSION_XL.name
    assert {"tokenizer/vocab.json", "tokenizer_2/vocab.json", "tokenizer_2/merges.txt"} <= {*left}
    with staged(out) as new:
        (new / "manifest.json").write_text(json.dumps(manifest), "utf-8")
        publish(new, out, "manifest.json", [file for file in left if file.startswith("tokenizer_2")])
    assert not (out / "tokenizer_2").exists()
    assert (out / "tokenizer/vocab.json").is_file()


def test_components_can_be_added_one_by_one(source: Path, finished: Path, tmp_path: Path) -> None:
    for number, name in enumerate(reversed(COMPONENTS)):
        chosen = replace(SETTINGS, components=tuple(c for c in COMPONENTS if c in (name, COMPONENTS[-1])))
        manifest, seen = converted(source, tmp_path / "out", chosen)
        assert seen == {name}
        assert len(manifest.components) == len(manifest.ledger) == number + 1
    one_by_one, at_once = contents(tmp_path / "out"), contents(finished)
    assert one_by_one.pop("manifest.json") != at_once.pop("manifest.json")
    assert one_by_one == at_once


def test_only_what_a_component_needs_is_read(source: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(source, tmp_path / "alone"))
    manifest, _ = converted(alone, tmp_path / "out", replace(SETTINGS, components=("vae_decoder",)))
    assert "unet/diffusion_pytorch_model.safetensors" not in manifest.source.files
    assert "vae/diffusion_pytorch_model.safetensors" in manifest.source.files
    assert "unet/config.json" in manifest.source.files
    path = alone / "vae" / "diffusion_pytorch_model.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(path).items()}, path)
    # The decoder that is there is of other weights than those that the U-Net would come beside.
    with pytest.raises(OutputExists, match="another checkpoint"):
        convert(alone, tmp_path / "out", replace(SETTINGS, components=("unet",)))


def test_a_renamed_checkpoint_is_the_same(source: Path, out: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "renamed")
    assert not converted(tmp_path / "renamed", out, SETTINGS)[1]


def test_other_settings_are_refused_until_forced(source: Path, out: Path) -> None:
    before = contents(out)
    with pytest.raises(
        OutputExists, match=r"another conversion of this checkpoint \(recipe gpu-w8, SHA-256 .*\).*--force"
    ):
        convert(source, out, replace(SETTINGS, recipe=find_recipe("float16")))
    with pytest.raises(OutputExists, match=r"height 32\)"):
        convert(source, out, replace(SETTINGS, height=64))
    with pytest.raises(OutputExists, match="other rewrites"):
        convert(source, out, Settings([r for r in SETTINGS.rules if r.name != "clip_gelu"]))
    assert contents(out) == before
    manifest, seen = converted(source, out, replace(SETTINGS, recipe=find_recipe("float16"), force=True))
    assert seen == set(COMPONENTS)
    assert manifest.configuration.recipe.name == "float16"


def test_another_form_of_the_networks_is_refused(source: Path, out: Path) -> None:
    """Also of those that would be added beside the folder's own: one bundle has one."""
    spelled = replace(SETTINGS, target=replace(SETTINGS.target, spelling=find_spelling("litert-h100")))
    bound = replace(SETTINGS, interface=find_interface("mlperf-mobile"))
    composite = replace(SETTINGS, attention="composite")
    for other, words in (
        (composite, "attention products"),
        (spelled, "the spelling standard"),
        (bound, "msd's own interface"),
    ):
        for components in ((), ("vae_encoder",)):
            with pytest.raises(OutputExists, match=rf"another conversion of this checkpoint \({words}\)"):
                convert(source, out, replace(other, components=components))
    convert(source, out, replace(composite, force=True))
    with pytest.raises(OutputExists, match=r"\(attention composite\)"):
        convert(source, out, SETTINGS)


def test_what_images_lose_is_said(source: Path, out: Path) -> None:
    """Of a scheduler, steps and so on that the folder was made with, and that are not given again."""

    def remarks(**changes: Any) -> list[str]:
        return [*convert(source, out, replace(SETTINGS, **changes)).conversion.remarks]

    assert remarks(scheduler="euler:timestep_spacing=trailing", guidance=3.0) == []
    assert remarks() == [*open_bundle(out).manifest.conversion.remarks]
    assert [*open_bundle(out).manifest.conversion.remarks] == [
        "images had the scheduler euler, 4 steps and guidance 3; without --scheduler, --steps and --guidance"
        " they now have the model's own: the scheduler ddim, 20 steps and guidance 7.5",
    ]
    assert remarks() == remarks(scheduler="ddim") == [], "of an earlier conversion"
    assert remarks(prediction_type="v_prediction", steps=9) == []
    assert remarks() == [
        "images had the prediction type v_prediction and 9 steps; without --prediction-type and --steps they"
        " now have the model's own: the prediction type epsilon and 20 steps"
    ]
    assert remarks(scheduler="ddim:timestep_spacing=trailing") == []
    assert remarks() == [
        "images had the scheduler ddim with timestep_spacing = trailing; without --scheduler they now have"
        " the model's own: the scheduler ddim"
    ]


def test_what_was_said_of_files_that_are_reused_stays(source: Path, tmp_path: Path) -> None:
    """Which their ledger has: what float16 cannot hold, and which tensors have no place."""
    path = Path(shutil.copytree(source, tmp_path / "source")) / "vae/diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    tensors["decoder.mid_block.resnets.0.conv1.weight"][0] = 7e4
    save_file({**tensors, "decoder.mine": tensors["decoder.conv_in.bias"]}, path)
    half = replace(SETTINGS, prompt_chunks=2, recipe=find_recipe("float16"))
    out, decoder = tmp_path / "out", replace(half, components=("vae_decoder",))
    first = convert(tmp_path / "source", out, decoder).conversion.remarks
    said = (
        "--prompt-chunks changes unet",
        "vae_decoder has no place for decoder.mine",
        "vae_decoder has weights",
    )
    assert [remark.startswith(wanted) for remark, wanted in zip(first, said, strict=True)] == [True] * 3
    assert convert(tmp_path / "source", out, decoder).conversion.remarks == first, "all are reused"
    assert convert(tmp_path / "source", out, half).conversion.remarks == first[1:]
    assert open_bundle(out).manifest.conversion.remarks == first[1:]
    other = replace(half, components=("text_encoder",), force=True)
    assert convert(tmp_path / "source", out, other).conversion.remarks[1:] == first[1:]
    path.write_bytes((source / "vae/diffusion_pytorch_model.safetensors").read_bytes())
    assert convert(tmp_path / "source", out, replace(half, force=True)).conversion.remarks == ()


def test_another_checkpoint_is_refused_until_forced(source: Path, out: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(source, tmp_path / "other"))
    path = other / "vae" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    tensors["decoder.conv_out.bias"] += 1
    save_file(tensors, path)
    with pytest.raises(OutputExists, match=r"another checkpoint \(source\)"):
        convert(other, out, SETTINGS)
    (out / "mine.txt").write_text("mine")
    # What stays behind of the other checkpoint would make a bundle of two.
    manifest, _ = converted(other, out, replace(SETTINGS, components=("vae_decoder",), force=True))
    assert list(manifest.components) == ["vae_decoder"]
    assert not (out / "unet.tflite").exists()
    assert (out / "mine.txt").read_text() == "mine"


def test_parts_that_were_named_before_are_to_be_named_again(source: Path, out: Path, tmp_path: Path) -> None:
    tiny_autoencoders.write(tmp_path / "taesd", **tiny_autoencoders.SHALLOW)
    named = replace(SETTINGS, components=("vae_decoder",), preview_vae=tmp_path / "taesd")
    assert "preview_decoder" in convert(source, out, named).components
    with pytest.raises(OutputExists, match=r"preview_vae/taesd/.*, and this one does not name all of that"):
        convert(source, out, SETTINGS)
    manifest, seen = converted(source, out, replace(named, also=("vae_encoder",)))
    assert seen == {"vae_encoder"}
    assert {"preview_decoder", "vae_encoder"} < {*manifest.components}


def test_force_converts_again_and_keeps_what_was_not_asked_for(source: Path, out: Path) -> None:
    manifest, seen = converted(source, out, replace(SETTINGS, components=("vae_decoder",), force=True))
    assert seen == {"vae_decoder"}
    assert list(manifest.components) == list(COMPONENTS)


def test_a_changed_file_is_not_overwritten_unasked(source: Path, out: Path) -> None:
    data = bytearray((out / "unet.tflite").read_bytes())
    data[-100] ^= 1
    (out / "unet.tflite").write_bytes(data)
    with pytest.raises(OutputExists, match=r"unet\.tflite is not as msd-convert wrote it"):
        convert(source, out, SETTINGS)
    (out / "unet.tflite").unlink()
    with pytest.raises(OutputExists, match=r"unet\.tflite is missing"):
        convert(source, out, SETTINGS)
    assert converted(source, out, replace(SETTINGS, force=True))[1] == set(COMPONENTS)


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 99}'])
def test_a_manifest_that_is_none(source: Path, out: Path, text: str) -> None:
    (out / "manifest.json").write_text(text)
    with pytest.raises(OutputExists, match=r"manifest\.json.*--force"):
        convert(source, out, SETTINGS)
    assert converted(source, out, replace(SETTINGS, force=True))[1] == set(COMPONENTS)


def test_what_no_manifest_names_stays_and_is_said(source: Path, out: Path) -> None:
    (out / "manifest.json").write_text("{")
    (out / "text_encoder_2.tflite").write_text("another model's")
    (out / "tokenizer_2").mkdir()
    manifest, _ = converted(source, out, replace(SETTINGS, force=True))
    assert manifest.conversion.remarks == (
        f"text_encoder_2.tflite, tokenizer_2 in {out} stay as they are: no manifest.json that can be read"
        " says what wrote them",
    )
    assert (out / "text_encoder_2.tflite").read_text() == "another model's"
    assert converted(source, out, replace(SETTINGS, force=True))[0].conversion.remarks == ()


def test_the_largest_file_is_written_first(source: Path, tmp_path: Path) -> None:
    order = dict[str, None]()

    def note(component: str, what: str, done: int, total: int) -> None:
        order.update({component: None} if what == "writing" else {})

    manifest = convert(source, tmp_path / "new", SETTINGS, note)
    sizes = [manifest.components[name].bytes for name in order]
    assert sizes == sorted(sizes, reverse=True)
    assert [*manifest.components] == [*COMPONENTS]


def test_older_manifests_say_less(source: Path, out: Path) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    for part in manifest["components"].values():
        del part["made_from"]
    del manifest["conversion"]["stages"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    open_bundle(out, verify=True)
    with pytest.raises(OutputExists, match="another msd"):
        convert(source, out, SETTINGS)


def convert_until_killed(source: Path, out: Path) -> None:
    """Convert in this process, which kills itself before the last component is written."""

    def kill(component: str, what: str, done: int, total: int) -> None:
        if (component, what) == ("vae_decoder", "writing"):
            os.kill(os.getpid(), signal.SIGKILL)

    convert(source, out, SETTINGS, kill)


def test_a_killed_run_leaves_no_result_and_the_next_cleans_up(source: Path, tmp_path: Path) -> None:
    process = get_context("spawn").Process(target=convert_until_killed, args=(source, tmp_path / "out"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name == ".out.msd-part"
    assert (left / "new" / "unet.tflite").exists()
    assert converted(source, tmp_path / "out", SETTINGS)[1] == set(COMPONENTS)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_two_runs_do_not_write_the_same_folder(source: Path, tmp_path: Path) -> None:
    script = "import sys, time\nfrom msd.files.publication import staged\nfrom pathlib import Path\n"
    script += "with staged(Path(sys.argv[1])):\n    print('ready', flush=True)\n    time.sleep(60)\n"
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(OutputUnwritable, match="another run is writing"):
            convert(source, tmp_path / "out", SETTINGS)
        assert (tmp_path / ".out.msd-part").is_dir()
        other.kill()
    convert(source, tmp_path / "out", SETTINGS)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_left_in_the_staging_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    left = tmp_path / ".out.msd-part"
    left.mkdir()
    (left / "msd-staging").touch()
    (left / "link").symlink_to(tmp_path / "precious")
    with staged(tmp_path / "out") as staging:
        assert not any(staging.iterdir())
    left.symlink_to(tmp_path / "precious")
    with pytest.raises(OutputUnwritable), staged(tmp_path / "out"):
        pass
    assert (tmp_path / "precious" / "file").read_text() == "mine"
