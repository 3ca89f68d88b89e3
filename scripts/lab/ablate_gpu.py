"""Measure the benefit of each rewrite on a GPU: full-size U-Nets with one rewrite switched off in turn.

    python scripts/full_size_structures.py trace build                 # needs TensorFlow
    python scripts/lab/ablate_gpu.py build -o docs/results/gpu-ablation.json/rewrites

The two halves may run on different machines. Weights are random. All variants are written first, side by
side; then each takes turns with the whole U-Net, in a process of its own. LiteRT runs a file that the
delegate rejects partly on the CPU.

`build/sd15-litert-torch.zip`, if it is there, is the U-Net as litert-torch exports it
(`scripts/lab/export_litert_torch.py`), and is measured against ours of the same model and batch.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

import graph_rewrites
from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.trace import with_weights
from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.graph.rewrite import Target, apply
from msd.graph.rewrite.spelling import DEFAULT, find_spelling
from msd.models.structure import Structure, load_structure
from msd.run.runners import native_log
from msd.run.runners.adapter import find
from msd.run.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.run.runners.messages import LoadOnGpu, RunModel
from msd.run.runners.runner import VulkanAdapter
from scripts.figures import save_figures
from scripts.full_size_structures import drawn
from scripts.lab.measured import machine
from scripts.lab.nvidia_smi import gpu_name, gpu_used

MODEL = "sd21-base"
PEER = "sd15-litert-torch"
WARM, TURNS = 3, 20
TOGETHER = 9
SLOW = 1.0
WRITERS = 12
PATIENCE = 300.0
MEMORY = 64 * 10**9


@dataclass(frozen=True)
class Variant:
    """A U-Net of a structure, converted by a recipe without a rewrite ("*": without all)."""

    name: str
    structure: str
    recipe: str = "gpu-w8"
    without: str | None = None
    against: str = "whole"
    """The variant with which it takes turns."""


@dataclass
class Row:
    """The measurement of a variant: median seconds of a run (and of the other's), bytes, the log's counts."""

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


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--precision", type=click.Choice(["fp16", "fp32"]), default="fp16", show_default=True)
@click.option("--only", multiple=True, help="Measure these variants, and those they are compared with.")
@click.option("--spelling", default=DEFAULT, show_default=True, help="Of our graphs.")
def main(folder: Path, output: Path, precision: Any, only: tuple[str, ...], spelling: str) -> None:
    """Write every variant's row as JSON to OUTPUT."""
    report: dict[str, Any] = {
        "machine": machine(),
        "gpu": gpu_name(),
        "precision": precision,
        "versions": {"ai-edge-litert": version("ai-edge-litert")},
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as temporary:
        rows = write_all(folder, Path(temporary), only, Target(spelling=find_spelling(spelling)))
        for row in measured_rows(rows, Path(temporary), find(), precision):
            say(row)
            report["rows"].append(asdict(row))
            save_figures(output, report, "graph_rewrites", "msd/graph")


def measured_rows(
    rows: dict[str, Row], folder: Path, adapter: VulkanAdapter, precision: Any
) -> Iterator[Row]:
    """Measure and yield each row, those that others are measured against first."""
    for base in dict.fromkeys(row.variant.against for row in rows.values()):
        turns = [row for row in rows.values() if row.variant.against == base and row.variant.name != base]
        yield from measured_against(rows[base], turns, folder, adapter, precision)


def variants(folder: Path) -> list[Variant]:
    """Return the U-Net with all rewrites and without each one, and the pairs for other questions."""
    plain = [Variant("whole", MODEL), Variant("no rewrites", MODEL, without="*")]
    for recipe in ("float32", "float16", "gpu-mixed"):
        plain.append(Variant(recipe, MODEL, recipe))
    plain.append(Variant("batch 2", f"{MODEL}-batch2"))
    off = [Variant(f"without {rule.name}", MODEL, without=rule.name) for rule in graph_rewrites.load()]
    if not (folder / f"{PEER}.zip").exists():
        return [*plain, *off]
    ours = Variant("SD 1.5, batch 2", "sd15-batch2", "float32", against="SD 1.5, batch 2")
    peer = Variant(
        name="SD 1.5, batch 2, litert-torch",
        structure=PEER,
        recipe="float32",
        without="peer",
        against=ours.name,
    )
    return [*plain, *off, ours, peer]


def write_all(folder: Path, out: Path, only: tuple[str, ...], target: Target) -> dict[str, Row]:
    """Write a file for each variant that differs from the U-Net with all rewrites."""
    chosen = variants(folder)
    if only:
        bases = {v.against for v in chosen if v.name in only}
        chosen = [v for v in chosen if v.name in only or v.name in bases]
    rows: dict[str, Row] = {}
    fired = fired_rules(load_structure(folder / f"{MODEL}.zip"))
    chosen = [v for v in chosen if not v.name.startswith("without ") or fired.get(v.without or "")]
    with ProcessPoolExecutor(WRITERS) as pool:
        tasks = {pool.submit(write, v, folder, out, target): v for v in chosen}
        for task in as_completed(tasks):
            row = task.result()
            row.fired = fired.get(row.variant.without or "")
            rows[row.variant.name] = row
            click.echo(f"written: {row.variant.name}, {row.operations} operations", err=True)
    return {v.name: rows[v.name] for v in chosen}


def fired_rules(structure: Structure) -> dict[str, int]:
    """Return how often each rewrite fires in the U-Net with all rewrites."""
    model = with_weights(structure, drawn(structure))
    rules = rules_of(Variant("whole", ""))
    return {name: entry.fired for name, entry in apply(model.main, rules).entries.items()}


def rules_of(variant: Variant) -> list[Any]:
    """Return the rewrites that a variant leaves on."""
    off = find_recipe(variant.recipe).without
    if variant.without in ("*", "peer"):
        return []
    return [r for r in graph_rewrites.load() if r.name not in off and r.name != variant.without]


def path_of(variant: Variant, folder: Path) -> Path:
    """Return the path of a variant's file."""
    return folder / (variant.name.replace(" ", "_").replace(",", "").replace(".", "") + ".tflite")


def write(variant: Variant, folder: Path, out: Path, target: Target) -> Row:
    """Write a variant's file with random weights."""
    structure = load_structure(folder / f"{variant.structure}.zip")
    model = with_weights(structure, drawn(structure, variant.without == "peer"))
    recipe = find_recipe(variant.recipe)
    apply(model.main, rules_of(variant), target)
    if variant.without != "peer":
        encode(model.main, recipe, "unet")
    path = path_of(variant, out)
    tflite.write(model, path)
    return Row(variant, len(model.main.ops), path.stat().st_size)


def measured_against(
    base: Row, rows: list[Row], folder: Path, adapter: VulkanAdapter, precision: Any
) -> Iterator[Row]:
    """Measure `base`, then each of `rows` in turns with it; yields each."""
    used = gpu_used()
    expected = reference(base, folder, adapter)
    with opened(base, folder, adapter, precision) as first:
        assert first is not None, base.failure
        base.psnr, base.ratio = distance(expected, first.warm()), 1.0
        base.seconds = float(np.median([first.time() for _ in range(TURNS)]))
        base.process_bytes, base.gpu_bytes = first.resident(), gpu_used() - used
        yield base
        for at in range(0, len(rows), TOGETHER):
            batch = rows[at : at + TOGETHER]
            for row, other in zip(batch, all_opened(batch, folder, adapter, precision), strict=True):
                if other is not None:
                    take_turns(row, first, other, expected)
                    row.gpu_bytes = other.close()
                yield row


def reference(base: Row, folder: Path, adapter: VulkanAdapter) -> Array | None:
    """Return the fp32 output of the U-Net whose rewrites are switched off; None for others."""
    if base.variant.structure != MODEL:
        return None
    with opened(base, folder, adapter, "fp32") as exact:
        assert exact is not None, base.failure
        return exact.warm()


def all_opened(rows: list[Row], folder: Path, adapter: VulkanAdapter, precision: Any) -> list[Loaded | None]:
    """Compile some files at the same time: half a minute each, on one core; then delete them."""
    with ThreadPoolExecutor(len(rows)) as pool:
        loaded = list(pool.map(lambda row: load(row, folder, adapter, precision), rows))
    for row in rows:
        path_of(row.variant, folder).unlink()
    return loaded


def take_turns(row: Row, first: Loaded, other: Loaded, expected: Array | None) -> None:
    """Time both in turn; a variant that takes more than a second runs once."""
    try:
        seconds, found = other.run()
        if seconds < SLOW:
            found = other.warm()
        else:
            first.warm()
        pairs = [(first.time(), other.time()) for _ in range(TURNS if seconds < SLOW else 1)]
    except (ChildLost, ChildRefused) as problem:
        row.failure = str(problem)
        return
    row.seconds = float(np.median([theirs for _, theirs in pairs]))
    row.ratio = row.seconds / float(np.median([ours for ours, _ in pairs]))
    row.process_bytes = other.resident()
    if row.variant.structure == MODEL and first.inputs.keys() == other.inputs.keys():
        row.psnr = distance(expected, found)


class Loaded:
    """A file loaded on the GPU in a child process, with inputs from a seed."""

    def __init__(self, child: Child, path: Path) -> None:
        self.child = child
        ports = Interface.of(tflite.read(path), path)
        self.inputs = {n: values(n, tuple(p.shape), p.dtype) for n, p in ports.inputs.items()}

    def run(self) -> tuple[float, Array]:
        """Return the seconds of one run, including host–device copies, and the output."""
        done = self.child.ask(RunModel(self.inputs))
        (output,) = done.outputs.values()
        return done.seconds, np.asarray(output)

    def time(self) -> float:
        """Return the seconds of one run."""
        return self.run()[0]

    def warm(self) -> Array:
        """Run some times; return the output."""
        return [self.run()[1] for _ in range(WARM)][-1]

    def close(self) -> int:
        """End the child; return how many bytes of the GPU's memory that frees."""
        before = gpu_used()
        self.child.close()
        return before - gpu_used()

    def resident(self) -> int:
        """Return the child's peak resident bytes."""
        for line in Path(f"/proc/{self.child.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return 0


@contextlib.contextmanager
def opened(row: Row, folder: Path, adapter: VulkanAdapter, precision: Any) -> Iterator[Loaded | None]:
    """Load a variant for a `with` block."""
    loaded = load(row, folder, adapter, precision)
    try:
        yield loaded
    finally:
        if loaded is not None:
            loaded.child.close()


def load(row: Row, folder: Path, adapter: VulkanAdapter, precision: Any) -> Loaded | None:
    """Load a variant, alone on the GPU or else with the CPU's help; returns None if neither works."""
    path = path_of(row.variant, folder)
    signature = Interface.of(tflite.read(path), path).signature
    for cpu_too in (False, True):
        child = Child(adapter.environment, Bounds.of(PATIENCE, MEMORY))
        try:
            done = child.ask(LoadOnGpu(path, precision, signature, cpu_too))
        except (ChildLost, ChildRefused) as problem:
            row.failure = " ".join(str(problem).split())[:300]
            note(row, native_log.parse(child.log))
            child.close()
            continue
        row.compile_seconds = round(done.seconds, 2)
        note(row, native_log.parse(child.log))
        return Loaded(child, path)
    return None


def note(row: Row, told: native_log.NativeLog) -> None:
    """Add the counts in the delegate's log."""
    row.on_gpu, row.partitions = told.delegated, told.partitions
    row.rejected = sorted({kind for kind, _ in told.rejected}) or row.rejected


def distance(expected: Array | None, found: Array) -> float | None:
    """Return the PSNR in dB, 0 where a value is NaN; None without a reference."""
    if expected is None:
        return None
    whole = bool(np.isfinite(found).all())
    return round(float(psnr(expected.reshape(found.shape), found)), 1) if whole else 0.0


def values(name: str, shape: tuple[int, ...], dtype: str) -> Array:
    """Return numbers that depend on the name alone, in the given shape."""
    rng = np.random.default_rng(sum(name.encode()))
    return rng.standard_normal(shape).astype(dtype)


def say(row: Row) -> None:
    """Print a row on stderr."""
    where = f"{row.on_gpu} of {row.operations} operations on the GPU in {row.partitions} parts"
    took = f"{1e3 * row.seconds:.1f} ms, {row.ratio:.3f}, {row.gpu_bytes / 1e9:.2f} GB, {row.psnr} dB"
    click.echo(f"{row.variant.name}: {where}, {took}, {row.failure or ''}", err=True)


if __name__ == "__main__":
    main()
