"""Bundles whose networks are a few sums in NumPy, the same as in tests/kotlin/Sums.kt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msd.bundle import (
    Configuration,
    Conversion,
    ConvertedFile,
    File,
    Manifest,
    RecipeFacts,
    Source,
    dump_manifest,
    file_facts,
    open_bundle,
)
from msd.conversion.sources.clip_tokenizer import clip_tokenizer
from msd.export.app.manifest import describe, write_manifest
from msd.graph import tflite
from msd.graph.ir import Graph, Model, Tensor
from msd.graph.ir.interface import Interface
from msd.run.runners.engine import Engine
from msd.tensor_spec import TensorSpec
from tests.clip_files import write_tokenizer
from tests.stand_in import SCHEDULER

STEPS = (2, 6, 20)
HEIGHT, WIDTH, CONTEXT = 4, 6, 5
UPSCALED = 24, 16
SETTINGS: dict[str, dict[str, Any]] = {
    "unet": {"cosine_first": False, "frequency_shift": 1.0},
    "vae_encoder": {"scaling_factor": 0.25},
}


def write_bundle(
    folder: Path,
    batch: int = 1,
    embeddings: dict[str, int] | None = None,
    scheduler: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    chunks: int = 1,
    encoder: bool = False,
    inpaints: bool = False,
    tile: tuple[int, int] = (HEIGHT, WIDTH),
    upscaler: bool = False,
    controls: tuple[str, ...] = (),
) -> Path:
    """Write a bundle that NumPy generates with; `embeddings`: the widths of the U-Net's inputs by name.

    With `chunks`, the U-Net takes as many outputs of the text encoder. `encoder`: the bundle has an image
    encoder. `inpaints`: the U-Net takes a mask and the masked image beside the latents. `tile`: the rows and
    columns of the latents that the autoencoder takes. `upscaler`: one enlarges four times, in tiles of
    `UPSCALED` pixels. `controls`: the names of ControlNets, of one residual each.
    """
    folder.mkdir(parents=True)
    latent, context = (batch, HEIGHT, WIDTH, 4), (batch, 1, 77, CONTEXT)
    read = (batch, 1, 77 * chunks, CONTEXT)
    extra = {name: (batch, width) for name, width in (embeddings or {}).items()}
    if "timestep_embedding" not in extra:
        extra["timestep"] = (1,)
    taken = {"latent": (*latent[:-1], 9) if inpaints else latent, "context": read, **extra}
    steered = {"control_0": latent} if controls else {}
    parts = {
        "text_encoder": _write(folder, "text_encoder", {"tokens": (batch, 77)}, ("context", context)),
        "unet": _write(folder, "unet", {**taken, **steered}, ("noise", latent)),
        "vae_decoder": _write(
            folder, "vae_decoder", {"latent": (1, *tile, 4)}, ("image", (1, tile[0] * 8, tile[1] * 8, 3))
        ),
    }
    if encoder:
        image, moments = (1, tile[0] * 8, tile[1] * 8, 3), (1, *tile, 8)
        parts["vae_encoder"] = _write(folder, "vae_encoder", {"image": image}, ("moments", moments))
    for name in (f"controlnet_{each}" for each in controls):
        steering = {"hint": (batch, HEIGHT * 8, WIDTH * 8, 3), "scale": (batch, 1)}
        parts[name] = _write(folder, name, {**taken, **steering}, ("control_0", latent))
    if upscaler:
        image, larger = (1, *UPSCALED, 3), (1, *(4 * side for side in UPSCALED), 3)
        parts["upscaler"] = _write(folder, "upscaler", {"image": image}, ("enlarged", larger))
    _write_rest(folder, scheduler or {}, tokenizer)
    configuration = Configuration(
        height=HEIGHT * 8,
        width=WIDTH * 8,
        batch=batch,
        recipe=RecipeFacts("gpu-w8", ""),
        prompt_chunks=chunks,
        components={name: SETTINGS.get(name, {}) for name in parts},
        controls=controls,
    )
    source = Source("stand-in", "sums", {"unet.safetensors": File("ab" * 32, 7)})
    manifest = Manifest("0", source, configuration, parts, Conversion(0.0, 0), versions={"numpy": "1"})
    (folder / "manifest.json").write_text(dump_manifest(manifest))
    return folder


def write_app(folder: Path, sampler: str | None = None, **settings: Any) -> Path:
    """Write a bundle, and its app's files in the same folder."""
    bundle = open_bundle(write_bundle(folder, **settings))
    write_manifest(describe(bundle, STEPS, sampler), bundle, folder)
    return folder


