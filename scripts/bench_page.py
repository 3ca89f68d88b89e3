"""Open the networks of an exported page in Chromium, and measure that: time, buffers, the browser's memory.

    python scripts/make_random_bundle.py build/structures sd21-base build/sd21-random --recipe gpu-w8
    msd export-web build/sd21-random -o build/sd21-site --no-expected
    PYTHONPATH=. python scripts/bench_page.py build/sd21-site --run text_encoder -o page-swiftshader.json

Chromium runs with WebGPU on SwiftShader, whose memory is the browser's. --run also runs a network once. The
page's runtime should be msd.
"""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from msd.runners.machine import this_machine
from tests.web.browser import launched
from tests.web.server import served

ROLES = "text_encoder", "unet", "vae_decoder"
OPEN = """
async (role) => {
  const { findGpu, openDevice } = await import('/msd/gpu.js');
  const { openProgram } = await import('/msd/program.js');
  const read = async (file) => (await fetch(`/model/${file.file}`)).arrayBuffer();
  const web = await (await fetch('/model/web-manifest.json')).json();
  const gpu = await findGpu(web);
  const { program, shards } = web.networks.find((network) => network.role === role).programs[gpu.precision];
  const description = JSON.parse(new TextDecoder().decode(await read(program)));
  const device = await openDevice(gpu);
  const begin = performance.now();
  const opened = await openProgram(device, description, (index) => read(shards[index]));
  const seconds = (performance.now() - begin) / 1000;
  Object.assign(globalThis, { opened, description });
  const { memory, dispatches } = opened.facts;
  return { gpu: gpu.name, precision: gpu.precision, open_seconds: seconds, gpu_bytes: memory, dispatches };
}
"""
RUN = """
async () => {
  const inputs = Object.entries(globalThis.description.inputs).map(([name, port]) => {
    const length = port.shape.reduce((product, n) => product * n, 1);
    const kind = port.dtype === 'int32' ? Int32Array : Float32Array;
    return [name, kind.from({ length }, (_, i) => (port.dtype === 'int32' ? i % 1000 : Math.sin(i)))];
  });
  const begin = performance.now();
  const outputs = Object.values(await globalThis.opened.run(Object.fromEntries(inputs)));
  const finite = outputs.every((values) => values.every(Number.isFinite));
  return { run_seconds: (performance.now() - begin) / 1000, finite };
}
"""


@click.command()
@click.argument("site", type=click.Path(exists=True, path_type=Path, file_okay=False))
@click.option("--run", "runs", multiple=True, type=click.Choice(ROLES), help="Also run this network once.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def main(site: Path, runs: tuple[str, ...], output: Path) -> None:
    """Measure the networks of SITE in Chromium."""
    with served(site) as address:
        networks = {role: measure(address, role, role in runs) for role in ROLES}
    machine = this_machine()
    result = {
        "command": "scripts/bench_page.py",
        "machine": f"{machine.processor}, {machine.cores} cores",
        "versions": {"msd": version("msd"), "python": platform.python_version()},
        "networks": networks,
    }
    output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def measure(address: str, role: str, runs: bool) -> dict[str, Any]:
    """Return what opening a network in a new browser took, and running it once."""
    with launched() as browser:
        page = browser.new_page()
        page.goto(f"{address}/index.html")
        before = resident()
        found: dict[str, Any] = {"browser": browser.version, **page.evaluate(OPEN, role)}
        found["browser_bytes"] = resident() - before
        found |= page.evaluate(RUN) if runs else {}
    click.echo(f"{role}: {json.dumps(found)}")
    return found


def resident() -> int:
    """Return the resident bytes of all of Chromium's processes; pages that they share count for each."""
    lines = subprocess.run(["ps", "-eo", "rss,comm"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=1) for line in lines.splitlines()[1:]]
    return 1024 * sum(int(size) for size, name in rows if name.startswith("chrom"))


if __name__ == "__main__":
    main()
