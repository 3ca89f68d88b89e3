"""Count the dispatches of a full-size network's program, and the bytes that they read and write, by kind.

    python -m scripts.judge_full_size trace build sd21-base            # needs TensorFlow
    python -m scripts.lab.count_dispatches build sd21-base unet --gpu h100 --without winograd

Needs no GPU: weights stay undrawn. `--gpu` is phone, as `msd kernels --ablation` counts for, or h100, as
WebGPU shows one over Vulkan.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click

from msd.gpu.compile import compile_model
from msd.gpu.device import BALANCE, MANY
from msd.gpu.gpu import Gpu
from msd.gpu.program import Program
from msd.gpu.switches import Switches
from msd.graph.prediction.device import find_device
from msd.measure.profiling.ablation import gpu_of
from msd.models.structure import load_structure
from scripts.figures import save_figures
from scripts.judge_full_size import random_model

H100 = Gpu(
    half=True,
    subgroups=True,
    invocations=1024,
    workgroup_bytes=49152,
    storage_buffers=524288,
    buffer_bytes=4292870144,
    binding_bytes=2147483644,
    enough_workgroups=MANY,
    balance=BALANCE,
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("model")
@click.argument("component")
@click.option("--gpu", "name", type=click.Choice(["phone", "h100"]), default="phone", show_default=True)
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option("--without", multiple=True, help="A switch of msd.gpu.switches that is off.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write JSON.")
def main(
    folder: Path,
    model: str,
    component: str,
    name: str,
    recipe: str,
    without: tuple[str, ...],
    output: Path | None,
) -> None:
    """Print a table by kind of dispatch."""
    random, _ = random_model(load_structure(folder / model / f"{component}.zip"), component, recipe)
    gpu = H100 if name == "h100" else gpu_of(find_device("adreno-740"))
    program = compile_model(random, gpu, Switches(**dict.fromkeys(without, False)))
    rows = by_kind(program)
    for kind, (count, size) in rows.items():
        click.echo(f"| {kind} | {count} | {size / 1e6:.0f} |")
    total = sum(size for _, size in rows.values())
    click.echo(f"| all | {len(program.steps)} | {total / 1e6:.0f} |")
    click.echo(f"tensors {program.tensor_bytes / 1e6:.1f} MB, weights {program.weight_bytes / 1e6:.1f} MB")
    if output:
        save_figures(output, {"gpu": name, "without": without, "kinds": rows}, "msd/gpu", indent=1)


def by_kind(program: Program) -> dict[str, tuple[int, int]]:
    """Return the dispatches of each kind, and their bytes; kinds are kernels without their tiles."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for step in program.steps:
        kind = kind_of(program.pipelines[step.pipeline].name)
        count, size = found[kind]
        found[kind] = count + 1, size + step.bytes
    return dict(sorted(found.items(), key=lambda pair: -pair[1][1]))


def kind_of(kernel: str) -> str:
    """Return a kernel's name without sizes."""
    words = [word.rstrip(",") for word in kernel.split()]
    kept = [word for word in words if not any(c.isdigit() for c in word) and word not in ("by", "x", "short")]
    return " ".join(kept).replace(" unroll", "")


if __name__ == "__main__":
    main()
