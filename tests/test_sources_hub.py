"""Ids on Hugging Face: the real client and a server on this machine that plays the hub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from msd.bundle import open_bundle
from msd.conversion.sources import hub
from msd.conversion.sources.hub import (
    files_of_network,
    local_checkpoint,
    local_controlnet,
    local_unet,
    needed_files,
)
from msd.errors import BadCheckpoint
from msd.models.families import families
from tests import xl_checkpoints
from tests.checkpoints import TINY, write
from tests.played_hub import PlayedHub, played_hub

MODEL = "someone/tiny-diffusion"
CONVERT = "from msd.cli.convert import convert; convert(prog_name='msd-convert')"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with several variants of its weights and files that no conversion reads."""
    folder = tmp_path_factory.mktemp("hub")
    model = folder / MODEL
    model.mkdir(parents=True)
    write(model, TINY)
    for name in ("text_encoder", "unet", "vae"):
        for weights in list((model / name).glob("*.safetensors")):
            shutil.copy(weights, weights.with_suffix(".fp16.safetensors"))
            shutil.copy(weights, weights.with_suffix(".bin"))
    for extra in ("safety_checker/model.safetensors", "tiny.ckpt", "README.md", "unet/model.onnx"):
        (model / extra).parent.mkdir(exist_ok=True)
        (model / extra).write_bytes(b"0" * 1000)
    (folder / "someone/single").mkdir()
    (folder / "someone/single/model.ckpt").write_bytes(b"0")
    return folder


@pytest.fixture
def server(models: Path) -> Iterator[PlayedHub]:
    with played_hub(models) as running:
        yield running


Done = subprocess.CompletedProcess[str]


