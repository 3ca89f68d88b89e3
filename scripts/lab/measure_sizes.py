"""Measure what TFLite's runtimes do with a file whose signatures, one for each image size, share weights.

    msd-convert -o build/two --size 128x128 --size 128x192
    msd-convert -o build/one-128x128 --size 128x128
    msd-convert -o build/one-128x192 --size 128x192
    python -m scripts.lab.measure_sizes build/two build/one -o docs/results/sizes.json/demo

Each row is a process of its own that loads a file and runs one signature on seeded inputs. "equal" compares
its output with that of the file for this size alone, on the same library.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from msd.bundle import Bundle, open_bundle
from msd.run.runners import adapter, native_log
from msd.run.runners.peak_memory import peak_rss
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.verbosity import log_partitions
from scripts.figures import save_figures
from scripts.lab.measured import machine

LIBRARIES = {
    "LiteRT Interpreter, CPU": "ai_edge_litert",
    "tflite-runtime Interpreter, CPU": "tflite_runtime",
    "LiteRT CompiledModel, CPU": "compiled-cpu",
    "LiteRT CompiledModel, GPU delegate": "compiled-gpu",
    "LiteRT CompiledModel, GPU delegate, constant tensor sharing": "compiled-gpu-shared",
}


@click.command()
@click.argument("both", type=click.Path(path_type=Path, exists=True))
@click.argument("stem")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--component", "components", multiple=True, default=["unet", "vae_decoder"], show_default=True)
@click.option(
    "--library", "names", multiple=True, type=click.Choice(list(LIBRARIES)), default=list(LIBRARIES)
)
def main(both: Path, stem: str, output: Path, components: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Measure the bundle BOTH of several sizes, and the bundles STEM-WIDTHxHEIGHT of one size each."""
    bundle = open_bundle(both)
    singles = {str(s): open_bundle(f"{stem}-{s}") for s in bundle.manifest.configuration.sizes}
    rows = [
        row
        for component in components
        for name in names
        for size, single in singles.items()
        for row in measure(component, name, size, bundle, single)
    ]
    report = {
        "command": "python -m scripts.lab.measure_sizes " + shlex.join(sys.argv[1:]),
        "machine": machine(),
        "versions": {name: version(name) for name in ("ai-edge-litert", "tflite-runtime")},
        "adapter": adapter.find().name,
        "source": bundle.manifest.source.name,
        "bytes": {
            name: {
                "both": bundle.component(name).bytes,
                **{s: b.component(name).bytes for s, b in singles.items()},
            }
            for name in components
        },
        "rows": rows,
    }
    save_figures(output, report, "msd/conversion/sizes")


def measure(component: str, name: str, size: str, both: Bundle, single: Bundle) -> list[dict[str, Any]]:
    """Return a row for the file of one size alone, and one for the same signature of the file of all."""
    rows, outputs = [], []
    for bundle, key in ((single, "serving_default"), (both, size)):
        with tempfile.TemporaryDirectory() as folder:
            result = run(bundle.path(component), single.path(component), LIBRARIES[name], key, Path(folder))
            if (Path(folder) / "output.npy").exists():
                outputs.append(np.load(Path(folder) / "output.npy"))
        file = "all sizes" if bundle is both else "one size"
        rows.append({"component": component, "library": name, "size": size, "file": file, **result})
        click.echo(json.dumps(rows[-1]), err=True)
    if len(outputs) == 2:
        rows[-1]["equal"] = bool(np.array_equal(*outputs))
    return rows


def run(path: Path, single: Path, library: str, key: str, folder: Path) -> dict[str, Any]:
    """Return the measurements of a fresh process, or the exit status of one that failed."""
    environment = {**os.environ, **(adapter.find().environment if "gpu" in library else {})}
    command = [
        sys.executable,
        "-m",
        "scripts.lab.measure_sizes",
        "--probe",
        path,
        single,
        library,
        key,
        folder,
    ]
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"exit": done.returncode}
    facts = native_log.parse(done.stderr)
    placed = [list(each) for each in facts.replaced or facts.on_cpu]
    return {**json.loads((folder / "facts.json").read_text()), "delegated": placed}


def probe(path: Path, single: Path, library: str, key: str, folder: Path) -> None:
    """Load `path`, run its signature `key` twice on the inputs of `single`, and write the measurements."""
    from msd.graph import tflite
    from msd.graph.ir.interface import Interface

    inputs = random_inputs(Interface.of(tflite.read(single), single).inputs.values())
    before, start = peak_rss(), time.perf_counter()
    if library.startswith("compiled"):
        log_partitions()
        loaded = compiled(path, library, key)
    else:
        loaded = interpreter(path, library, key)
    seconds, memory = time.perf_counter() - start, peak_rss() - before
    (output,) = loaded(inputs).values()
    facts = {"load_seconds": round(seconds, 2), "load_bytes": memory, "run_bytes": peak_rss() - before}
    np.save(folder / "output.npy", output)
    (folder / "facts.json").write_text(json.dumps(facts))
    os._exit(0)  # the drivers' clean-up may crash


def interpreter(path: Path, library: str, key: str) -> Any:
    """Return the runner of a signature in the interpreter of a package."""
    import importlib

    loaded = importlib.import_module(f"{library}.interpreter").Interpreter(str(path), num_threads=2)
    loaded.allocate_tensors()
    runner = loaded.get_signature_runner(key)
    return lambda inputs: runner(**inputs)


def compiled(path: Path, library: str, key: str) -> Any:
    """Return the runner of a signature in LiteRT's compiled model."""
    from ai_edge_litert.compiled_model import CpuOptions, GpuOptions, HardwareAccelerator, Options

    from msd.run.runners.worker import Compiled

    gpu = GpuOptions(enforce_f32=True, constant_tensor_sharing=library.endswith("shared"))
    cpu = CpuOptions(num_threads=2)
    on_cpu = library == "compiled-cpu"
    accelerator = HardwareAccelerator.CPU if on_cpu else HardwareAccelerator.GPU
    options = Options(accelerator, cpu_options=cpu) if on_cpu else Options(accelerator, gpu_options=gpu)
    model = Compiled(path, options, key)
    assert model.buffers, "working memory is part of loading"
    return model.run


if __name__ == "__main__":
    if sys.argv[1] == "--probe":
        file, alone, kind, signature, target = sys.argv[2:]
        probe(Path(file), Path(alone), kind, signature, Path(target))
    main()