def write_clip_app(folder: Path, steps: tuple[int, ...] = (20,)) -> Path:
    """Write a bundle with CLIP's own vocabulary and an image encoder, and its app's files beside it."""
    write_bundle(folder, encoder=True)
    for file in (folder / "tokenizer").iterdir():
        file.unlink()
    for name, read in clip_tokenizer("!").items():
        (folder / "tokenizer" / name).write_bytes(read())
    bundle = open_bundle(folder)
    write_manifest(describe(bundle, steps), bundle, folder)
    return folder


def _write_rest(folder: Path, scheduler: dict[str, Any], tokenizer: dict[str, Any] | None) -> None:
    """Write what a bundle has beside its networks."""
    write_tokenizer(folder / "tokenizer", tokenizer)
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps({**SCHEDULER, **scheduler}))


def _write(
    folder: Path, name: str, inputs: dict[str, tuple[int, ...]], output: tuple[str, tuple[int, ...]]
) -> ConvertedFile:
    path = folder / f"{name}.tflite"
    ports = [TensorSpec(n, s, "int32" if n == "tokens" else "float32", "") for n, s in inputs.items()]
    result = TensorSpec(*output, "float32", "")
    tensors = [Tensor(each.name, each.shape, each.dtype.upper()) for each in (*ports, result)]
    tflite.write(Model([Graph(tensors[:-1], tensors[-1:])], description=name * 1000), path)
    facts = file_facts(path)
    return ConvertedFile(path.name, facts.sha256, facts.bytes, 0, tuple(ports), (result,))


@dataclass(frozen=True)
class Sums:
    """A session that computes in float64 and rounds once."""

    name: str
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        made = NETWORKS[self.name](**inputs)
        (output,) = self.outputs.values()
        return {output.name: made.reshape(output.shape).astype(np.float32)}


@contextmanager
def _load(self: Engine, path: Path) -> Iterator[Sums]:
    ports = Interface.of(tflite.read(path), path)
    yield Sums(path.stem, ports.inputs, ports.outputs)


def draw_with_sums(monkeypatch: Any) -> None:
    """Let msd.run.runtime draw with `Sums` wherever it would load a file."""
    monkeypatch.setattr(Engine, "load", _load)


def encode(tokens: np.ndarray) -> np.ndarray:
    column, place = np.arange(1, CONTEXT + 1), np.arange(77)
    return (tokens[..., None] * column * 31 + place[:, None] * 7) % 97 / 97.0 - 0.5


def predict(latent: np.ndarray, context: np.ndarray, **told: np.ndarray) -> np.ndarray:
    batch = len(latent)
    if latent.shape[-1] == 9:
        latent = latent[..., :4] + 0.1 * latent[..., 4:5] + 0.05 * latent[..., 5:]
    rows = latent.reshape(batch, -1).astype(np.float64)
    text = context.reshape(batch, -1).astype(np.float64)
    words = (text * (np.arange(text.shape[1]) % 5 + 1)).sum(1, keepdims=True) / text.shape[1]
    shift = sum(_told(value) for value in told.values())
    following = np.roll(latent.reshape(batch, -1), -1, 1).astype(np.float64)
    return 0.6 * rows + 0.3 * following + words + shift


def _told(value: np.ndarray) -> float:
    row = value.reshape(-1, value.shape[-1])[0].astype(np.float64)
    return float((row * np.arange(1, len(row) + 1)).sum() / (len(row) * 1000))


def decode(latent: np.ndarray) -> np.ndarray:
    wide = latent[0].astype(np.float64)
    return (0.4 * wide[..., :3] + 0.1 * wide[..., 3:]).repeat(8, 0).repeat(8, 1)


def encode_image(image: np.ndarray) -> np.ndarray:
    """Eight numbers for each cell, of the pixel at its top left: four means, four logarithms of variances."""
    corner = image[0, ::8, ::8].astype(np.float64)
    mean = [0.7 * corner[..., i % 3] + 0.1 * i for i in range(4)]
    return np.stack([*mean, *(0.3 * corner[..., i % 3] - 2 for i in range(4))], -1)


def enlarge(image: np.ndarray, scale: int = 4) -> np.ndarray:
    """Return each pixel repeated, with something that depends on its place in the tile."""
    larger = image.astype(np.float64).repeat(scale, 1).repeat(scale, 2)
    y, x = np.mgrid[: larger.shape[1], : larger.shape[2]]
    return 0.9 * larger + 0.1 * ((y * 31 + x * 7) % 13 / 13.0)[None, ..., None]


NETWORKS = {
    "text_encoder": encode,
    "unet": predict,
    "vae_decoder": decode,
    "vae_encoder": encode_image,
    "upscaler": enlarge,
}
