"""A bundle of the wired family, and networks that compute something of all that they are given."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from msd.bundle import (
    Configuration,
    Conversion,
    ConvertedFile,
    Manifest,
    RecipeFacts,
    Source,
    dump_manifest,
    file_facts,
    open_bundle,
)
from msd.models.families import Family
from msd.models.families.control import with_controls
from msd.models.families.wiring import wire
from msd.run.runners.engine import Engine
from msd.run.runtime.initial_image import InitialImage
from msd.tensor_spec import TensorSpec
from tests.added_families import added_family
from tests.clip_files import write_tokenizer
from tests.stand_in import SCHEDULER

Array = np.ndarray
HEIGHT, WIDTH, CELL, CHUNKS = 8, 12, 2, 2
ROWS, COLUMNS = HEIGHT // CELL, WIDTH // CELL
LATENT = (1, ROWS, COLUMNS, 4)
PIXELS = (1, HEIGHT, WIDTH, 3)
Ports = dict[str, tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]]
PORTS: Ports = {
    "words": ({"ids": (1, 77)}, {"hidden": (1, 77, 3)}),
    "more_words": ({"ids": (1, 77)}, {"hidden": (1, 77, 2), "vector": (1, 5)}),
    "eye": ({"pixels": PIXELS}, {"moments": (1, ROWS, COLUMNS, 8)}),
    "steering": (
        {
            "sample": LATENT,
            "plain": LATENT,
            "hint": (1, ROWS, COLUMNS, 4),
            "time": (1,),
            "vector": (1, 5),
        },
        {f"out_{i}": (1, ROWS, COLUMNS, 2) for i in range(3)},
    ),
    "denoising": (
        {
            "sample": (1, ROWS, COLUMNS, 9),
            "time": (1, 11),
            "sizes": (1, 24),
            "text": (1, 77 * CHUNKS, 5),
            "twice": (1, 2 * 77 * CHUNKS, 3),
            "added": (1, ROWS, 2 * COLUMNS, 2),
            "more": (1, ROWS, COLUMNS, 2),
        },
        {"noise": LATENT},
    ),
    "sketch": ({"latent": LATENT}, {"rgb": PIXELS}),
    "painting": ({"latent": LATENT}, {"rgb": PIXELS}),
}
CONTROLS = ("left", "right")
CONTROLLED: Ports = {
    **PORTS,
    "denoising": (
        {**PORTS["denoising"][0], "control_0": (1, ROWS, COLUMNS, 2), "control_1": (1, ROWS, 1, 3)},
        PORTS["denoising"][1],
    ),
    **{
        f"controlnet_{name}": (
            {
                "sample": (1, ROWS, COLUMNS, 9),
                "time": (1, 7),
                "text": (1, 77 * CHUNKS, 5),
                "hint": PIXELS,
                "scale": (1, 2),
            },
            {"control_0": (1, ROWS, COLUMNS, 2), "control_1": (1, ROWS, 1, 3)},
        )
        for name in CONTROLS
    },
}
"""The same with two ControlNets."""

FUSED: Ports = {
    **PORTS,
    "denoising": (
        {
            **PORTS["denoising"][0],
            **{f"hint_{name}": PIXELS for name in CONTROLS},
            **{f"scale_{name}": (1, 2 + i) for i, name in enumerate(CONTROLS)},
        },
        PORTS["denoising"][1],
    ),
}
"""The same with both inside the network that denoises."""

SETTINGS = {"eye": {"scaling_factor": 0.3}, "denoising": {"cosine_first": False, "frequency_shift": 1.0}}


def write_bundle(family: Family, folder: Path, controls: tuple[str, ...] = (), fused: bool = False) -> Path:
    """Write a bundle whose files hold no networks; with `controls`, those of `CONTROLLED` or `FUSED`."""
    folder.mkdir(parents=True)
    ports = (FUSED if fused else CONTROLLED) if controls else PORTS
    files = {name: _file(folder, name, ports) for name in ports}
    components = {name: SETTINGS.get(name, {}) for name in ports}
    write_tokenizer(folder / "tokenizer")
    write_tokenizer(folder / "tokenizer_2", {"pad_token": "!"})
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(SCHEDULER))
    manifest = Manifest(
        "0",
        Source("wired", "none", {}),
        Configuration(
            HEIGHT,
            WIDTH,
            1,
            RecipeFacts("float32", ""),
            "msd",
            CHUNKS,
            components,
            controls=controls,
            fused_controls=fused,
        ),
        files,
        Conversion(0.0, 0),
        calls=wire(with_controls(family, controls, fused), files, components),
        family=family.name,
    )
    (folder / "manifest.json").write_text(dump_manifest(manifest))
    return folder


def _file(folder: Path, name: str, ports: Ports) -> ConvertedFile:
    path = folder / f"{name}.tflite"
    path.write_bytes(name.encode() * 100)
    facts = file_facts(path)
    inputs, outputs = map(_specs, ports[name])
    return ConvertedFile(path.name, facts.sha256, facts.bytes, 1, inputs, outputs)


def _specs(side: Mapping[str, tuple[int, ...]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(n, s, "int32" if n == "ids" else "float32") for n, s in side.items())


def photo() -> InitialImage:
    """Return an image whose mask has edges that are not those of the latents' cells."""
    levels = np.random.default_rng(3).integers(0, 256, PIXELS, np.uint8)
    mask = np.zeros((1, HEIGHT, WIDTH, 1), np.float32)
    mask[:, 1:6, 3:11] = 1
    return InitialImage(levels / np.float32(127.5) - np.float32(1), mask, "random")


