"""Measure exported pages in Chromium, their two runtimes in turn: each network, and whole pictures.

    python -m scripts.make_random_bundle sd21-base build/sd21-random --recipe gpu-w8
    msd export-web build/sd21-random -o build/sd21-msd
    msd export-web build/sd21-random -o build/sd21-litert --runtime litert
    python -m scripts.lab.bench_page sd21-base --msd build/sd21-msd --litert build/sd21-litert -o page.json

Chromium computes on SwiftShader, or with `--adapter vulkan` on a GPU, where nvidia-smi tells the memory. Runs
of the two runtimes take turns, each from inputs on the GPU until it has finished. Nothing but Chromium is
needed, so that the script runs where Playwright does not; the variable CHROMIUM may name it. What cannot be
measured is stored in the browser's words. Rows are added to those that OUTPUT has.

Chromium on Linux offers shader-f16 on NVIDIA's GPUs only with
`--flag=--enable-dawn-features=vulkan_enable_f16_on_nvidia`.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from PIL import Image

import msd as package
from msd.export.web.server import HEADERS, open_server
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.run.runners.machine import this_machine
from msd.run.runners.memory_sampler import descendants, resident
from scripts.figures import read_figures, save_figures
from scripts.lab.devtools import ADAPTERS, BrowserFailed, BrowserPage, Chromium
from scripts.lab.nvidia_smi import SampledGpu, gpu_name
from tests.web.server import running, served

ROLES = "text_encoder", "unet", "vae_decoder"
SECOND_ENCODER = "text_encoder_2"
"""Stable Diffusion XL has one; `--role` names it."""
FUNCTIONS = Path(__file__).with_suffix(".js")
PROMPT = "two red circles on the left over a striped blue background"
SEED = 7

TYPE = """((field, value) => {
  const element = document.querySelector(field);
  element.value = value;
  for (const kind of ['input', 'change']) element.dispatchEvent(new Event(kind, { bubbles: true }));
})"""

ISOLATED = {name: value for name, value in HEADERS.items() if name.startswith("Cross-Origin")}
"""The headers of the page's own server without its policy, so that clocks are as fine as there."""

Row = dict[str, Any]
Launch = Callable[[], Chromium]


@click.command()
@click.argument("name")
@click.option("--msd", type=click.Path(exists=True, path_type=Path, file_okay=False), help="msd's page.")
@click.option("--litert", type=click.Path(exists=True, path_type=Path, file_okay=False), help="LiteRT.js's.")
@click.option("--adapter", type=click.Choice(tuple(ADAPTERS)), default="swiftshader", show_default=True)
@click.option("--flag", "flags", multiple=True, help="A further flag of Chromium.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice((*ROLES, SECOND_ENCODER)),
    default=ROLES,
    show_default=True,
)
@click.option(
    "--repeats", type=click.IntRange(0, 1000), default=20, show_default=True, help="After the first run."
)
@click.option("--run/--no-run", "runs", default=True, help="Run the networks, or only open them.")
@click.option("--steps", type=int, default=0, show_default=True, help="Of a picture; 0: generate none.")
@click.option("--expect", type=click.Path(exists=True, path_type=Path), help="msd generate's picture.")
@click.option("--screenshot", type=click.Path(path_type=Path), help="Write a screenshot of msd's page here.")
@click.option("--patience", default=300.0, show_default=True, help="Seconds that anything may take.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(
    name: str,
    msd: Path | None,
    litert: Path | None,
    adapter: str,
    flags: tuple[str, ...],
    roles: tuple[str, ...],
    repeats: int,
    runs: bool,
    steps: int,
    expect: Path | None,
    screenshot: Path | None,
    patience: float,
    output: Path,
) -> None:
    """Measure the pages of a model, which the result calls NAME."""
    sites = {runtime: site for runtime, site in {"msd": msd, "litert": litert}.items() if site}
    launch = partial(Chromium, adapter, patience, flags)
    result = begun(output)
    model: Row = result["models"].setdefault(name, {"networks": {}, "pictures": {}})
    with sites_served(sites) as address:
        for role in roles:
            found = measure_network(launch, address, role, tuple(sites), repeats if runs else None)
            result |= found.pop("where", {})
            model["networks"][role] = found
            save(result, output, f"{name} {role}", found)
    for runtime, site in sites.items() if steps else ():
        shot = screenshot if runtime == "msd" else None
        model["pictures"][runtime] = measure_picture(launch, site, steps, expect, shot)
        save(result, output, f"{name} picture {runtime}", model["pictures"][runtime])


def begun(output: Path) -> Row:
    """Return what OUTPUT has, with this command and machine; folders and files keep their names alone."""
    result: Row = read_figures(output) or {"commands": [], "models": {}}
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    result["commands"].append("python -m scripts.lab.bench_page " + " ".join(words))
    return result | {"machine": processor(), "gpu": gpu_name(), "msd": package.__version__}


def processor() -> str:
    """Return the processor and its cores."""
    found = this_machine()
    return f"{found.processor}, {found.cores} cores"


def save(result: Row, output: Path, what: str, found: Row) -> None:
    """Write what there is, and print what is new."""
    save_figures(output, result, "msd/export/web", "msd/gpu", indent=1)
    click.echo(f"{what}: {json.dumps(found)}")


@contextmanager
def sites_served(sites: dict[str, Path]) -> Iterator[str]:
    """Yield the address of a server that has the site of each runtime in a folder of its name."""
    with tempfile.TemporaryDirectory() as folder:
        for runtime, site in sites.items():
            (Path(folder) / runtime).symlink_to(site.resolve())
        with served(Path(folder), ISOLATED) as address:
            yield address