def python(server: PlayedHub | None, home: Path, script: str, *words: object, **more: str) -> Done:
    """Run a script in a process of its own: huggingface_hub reads its environment when it is imported."""
    address = server.address if server else "http://127.0.0.1:9"
    paths = {"HF_ENDPOINT": address, "HF_HOME": str(home / "hf"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command, env = [sys.executable, "-c", script, *map(str, words)], os.environ | paths | more
    return subprocess.run(
        command, env=env, cwd=home, capture_output=True, text=True, timeout=300, check=False
    )


def convert(server: PlayedHub | None, home: Path, *words: object, **more: str) -> Done:
    return python(server, home, CONVERT, *words, **more)


def test_an_id_is_downloaded_and_converted(server: PlayedHub, tmp_path: Path) -> None:
    """Only what is needed, into HF_HOME, and once."""
    done = convert(server, tmp_path, MODEL, "-o", "out")
    assert done.returncode == 0, done.stderr
    assert set(open_bundle(tmp_path / "out").manifest.components) == {"text_encoder", "unet", "vae_decoder"}
    assert len(server.asked) == len(set(server.asked))
    assert not [
        file for file in server.asked if "fp16" in file or file.endswith((".bin", ".ckpt", ".onnx", ".md"))
    ]
    weights = {file.partition("/")[0] for file in server.asked if file.endswith(".safetensors")}
    assert weights == {"text_encoder", "unet", "vae"}
    assert list((tmp_path / "hf").rglob("model_index.json"))
    server.asked.clear()
    again = convert(server, tmp_path, MODEL, "-o", "again")
    assert again.returncode == 0, again.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-o", "file/out"], 1, "file is not a folder that can be written to"),
        (["-o", "kept"], 1, "kept is not empty and not a converted bundle"),
        ([], 2, "Missing option '-o'"),
        (["-o", "out", "--lora", "no.safetensors"], 1, "no.safetensors does not exist"),
        (["-o", "out", "--vae", "no/such/vae"], 1, "no/such/vae does not exist"),
    ],
)
def test_what_needs_no_download_is_refused_before_it(
    words: list[str], code: int, said: str, server: PlayedHub, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "diary.txt").touch()
    done = convert(server, tmp_path, MODEL, *words)
    assert (done.returncode, server.asked) == (code, [])
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_a_connection_the_earlier_download_is_taken(server: PlayedHub, tmp_path: Path) -> None:
    assert convert(server, tmp_path, MODEL, "-o", "out").returncode == 0
    done = convert(None, tmp_path, MODEL, "-o", "again", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr


def test_an_interrupted_download_goes_on(tmp_path: Path) -> None:
    """From where it stopped, for files beyond the pieces of 10 MB that the library writes."""
    model, weights = tmp_path / "hub" / "someone" / "large", "unet/diffusion_pytorch_model.safetensors"
    (model / "unet").mkdir(parents=True)
    (model / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    (model / weights).write_bytes(bytes(range(256)) * 100_000)
    with played_hub(tmp_path / "hub") as server:
        server.cut_off = weights
        script = f"from {hub.__name__} import *; print(local_checkpoint(Path('someone/large')))"
        done = [python(server, tmp_path, script) for _ in range(2)][-1]
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / weights).read_bytes() == (model / weights).read_bytes()
    assert [line for line in server.ranges if line.startswith(f"{weights} from 1")]


def test_a_path_that_exists_wins(server: PlayedHub, models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / MODEL, tmp_path / MODEL)
    assert convert(server, tmp_path, MODEL, "-o", "out").returncode == 0
    assert server.asked == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("someone/nothing", "hf download someone/nothing --include model_index.json"),
        ("someone/single", "hf download someone/single FILE --local-dir single"),
    ],
)
def test_what_cannot_be_had_names_the_command(
    name: str, words: str, server: PlayedHub, tmp_path: Path
) -> None:
    done = convert(server, tmp_path, name, "-o", "out")
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_a_connection_the_command_is_named(tmp_path: Path) -> None:
    done = convert(None, tmp_path, MODEL, "-o", "out", HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert f"hf download {MODEL} --include model_index.json" in done.stderr
    assert "--local-dir tiny-diffusion, then msd-convert tiny-diffusion" in done.stderr


@pytest.mark.parametrize("name", hub.MOVED)
def test_an_id_that_its_owner_removed_leads_to_the_same_weights(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadCheckpoint) as refused:
        local_checkpoint(Path(name))
    message = str(refused.value)
    assert f"its owner removed it: {hub.MOVED[name]} has the same weights" in message
    assert f"hf download {hub.MOVED[name]} --include" in message


def test_without_the_library_both_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(BadCheckpoint, match=r"pip install huggingface_hub, and again, or hf download a/b "):
        local_checkpoint(Path("a/b"))


@pytest.mark.parametrize(
    "path", ["nowhere", "a/b/c", "/a/b", "../a", "models/sd.safetensors", "models/sd.ckpt"]
)
def test_other_paths_are_no_ids(path: str) -> None:
    assert local_checkpoint(Path(path)) == Path(path)


def test_shards_and_variants_are_chosen_as_they_are_read() -> None:
    unet = "unet/diffusion_pytorch_model"
    sharded = [f"{unet}-0000{n}-of-00002.safetensors" for n in (1, 2)]
    files = ["model_index.json", f"{unet}.fp16.safetensors", *sharded, f"{unet}.safetensors.index.json"]
    assert needed_files([*files, "vae/x.txt"]) == sorted({*files} - {f"{unet}.fp16.safetensors"})
    assert needed_files([f"{unet}.fp16.safetensors", f"{unet}.non_ema.bin"]) == [f"{unet}.fp16.safetensors"]
    assert needed_files([f"{unet}.bin", f"{unet}.safetensors"]) == [f"{unet}.safetensors"]
    texts = [f"text_encoder/{stem}.safetensors" for stem in ("diffusion_pytorch_model", "model")]
    assert needed_files(texts) == texts[1:]
    foreign = [f"unet/other-0000{n}-of-00002.safetensors" for n in (1, 2)]
    assert needed_files([*files, *foreign]) == needed_files(files)
    unindexed = [f"text_encoder/model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    assert needed_files([*unindexed, "text_encoder/pytorch_model.safetensors.index.json"]) == unindexed


@pytest.mark.parametrize("name", families())
def test_every_tokenizer_of_a_family_is_downloaded(name: str) -> None:
    files = [f"{folder}/vocab.json" for folder in families()[name].tokenizers]
    assert needed_files([*files, "tokenizer_3/vocab.json"]) == files


def test_a_stable_diffusion_xl_is_downloaded_whole(models: Path, server: PlayedHub, tmp_path: Path) -> None:
    """With its second tokenizer; a command to type names both."""
    xl_checkpoints.write(models / "someone/xl")
    done = convert(server, tmp_path, "someone/xl", "-o", "out", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "tokenizer_2/tokenizer.json" in server.asked
    done = convert(None, tmp_path, "someone/other-xl", "-o", "out", HF_HUB_OFFLINE="1")
    assert "--include 'tokenizer*/*'" in done.stderr


CONTROL = "someone/canny-1.0"


def test_a_controlnets_id_is_downloaded(server: PlayedHub, models: Path, tmp_path: Path) -> None:
    """Its configuration and the best of its weights; a path that exists wins."""
    folder, weights = models / CONTROL, "diffusion_pytorch_model"
    folder.mkdir(exist_ok=True)
    for file in ("config.json", f"{weights}.safetensors", f"{weights}.fp16.safetensors", f"{weights}.bin"):
        (folder / file).write_text(file)
    (folder / "config.json").write_text('{"_class_name": "ControlNetModel"}')
    script = f"from {hub.__name__} import *; print(local_controlnet(Path('{CONTROL}')))"
    done = python(server, tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert sorted(server.asked) == ["config.json", f"{weights}.safetensors"]
    assert (Path(done.stdout.strip()) / f"{weights}.safetensors").read_text() == f"{weights}.safetensors"
    (tmp_path / CONTROL).mkdir(parents=True)
    assert python(server, tmp_path, script).stdout.strip() == CONTROL


@pytest.mark.parametrize(
    ("index", "kind", "function"),
    [
        ("model_index.json", "FluxPipeline", "local_checkpoint"),
        ("config.json", "ControlNetUnionModel", "local_controlnet"),
        ("config.json", "UNetMotionModel", "local_unet"),
    ],
)
def test_another_kind_of_model_is_refused_before_its_weights_are_downloaded(
    index: str, kind: str, function: str, server: PlayedHub, models: Path, tmp_path: Path
) -> None:
    folder = models / f"someone/{kind}"
    folder.mkdir(exist_ok=True)
    (folder / index).write_text(f'{{"_class_name": "{kind}"}}')
    (folder / "diffusion_pytorch_model.safetensors").write_bytes(b"0")
    script = f"from {hub.__name__} import *\ntry:\n    {function}(Path('someone/{kind}'))\n"
    done = python(server, tmp_path, f"{script}except BadCheckpoint as problem:\n    print(problem)")
    assert f"{index} says the " in done.stdout
    assert f"is '{kind}', and only " in done.stdout
    assert server.asked == [index]


def test_without_a_connection_the_controlnets_command_is_named(tmp_path: Path) -> None:
    converting = (f"{CONTROL}:edges", "-o", "out")
    done = convert(None, tmp_path, "--controlnet", *converting, HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert f"hf download {CONTROL} --include config.json --include diffusion_pytorch" in done.stderr
    assert "--local-dir canny-1.0, then --controlnet canny-1.0" in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_the_library_a_controlnets_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(BadCheckpoint, match=r"hf download a/b --include config\.json .*then --controlnet b"):
        local_controlnet(Path("a/b"))
    with pytest.raises(BadCheckpoint, match=r"hf download a/b --include config\.json .*then --unet b"):
        local_unet(Path("a/b"))


def test_a_variant_of_a_controlnet_is_taken_where_there_is_no_other() -> None:
    files = ["config.json", "diffusion_pytorch_model.fp16.bin", "README.md", "images/model.safetensors"]
    assert files_of_network(files) == files[:2]
