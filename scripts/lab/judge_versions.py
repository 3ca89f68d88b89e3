"""Ask releases of LiteRT whether their GPU delegate takes networks of full size whole, with random weights.

    python -m scripts.lab.judge_versions -o docs/results/full-size-by-version.json \\
        --litert 2.1.2 --litert 2.3.0 sd15/text_encoder sd15/unet xl/sdxl-base/unet:gpu-w4-unet

A network is a file of configs/models/ without its ending, a component, and a recipe (gpu-w8 where none is
named); its structure ships with msd. A release is a version or an environment's folder. Each file is compiled
for the GPU alone, and never run. A delegate says which operations it takes before it compiles a shader, so
that a process which is stopped at its bound of memory or time has answered by then. OUTPUT is written after
each answer, and keeps other networks that it has.
"""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Any

import click

from msd.errors import DelegateFailed
from msd.graph import tflite
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL
from msd.models.networks import networks, read_configs, size_of
from msd.models.structure_cache import structure_of
from msd.run.runners.adapter import find
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.child import ChildLost
from msd.run.runners.native_log import NativeLog, parse
from msd.run.runners.runner import Conditions
from msd.run.runners.wheels.environment import LiteRt, find_litert
from scripts.figures import made, read_figures, save_figures
from scripts.make_random_bundle import write

MODELS = Path("configs/models")
RECIPE = "gpu-w8"
COMPILED, ACCEPTED, REFUSED, LOST = "compiled whole", "accepted whole", "refused", "lost"


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--litert", "releases", multiple=True, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--memory", default=8.0, show_default=True, help="Gigabytes that a process may take.")
@click.option("--seconds", default=300.0, show_default=True, help="That it may take to compile.")
def main(
    names: tuple[str, ...], releases: tuple[str, ...], output: Path, memory: float, seconds: float
) -> None:
    """Write to OUTPUT what every release says of each of NAMES."""
    every, adapter = [find_litert(release) for release in releases], find()
    conditions = Conditions(precision="fp32", seconds=seconds, memory=int(memory * 1e9), adapter=adapter)
    before: dict[str, Any] = read_figures(output) if output.exists() else {}
    asked = before.get("networks", {})
    commands = [*before.get("commands", []), made()["command"]]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path, recipe = write_network(name, Path(folder))
            operations = len(tflite.read(path).main.ops)
            said = dict[str, Any]()
            row = {"recipe": recipe, "operations": operations, "bytes": path.stat().st_size}
            asked[name.partition(":")[0]] = row | {"releases": said}
            for litert in every:
                said[litert.version] = ask(path, operations, litert, conditions)
                click.echo(f"{name} {litert.version}: {said[litert.version]}", err=True)
                figures = {"commands": commands, "adapter": adapter.name, "networks": asked}
                save_figures(output, figures, "graph_rewrites", "msd/compress/encoding", "msd/graph")


def write_network(name: str, folder: Path) -> tuple[Path, str]:
    """Write the network called `name` with random weights to `folder`; returns its path and its recipe."""
    network, _, recipe = name.partition(":")
    model, _, component = network.rpartition("/")
    family = STABLE_DIFFUSION_XL if model.startswith("xl/") else STABLE_DIFFUSION
    configs = read_configs(family, tomllib.loads((MODELS / f"{model}.toml").read_text("utf-8")))
    found = networks(family, configs, size_of(family, configs))[component]
    write(structure_of(found), folder, component, recipe or RECIPE)
    return folder / f"{component}.tflite", recipe or RECIPE


def ask(path: Path, operations: int, litert: LiteRt, conditions: Conditions) -> dict[str, Any]:
    """Return what a release's delegate says of a file with so many `operations`, in JSON's terms."""
    try:
        with GpuProcess(path, conditions, litert=litert) as session:
            return {**told(session.log, operations), "seconds": round(session.load_seconds, 1)}
    except DelegateFailed as problem:
        return told(getattr(problem.__cause__, "log", ""), operations, problem.__cause__)


def told(log: str, operations: int, ending: BaseException | None = None) -> dict[str, Any]:
    """Return the verdict and the facts of a native log; `ending` is why the process did not finish."""
    facts = parse(log)
    return {
        "verdict": verdict(facts, operations, ending),
        "replaced": facts.replaced,
        "kernels": facts.initialised,
        **({"rejected": facts.rejected} if facts.rejected else {}),
        **({"problems": facts.problems[:3]} if facts.problems else {}),
        **({"ending": str(ending)} if ending else {}),
    }


def verdict(facts: NativeLog, operations: int, ending: BaseException | None) -> str:
    """Return one of four words; whole is one kernel of all operations, and nothing rejected or failed.

    Releases up to 2.1.6 do not log how many a kernel has. As they compile for the GPU alone, a single kernel
    without rejections has all.
    """
    stopped = isinstance(ending, ChildLost) and "was stopped" in str(ending)
    if facts.rejected or facts.problems or facts.restored or (ending and not isinstance(ending, ChildLost)):
        return REFUSED
    all_taken = facts.replaced in ((), ((operations, operations, 1),))
    if facts.initialised != 1 or not all_taken or (ending and not stopped):
        return LOST
    return ACCEPTED if stopped else COMPILED


if __name__ == "__main__":
    main()
