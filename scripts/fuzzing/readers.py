"""Every reader of a file that somebody else may have made: its seeds, its mutator, and how it is read.

A reader gets a folder and the content of a file; it may raise what users get to see as one line, and nothing
else. What it opens it also uses: constants are loaded, prompts are encoded, tables of steps are made.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np

from msd.bundle import load_manifest
from msd.compress.calibration.inputs import read_arrays
from msd.compress.calibration.prompt_file import read_prompts
from msd.compress.encoding.recipe import read_recipe
from msd.compress.pruning.settings import parse_pruning
from msd.conversion.sources import embedding, h5, lora, pickled, safetensors
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder, read_json
from msd.errors import BadConfig
from msd.export.app.manifest import load_manifest as load_app_manifest
from msd.files.configs import CONFIGS
from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.graph.prediction.device import find_device, read_device
from msd.graph.prediction.registry import delegates
from msd.measure.judging.browser import load_browser_verdict
from msd.measure.regress.suite import read_suite
from msd.measure.report.examine import examine
from msd.measure.report.report import load_report
from msd.models.demo import CHECKPOINT
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.networks import networks, read_configs, size_of
from msd.run.runners.timings import summarise
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.prompt import tokenize
from msd.run.runtime.scheduler import SCHEDULERS, open_scheduler
from msd.run.runtime.tokenizer import open_tokenizer
from scripts.fuzzing import h5_server
from scripts.fuzzing.h5_mutate import changed_h5
from scripts.fuzzing.mutate import (
    Mutate,
    changed_json,
    changed_safetensors,
    changed_toml,
    changed_words,
    changed_zip,
    flipped,
)

SEEDS = Path(__file__).parents[2] / "tests" / "corpus" / "seeds"
PROMPT = "a (photo:1.2) of an astronaut's café, [detailed] 1999 <|endoftext|> 日本"
Read = Callable[[Path, bytes], None]


@dataclass(frozen=True)
class FuzzedReader:
    """A reader: its seeds, the mutator of these, and the function that reads; `share` of all mutants."""

    seeds: tuple[bytes, ...]
    mutate: Mutate
    read: Read
    share: float = 1.0


def _path(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _tflite(folder: Path, content: bytes) -> None:
    path = _path(folder, "x.tflite", content)
    model = tflite.read(path)
    for graph in model.graphs:
        for tensor in graph.tensors():
            if tensor.data is not None:
                tensor.data.load()
    Interface.of(model, path)


def _report(folder: Path, content: bytes) -> None:
    examine(_path(folder, "x.tflite", content), [*delegates()], find_device("adreno-740"))


def _safetensors(folder: Path, content: bytes) -> None:
    for weights in safetensors.read_contents(_path(folder, "x.safetensors", content)).tensors.values():
        weights.load()


def _pickle(folder: Path, content: bytes) -> None:
    for weights in pickled.read_contents(_path(folder, "x.ckpt", content)).tensors.values():
        weights.load()


def _h5(folder: Path, content: bytes) -> None:
    with patch.object(h5, "run_index", h5_server.run_index):
        found = h5.open_file(_path(folder, "x.h5", content))
    for weights in found:
        weights.load()


@cache
def _demo() -> Checkpoint:
    return open_folder(CHECKPOINT)


def _lora(folder: Path, content: bytes) -> None:
    merged = lora.merge(_demo(), [(_path(folder, "x.safetensors", content), 1.0)])
    for name, weights in merged.weights["unet"].items():
        if weights is not _demo().weights["unet"][name]:
            weights.load()


def _embedding(folder: Path, content: bytes) -> None:
    embedding.add(_demo(), [(_path(folder, "x.safetensors", content), "<new>")])


def _configuration(part: str) -> Read:
    def read(folder: Path, content: bytes) -> None:
        _path(folder, "config.json", content)
        parsed = {
            name: read_json(CHECKPOINT, f"{name}/config.json") for name in ("text_encoder", "unet", "vae")
        }
        configs = read_configs(STABLE_DIFFUSION, {**parsed, part: read_json(folder, "config.json")})
        networks(STABLE_DIFFUSION, configs, size_of(STABLE_DIFFUSION, configs))
        for config in configs.values():
            config.last_modules()

    return read


def _tokenizer(name: str) -> Read:
    def read(folder: Path, content: bytes) -> None:
        whole = folder / "tokenizer"
        whole.mkdir(exist_ok=True)
        for seed in (SEEDS / "tokenizer").iterdir():
            _path(whole, seed.name, seed.read_bytes())
        _path(whole, name, content)
        tokenizer = open_tokenizer(whole)
        for syntax in ("plain", "weights"):
            tokenize(tokenizer, PROMPT * 3, syntax)

    return read


def _scheduler(folder: Path, content: bytes) -> None:
    _path(folder, "scheduler_config.json", content)
    for name in SCHEDULERS:
        scheduler = open_scheduler(folder, name)
        for steps in (1, 4, 20):
            _table(scheduler, steps)


def _table(scheduler: object, steps: int) -> None:
    latent = np.ones((1, 1, 1, 4), np.float32)
    try:
        with np.errstate(all="ignore"):
            for step in scheduler.table(steps).steps:  # type: ignore[attr-defined]
                step.apply(latent, latent)
    except BadConfig:
        pass


def _manifest(folder: Path, content: bytes) -> None:
    load_manifest(_path(folder, "manifest.json", content))


def _app_manifest(folder: Path, content: bytes) -> None:
    load_app_manifest(_path(folder, "sd-manifest.json", content))


def _stored_report(folder: Path, content: bytes) -> None:
    load_report(_path(folder, "report.json", content))


def _browser_verdict(folder: Path, content: bytes) -> None:
    measured = load_browser_verdict(_path(folder, "verdict.json", content))
    for network in measured.networks:
        assert measured.verdict(folder, network.sha256, 1).psnr is not None
        summarise(0.0, 0.0, (), [*network.runs_ms, 1.0])


def _recipe(folder: Path, content: bytes) -> None:
    recipe = read_recipe(_path(folder, "x.toml", content))
    if recipe.prune is not None:
        parse_pruning(recipe.prune)
    for line in recipe.lines:
        line.names(["down_blocks.0.resnets.0.conv1.weight"], "unet")


def _device(folder: Path, content: bytes) -> None:
    read_device(_path(folder, "x.toml", content))


def _suite(folder: Path, content: bytes) -> None:
    assert read_suite(_path(folder, "x.toml", content)).drawing.digest


def _prompts(folder: Path, content: bytes) -> None:
    tokenizer = open_tokenizer(SEEDS / "tokenizer")
    for prompt in read_prompts(_path(folder, "x.txt", content)):
        for syntax in ("plain", "weights"):
            try:
                tokenize(tokenizer, prompt, syntax)
            except BadConfig:
                continue


def _inputs(folder: Path, content: bytes) -> None:
    read_arrays(_path(folder, "x.npz", content))


def _image(folder: Path, content: bytes) -> None:
    open_initial_image(_path(folder, "x.png", content), 32, 32)


def _options(folder: Path, content: bytes) -> None:
    """Parse a command line, without running the command."""
    from msd.cli import msd

    name, *arguments = content.decode("utf-8", "surrogatepass").split("\0")
    command = msd.get_command(click.Context(msd), name)
    if command is None:
        return
    try:
        with redirect_stdout(io.StringIO()):
            command.make_context(name, arguments)
    except (click.ClickException, click.exceptions.Exit):
        return


COMMANDS = (
    "generate demo --prompt cat --steps 5 --guidance 3 --seed 1 --images 2 -o x.png --threads 2 --size 64x64",
    "convert -o out --recipe gpu-w8 --lora f.safetensors:0.5 --scheduler tcd:eta=0.5 --steps 4 --gelu-clip 9",
    "convert -o out --prune 15% --height 64 --width 64 --embedding f.pt:cat --clip-skip 1 --guidance 2",
    "report . --timeout 3 --memory 2 --pieces 2 --format json --precision fp16",
    "bench demo --min-seconds 1 --max-seconds 2 --repeats 3 --threads 2 --fail-slower 1.1",
    "blocks demo --reference demo --steps 3 --kept-steps 2 --guidance 1 --fail-below 20",
    "sensitivity -o x.toml --target-size 20% --steps 3",
    "export-android demo -o out --steps 4 --guidance 1 --min-ram 4",
)


def _stored(name: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((SEEDS / name).iterdir()))


def _toml(name: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((CONFIGS / name).glob("*.toml")))


def _of_demo(name: str) -> tuple[bytes, ...]:
    return ((CHECKPOINT / name).read_bytes(),)


def _tokenizer_reader(name: str, mutate: Mutate) -> FuzzedReader:
    seeds = ((SEEDS / "tokenizer" / name).read_bytes(),)
    return FuzzedReader(seeds, mutate, _tokenizer(name), share=0.5)


READERS: dict[str, FuzzedReader] = {
    "tflite": FuzzedReader(_stored("tflite"), flipped, _tflite),
    "report": FuzzedReader(_stored("tflite"), flipped, _report),
    "safetensors": FuzzedReader(_stored("safetensors"), changed_safetensors, _safetensors),
    "pickle": FuzzedReader(_stored("pickle"), changed_zip, _pickle),
    "h5": FuzzedReader(_stored("h5"), changed_h5, _h5),
    "lora": FuzzedReader(_stored("lora"), changed_safetensors, _lora),
    "embedding": FuzzedReader(_stored("embedding"), changed_safetensors, _embedding, share=0.1),
    "text_encoder-config": FuzzedReader(
        _of_demo("text_encoder/config.json"), changed_json, _configuration("text_encoder")
    ),
    "unet-config": FuzzedReader(_of_demo("unet/config.json"), changed_json, _configuration("unet")),
    "vae-config": FuzzedReader(_of_demo("vae/config.json"), changed_json, _configuration("vae")),
    "vocab": _tokenizer_reader("vocab.json", changed_json),
    "merges": _tokenizer_reader("merges.txt", flipped),
    "tokenizer_config": _tokenizer_reader("tokenizer_config.json", changed_json),
    "scheduler": FuzzedReader(_of_demo("scheduler/scheduler_config.json"), changed_json, _scheduler),
    "manifest": FuzzedReader(_stored("manifest"), changed_json, _manifest),
    "app-manifest": FuzzedReader(_stored("app-manifest"), changed_json, _app_manifest),
    "browser-verdict": FuzzedReader(_stored("browser-verdict"), changed_json, _browser_verdict),
    "stored-report": FuzzedReader(_stored("stored-report"), changed_json, _stored_report),
    "recipe": FuzzedReader(_toml("recipes"), changed_toml, _recipe),
    "device": FuzzedReader(_toml("devices"), changed_toml, _device),
    "suite": FuzzedReader(_toml("suites"), changed_toml, _suite, share=0.5),
    "prompts": FuzzedReader((PROMPT.encode() + b"\n(a:2) ((b)) [c]\n# d\n",), flipped, _prompts),
    "inputs": FuzzedReader(_stored("inputs"), changed_zip, _inputs),
    "image": FuzzedReader(_stored("image"), flipped, _image),
    "options": FuzzedReader(tuple("\0".join(c.split()).encode() for c in COMMANDS), changed_words, _options),
}
"""All readers, by the name of their folder in tests/corpus."""