@dataclass
class Recorder:
    """Runs networks of random weights, and keeps what each was given and computed, in order."""

    runs: list[tuple[str, dict[str, Array], dict[str, Array]]] = field(default_factory=list)
    ports: Ports = field(default_factory=lambda: PORTS)

    def run(self, name: str, given: Mapping[str, Array]) -> dict[str, Array]:
        inputs, outputs = self.ports[name]
        assert {key: value.shape for key, value in given.items()} == inputs
        scaled = {key: given[key].astype(np.float64) / (700 if key == "ids" else 1) for key in inputs}
        row = np.concatenate([scaled[key].ravel() for key in inputs])
        made = {key: _mixed(f"{name} {key}", row, shape) for key, shape in outputs.items()}
        self.runs.append((name, {key: value.copy() for key, value in given.items()}, made))
        return made

    def patch(self, monkeypatch: Any) -> None:
        """Let msd.run.runtime run these networks wherever it would load a file."""

        @contextmanager
        def load(engine: Engine, path: Path) -> Iterator[Any]:
            yield _Network(self, path.stem)

        monkeypatch.setattr(Engine, "load", load)


@dataclass(frozen=True)
class _Network:
    recorder: Recorder
    name: str

    @property
    def inputs(self) -> dict[str, TensorSpec]:
        return {spec.name: spec for spec in _specs(self.recorder.ports[self.name][0])}

    @property
    def outputs(self) -> dict[str, TensorSpec]:
        return {spec.name: spec for spec in _specs(self.recorder.ports[self.name][1])}

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        return self.recorder.run(self.name, given)


def _mixed(name: str, row: Array, shape: tuple[int, ...]) -> Array:
    """Return the hyperbolic tangent of a random product, float32, of that shape."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    matrix = random.normal(0, 1 / np.sqrt(len(row)), (int(np.prod(shape)), len(row)))
    return np.tanh(matrix @ row).reshape(shape).astype(np.float32)


def wired_family() -> AbstractContextManager[Family]:
    """Return a context in which the wired family is found."""
    return added_family("wired", Path(__file__).parent / "families")


def open_wired(folder: Path) -> Any:
    """Return the bundle, all of it checked."""
    return open_bundle(folder, verify=True)