def measure_network(
    launch: Launch, address: str, role: str, runtimes: tuple[str, ...], repeats: int | None
) -> Row:
    """Return what opening a network with each runtime took, and running it, in a new browser.

    It runs once, and `repeats` times in turn; None: not at all.
    """
    row: Row = {}
    memory = SampledGpu()
    before = memory.level()
    try:
        with launch() as browser:
            page = browser.open(f"{address}/{runtimes[0]}/index.html")
            page.evaluate(FUNCTIONS.read_text("utf-8"))
            row["where"] = {"browser": browser.version(), "adapter": page.call("bench.gpu", runtimes[0])}
            page.call("bench.warm", runtimes[0])
            idle = memory.level()
            if before is not None and idle is not None:
                row["browser_gpu_bytes"] = idle - before
            for runtime in runtimes:
                row[runtime] = opened(browser, page, memory, runtime, role, repeats is not None)
            able = [runtime for runtime in runtimes if "failure" not in row[runtime]]
            if repeats and able:
                row |= in_turn(page, able, repeats)
    except BrowserFailed as failure:
        row["failure"] = str(failure)
    finally:
        memory.close()
    return row


def opened(
    browser: Chromium, page: BrowserPage, memory: SampledGpu, runtime: str, role: str, runs: bool
) -> Row:
    """Return what opening a network took, and its first run; the GPU's bytes are those it added."""
    row: Row = {}
    level, host = memory.level(), host_bytes(browser)
    try:
        row |= page.call("bench.open", runtime, role)
        row.pop("log", None)
        row |= grown("opening_gpu_bytes", level, memory.peak()) | {"host_bytes": host_bytes(browser) - host}
        row |= grown("open_gpu_bytes", level, memory.level())
        if runs:
            row |= page.call("bench.run", runtime)
            row |= grown("peak_gpu_bytes", level, memory.peak())
    except BrowserFailed as failure:
        row["failure"] = str(failure)
        row["console"] = page.said()[-5:]
        row |= grown("opening_gpu_bytes", level, memory.peak())
        row["host_bytes"] = host_bytes(browser) - host
    return row


def grown(name: str, before: int | None, after: int | None) -> Row:
    """Return the difference under a name; nothing where it is unknown."""
    return {} if before is None or after is None else {name: after - before}


def host_bytes(browser: Chromium) -> int:
    """Return the resident bytes of all of Chromium's processes; pages that they share count for each."""
    return sum(map(resident, (browser.pid, *descendants(browser.pid))))


def in_turn(page: BrowserPage, runtimes: list[str], repeats: int) -> Row:
    """Return the times of runs in turn, their medians, and msd's in parts of LiteRT.js's."""
    page.call("bench.turns", runtimes, 2)
    times: dict[str, list[float]] = page.call("bench.turns", runtimes, repeats)
    medians = {runtime: median(runs) for runtime, runs in times.items()}
    row: Row = {"runs_ms": {k: [round(t, 2) for t in v] for k, v in times.items()}, "median_ms": medians}
    if len(medians) == 2:
        row["msd_in_parts_of_litert"] = round(medians["msd"] / medians["litert"], 3)
    return row


def measure_picture(
    launch: Launch, site: Path, steps: int, expect: Path | None, screenshot: Path | None
) -> Row:
    """Return what fetching took, and three pictures of one prompt, by the page's own worker and server."""
    row: Row = {}
    memory = SampledGpu()
    before = memory.level()
    try:
        server = open_server(site, 0)
        with running(server), launch() as browser:
            page = browser.open(server.address)
            page.evaluate(FUNCTIONS.read_text("utf-8"))
            row["fetch_ms"] = page.call("bench.ask", "fetch", {})["milliseconds"]
            wishes = {"prompt": PROMPT, "negativePrompt": "", "seed": SEED, "steps": steps, "previewEvery": 0}
            row["pictures"] = [picture(page, wishes, expect) for _ in range(3)]
            row |= grown("peak_gpu_bytes", before, memory.peak())
            if screenshot:
                row["shown"] = shown(page, browser, server.address, steps, screenshot)
    except BrowserFailed as failure:
        row["failure"] = str(failure)
    finally:
        memory.close()
    return row


def picture(page: BrowserPage, wishes: Row, expect: Path | None) -> Row:
    """Return the milliseconds of a picture and its parts, and its distance from what was expected."""
    made = page.call("bench.picture", wishes)
    stages = [(part["stage"], part.get("network"), round(part["at"], 1)) for part in made["progress"]]
    seconds = [part["seconds"] for part in made["progress"] if part["stage"] == "denoising"]
    row: Row = {"milliseconds": made["milliseconds"], "stages": stages}
    row |= {"step_ms": 1000 * median(seconds), "metadata": made["metadata"]}
    if expect:
        found, wanted = (pixels(each) for each in (io.BytesIO(base64.b64decode(made["png"])), expect))
        row["psnr_db"] = round(float(psnr(wanted, found)), 2) if (wanted != found).any() else None
    return row


def pixels(file: Path | io.BytesIO) -> Array:
    """Return the pixels of a picture as floats."""
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"), float)


def shown(page: BrowserPage, browser: Chromium, address: str, steps: int, screenshot: Path) -> Row:
    """Type the prompt into the page, press Generate, and write a screenshot; return the caption."""
    visit = browser.open(address)
    visit.wait("!document.querySelector('#generate').disabled", 60)
    fields = {"#prompt": PROMPT, "#seed": str(SEED), "#steps": str(steps)}
    for field, value in fields.items():
        visit.call(TYPE, field, value)
    visit.evaluate("document.querySelector('#generate').click()")
    visit.wait("!document.querySelector('#picture').hidden", 120)
    screenshot.write_bytes(visit.screenshot())
    return {"caption": visit.evaluate("document.querySelector('#caption').textContent")}


if __name__ == "__main__":
    main()
