"""Measure on a GPU what each rewrite is worth: full-size U-Nets with one of them switched off in turn.

    python scripts/ablate_gpu.py trace build                           # needs TensorFlow; some MB
    python scripts/ablate_gpu.py measure build -o docs/results/gpu-ablation.json

The two halves may run on different machines. Weights are random (`judge_full_size.draw`). All variants are
written first, side by side; then each takes turns with the whole U-Net, some runs each, in one process per
file. What the delegate does not take at all runs where LiteRT puts it then: partly on the CPU.

`build/sd15-litert-torch.zip`, if it is there, is the U-Net as litert-torch exports it
(`scripts/export_litert_torch.py`), and is measured against ours of the same model and batch.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

import graph_rewrites
from msd import tflite
from msd.convert import with_weights
from msd.delegate import log
from msd.delegate.adapter import Adapter, find
from msd.delegate.child import Bounds, Child, ChildLost, ChildRefused
from msd.delegate.worker import LoadOnGpu, Run
from msd.encode import encode
from msd.parity import psnr
from msd.ports import Ports
from msd.recipe import find_recipe
from msd.rewrite import apply
from msd.structure import Structure, VariableSpec, load_structure, save_structure
from msd.weights import Array, Weights
from scripts.judge_full_size import draw
from scripts.measured import machine

STRUCTURES = {"sd21-base": 1, "sd21-base-batch2": 2, "sd15-batch2": 2}
PEER = "sd15-litert-torch"
LARGE = 64
"""Weights of so many values and more are drawn anew."""

WARM, TURNS = 3, 20
WRITERS = 12
PATIENCE = 300.0
MEMORY = 64 * 10**9


@dataclass(frozen=True)
class Variant:
    """A U-Net: of which structure, by which recipe, and which rewrite is switched off ("*": all)."""

    name: str
    structure: str
    recipe: str = "gpu-w8"
    without: str | None = None
    against: str = "whole"
    """The variant that it takes turns with."""


@dataclass
class Row:
    """What was seen of a variant: seconds of a run (median; of the other's too), bytes, the log's tallies."""

    variant: Variant
    operations: int = 0
    file_bytes: int = 0
    fired: int | None = None
    failure: str | None = None
    on_gpu: int = 0
    partitions: int = 0
    compile_seconds: float = 0.0
    gpu_bytes: int = 0
    process_bytes: int = 0
    seconds: float = 0.0
    ratio: float = 0.0
    psnr: float | None = None
    rejected: list[str] = field(default_factory=list)


@click.group()
def main() -> None:
    """Trace the structures, or measure them."""


@main.command("trace")
@click.argument("folder", type=click.Path(path_type=Path))
def trace_structures(folder: Path) -> None:
    """Write to FOLDER the U-Nets' structures."""
    from msd.models.config import TextEncoderConfig, UNetConfig, VaeDecoderConfig
    from msd.models.networks import networks
    from msd.trace import trace

    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in STRUCTURES.items():
        public = tomllib.loads(Path(f"configs/models/{name.removesuffix('-batch2')}.toml").read_text())
        every = networks(
            TextEncoderConfig.from_diffusers(public["text_encoder"]),
            UNetConfig.from_diffusers(public["unet"]),
            VaeDecoderConfig.from_diffusers(public["vae"]),
            None,
            None,
            batch,
        )
        save_structure(trace(every["unet"].build, every["unet"].inputs), folder / f"{name}.zip")


@main.command("measure")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--precision", type=click.Choice(["fp16", "fp32"]), default="fp16", show_default=True)
@click.option("--only", multiple=True, help="Measure these variants, and what they are measured against.")
def measure_variants(folder: Path, output: Path, precision: Any, only: tuple[str, ...]) -> None:
    """Write every variant's row as JSON to OUTPUT."""
    report: dict[str, Any] = {
        "command": "python " + " ".join(sys.argv),
        "machine": machine(),
        "gpu": gpu_name(),
        "precision": precision,
        "versions": {"ai-edge-litert": version("ai-edge-litert")},
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as temporary:
        rows = write_all(folder, Path(temporary), only)
        for row in measured_rows(rows, Path(temporary), find(), precision):
            say(row)
            report["rows"].append(asdict(row))
            output.write_text(json.dumps(report, indent=2) + "\n")


def measured_rows(rows: dict[str, Row], folder: Path, adapter: Adapter, precision: Any) -> Iterator[Row]:
    """Measure and yield each row, those that others are measured against first."""
    for base in dict.fromkeys(row.variant.against for row in rows.values()):
        turns = [row for row in rows.values() if row.variant.against == base and row.variant.name != base]
        yield from measured_against(rows[base], turns, folder, adapter, precision)


def variants(folder: Path) -> list[Variant]:
    """Return the whole U-Net, it without each rewrite, and the pairs that answer another question."""
    main_ = "sd21-base"
    plain = [Variant("whole", main_), Variant("no rewrites", main_, without="*")]
    for recipe in ("float32", "float16", "gpu-mixed"):
        plain.append(Variant(recipe, main_, recipe))
    plain.append(Variant("batch 2", f"{main_}-batch2"))
    off = [Variant(f"without {rule.name}", main_, without=rule.name) for rule in graph_rewrites.load()]
    if not (folder / f"{PEER}.zip").exists():
        return [*plain, *off]
    ours = Variant("SD 1.5, batch 2", "sd15-batch2", "float32", against="SD 1.5, batch 2")
    peer = Variant("SD 1.5, batch 2, litert-torch", PEER, "float32", "peer", ours.name)
    return [*plain, *off, ours, peer]


def write_all(folder: Path, target: Path, only: tuple[str, ...]) -> dict[str, Row]:
    """Write a file for each variant that differs from the whole; rewrites that never fire leave none."""
    chosen = variants(folder)
    if only:
        bases = {v.against for v in chosen if v.name in only}
        chosen = [v for v in chosen if v.name in only or v.name in bases]
    rows: dict[str, Row] = {}
    fired = fired_rules(load_structure(folder / "sd21-base.zip"))
    chosen = [v for v in chosen if not v.name.startswith("without ") or fired.get(v.without or "")]
    with ProcessPoolExecutor(WRITERS) as pool:
        tasks = {pool.submit(write, v, folder, target): v for v in chosen}
        for task in as_completed(tasks):
            row = task.result()
            row.fired = fired.get(row.variant.without or "")
            rows[row.variant.name] = row
            click.echo(f"written: {row.variant.name}, {row.operations} operations", err=True)
    return {v.name: rows[v.name] for v in chosen}


def fired_rules(structure: Structure) -> dict[str, int]:
    """Return how often each rewrite fires in the whole U-Net."""
    model = with_weights(structure, {k: draw(v, i) for i, (k, v) in enumerate(structure.variables.items())})
    rules = rules_of(Variant("whole", ""))
    return {name: entry.fired for name, entry in apply(model.main, rules).entries.items()}


def rules_of(variant: Variant) -> list[Any]:
    """Return the rewrites that a variant leaves on."""
    off = find_recipe(variant.recipe).without
    if variant.without in ("*", "peer"):
        return []
    return [r for r in graph_rewrites.load() if r.name not in off and r.name != variant.without]


def path_of(variant: Variant, folder: Path) -> Path:
    """Return where a variant's file is."""
    return folder / (variant.name.replace(" ", "_").replace(",", "").replace(".", "") + ".tflite")


def write(variant: Variant, folder: Path, target: Path) -> Row:
    """Write a variant's file with random weights."""
    structure = load_structure(folder / f"{variant.structure}.zip")
    drawing = draw_rows if variant.without == "peer" else draw
    drawn = {key: drawing(spec, seed) for seed, (key, spec) in enumerate(structure.variables.items())}
    model = with_weights(structure, drawn)
    recipe = find_recipe(variant.recipe)
    operations = apply(model.main, rules_of(variant)).after
    if variant.without != "peer":
        encode(model.main, recipe, "unet")
    path = path_of(variant, target)
    tflite.write(model, path)
    return Row(variant, operations, path.stat().st_size)


def draw_rows(spec: VariableSpec, seed: int) -> Weights:
    """Return random weights as TFLite stores them, outputs first."""

    def load() -> Array:
        normal = np.random.default_rng(seed).standard_normal(spec.shape, dtype=np.float32)
        return normal / np.float32(np.sqrt(np.prod(spec.shape[1:])) if len(spec.shape) > 1 else 10)

    return Weights(spec.shape, np.dtype(np.float32), load, f"random {spec.path}", sources=(spec.path,))


@main.command("strip")
@click.argument("model", type=click.Path(path_type=Path, exists=True))
@click.argument("output", type=click.Path(path_type=Path))
def strip_weights(model: Path, output: Path) -> None:
    """Write to OUTPUT the structure of a .tflite file: its large weights become variables."""
    read = tflite.read(model)
    graph, variables = read.main, {}
    signature = graph.signatures[0]
    names = tuple(signature.inputs), tuple(signature.outputs)
    graph.inputs, graph.outputs = list(signature.inputs.values()), list(signature.outputs.values())
    for number, tensor in enumerate(graph.tensors()):
        if tensor.data is not None and tensor.size >= LARGE:
            tensor.name, tensor.data = f"variable_{number}", None
            variables[tensor.name] = VariableSpec(tensor.name, tuple(tensor.shape))
            graph.inputs.append(tensor)
    for name, tensor in signature.inputs.items():
        tensor.name = name
    graph.signatures = []
    with tempfile.TemporaryDirectory() as folder:
        tflite.write(read, Path(folder) / "structure.tflite")
        flatbuffer = (Path(folder) / "structure.tflite").read_bytes()
    save_structure(Structure(flatbuffer, *names, variables), output)


def measured_against(
    base: Row, rows: list[Row], folder: Path, adapter: Adapter, precision: Any
) -> Iterator[Row]:
    """Measure `base`, then each of `rows` in turns with it."""
    with opened(base, folder, adapter, "fp32") as exact:
        assert exact is not None, base.failure
        expected = exact.warm()
    with opened(base, folder, adapter, precision) as first:
        assert first is not None, base.failure
        base.psnr, base.ratio = distance(expected, first.warm()), 1.0
        base.seconds = float(np.median([first.time() for _ in range(TURNS)]))
        base.gpu_bytes, base.process_bytes = first.gpu_bytes, first.resident()
        yield base
        for row in rows:
            with opened(row, folder, adapter, precision) as other:
                if other is not None:
                    take_turns(row, first, other, expected)
            path_of(row.variant, folder).unlink()
            yield row


def take_turns(row: Row, first: Loaded, other: Loaded, expected: Array) -> None:
    """Time both in turns; a run of more than a second is not repeated as often."""
    try:
        found = other.warm()
        slow = other.time() > 1
        pairs = [(first.time(), other.time()) for _ in range(2 if slow else TURNS)]
    except (ChildLost, ChildRefused) as problem:
        row.failure = str(problem)
        return
    row.seconds = float(np.median([theirs for _, theirs in pairs]))
    row.ratio = row.seconds / float(np.median([ours for ours, _ in pairs]))
    row.gpu_bytes, row.process_bytes = other.gpu_bytes, other.resident()
    if row.variant.structure == "sd21-base" and first.inputs.keys() == other.inputs.keys():
        row.psnr = distance(expected, found)


class Loaded:
    """A file loaded on the GPU in a child process, with inputs from a seed."""

    def __init__(self, child: Child, path: Path, before: int) -> None:
        self.child, self._before = child, before
        ports = Ports.of(tflite.read(path), path)
        self.inputs = {n: values(n, tuple(p.shape), p.dtype) for n, p in ports.inputs.items()}

    def time(self) -> float:
        """Return the seconds of one run, copies to and fro included."""
        return self.child.ask(Run(self.inputs)).seconds

    def warm(self) -> Array:
        """Run some times; return the output."""
        for _ in range(WARM):
            (output,) = self.child.ask(Run(self.inputs)).outputs.values()
        return np.asarray(output)

    @property
    def gpu_bytes(self) -> int:
        """How much more of the GPU's memory is used than before it was loaded."""
        return max(0, gpu_used() - self._before)

    def resident(self) -> int:
        """Return the child's peak resident bytes."""
        for line in Path(f"/proc/{self.child.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return 0


@contextlib.contextmanager
def opened(row: Row, folder: Path, adapter: Adapter, precision: Any) -> Iterator[Loaded | None]:
    """Load a variant, alone on the GPU or else with the CPU's help; yields None where neither works."""
    path = path_of(row.variant, folder)
    for cpu_too in (False, True):
        before = gpu_used()
        with Child(adapter.environment, Bounds.of(PATIENCE, MEMORY)) as child:
            try:
                signature = Ports.of(tflite.read(path), path).signature
                row.compile_seconds = round(
                    child.ask(LoadOnGpu(path, precision, signature, cpu_too)).seconds, 2
                )
                failure = None
            except (ChildLost, ChildRefused) as problem:
                failure = str(problem)
            told = log.parse(child.log)
            row.on_gpu, row.partitions = told.delegated, told.partitions
            row.rejected = sorted({kind for kind, _ in told.rejected}) or row.rejected
            if failure is None:
                yield Loaded(child, path, before)
                return
            row.failure = " ".join(failure.split())[:300]
    yield None


def distance(expected: Array, found: Array) -> float:
    """Return the PSNR in dB; 0 where something found is not a number."""
    whole = bool(np.isfinite(found).all())
    return round(float(psnr(expected.reshape(found.shape), found)), 1) if whole else 0.0


def values(name: str, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the same numbers for a name whatever the shape they are in."""
    rng = np.random.default_rng(sum(name.encode()))
    return rng.standard_normal(shape).astype(dtype)


def gpu_used() -> int:
    """Return the bytes of GPU memory in use, 0 where nvidia-smi is not there."""
    if not shutil.which("nvidia-smi"):
        return 0
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]) << 20


def gpu_name() -> str | None:
    """Return the GPU's name and its driver's version, None where nvidia-smi is not there."""
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()


def say(row: Row) -> None:
    """Tell a row on stderr."""
    where = f"{row.on_gpu} of {row.operations} operations on the GPU in {row.partitions} parts"
    took = f"{1e3 * row.seconds:.1f} ms, {row.ratio:.3f}, {row.gpu_bytes / 1e9:.2f} GB, {row.psnr} dB"
    click.echo(f"{row.variant.name}: {where}, {took}, {row.failure or ''}", err=True)


if __name__ == "__main__":
    main()
