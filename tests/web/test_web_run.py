"""Programs in Chromium: three networks against LiteRT's CPU, and what a user reads when they cannot run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from msd.export.web.expected import expected_inputs
from msd.parity import psnr
from tests.web.browser import launched
from tests.web.networks import ROLES, NetworkSite, tiny_bundle, write_site
from tests.web.networks import facts as facts_of
from tests.web.server import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

OPEN = """
const { findGpu, openDevice } = await import('/msd/gpu.js');
const { openProgram } = await import('/msd/program.js');
const fetched = async (file) => (await fetch(`/model/${file}`)).arrayBuffer();
const described = async (network) => {
  const program = network.programs.fp32.program.file;
  return JSON.parse(new TextDecoder().decode(await fetched(program)));
};
const shardOf = (network) => (index) => fetched(network.programs.fp32.shards[index].file);
const tensors = (inputs) => Object.fromEntries(Object.entries(inputs).map(
  ([name, [kind, values]]) => [name, kind === 'int32' ? Int32Array.from(values) : Float32Array.from(values)]));
const caught = async (action) => {
  try { await action(); } catch (error) { return [error.name, error.code, error.message]; }
  return null;
};
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> NetworkSite:
    return write_site(tmp_path_factory.mktemp("site"), tiny_bundle(tmp_path_factory))


@pytest.fixture(scope="module")
def page(site: NetworkSite) -> Iterator[Page]:
    with launched() as browser, served(site.folder) as address:
        page = browser.new_page()
        page.goto(f"{address}/index.html")
        yield page


def evaluate(page: Page, script: str, argument: Any = None) -> Any:
    """Return what the body of an async function returns, in a page that has imported the library."""
    return page.evaluate(f"async (given) => {{ {OPEN} {script} }}", argument)


def inputs(site: NetworkSite, role: str) -> dict[str, Any]:
    """Return the inputs that the expected outputs belong to, as a page takes them: the type and the numbers."""
    expected = site.networks[role].expected
    arrays = expected_inputs(site.bundle.component(role).inputs, expected.seed, expected.tokens)
    return {name: [array.dtype.name, array.reshape(-1).tolist()] for name, array in arrays.items()}


def wanted(site: NetworkSite, role: str, name: str) -> np.ndarray:
    """Return an output of LiteRT's CPU."""
    file = site.networks[role].expected.outputs[name].file
    return np.fromfile(site.folder / "model" / file, "<f4")


RUN = """
const device = await openDevice(await findGpu());
const network = await openProgram(device, await described(given.network), shardOf(given.network));
const first = await network.run(tensors(given.inputs));
const [again, twice] = await Promise.all([network.run(tensors(given.inputs)), network.run(tensors(given.inputs))]);
const same = Object.keys(first).every((name) =>
  first[name].every((value, i) => value === again[name][i] && value === twice[name][i]));
const times = await network.time(tensors(given.inputs), 2);
network.close();
device.destroy();
const outputs = Object.fromEntries(Object.entries(first).map(([name, values]) => [name, [...values]]));
return { outputs, same, times, facts: network.facts };
"""


@pytest.mark.parametrize("role", ROLES)
def test_a_network_computes_what_the_cpu_computes(role: str, site: NetworkSite, page: Page) -> None:
    given = {"network": facts_of(site)[role], "inputs": inputs(site, role)}
    result = evaluate(page, RUN, given)
    expected = site.networks[role].expected.outputs
    assert set(result["outputs"]) == set(expected)
    for name, values in result["outputs"].items():
        distance = psnr(wanted(site, role, name), np.asarray(values, np.float32))
        assert distance >= 100, f"{name}: {distance:.1f} dB"
    assert result["same"], "a run leaves nothing behind that the next one reads"
    assert len(result["times"]) == 2 and min(result["times"]) > 0
    program = site.networks[role].programs["fp32"]
    assert result["facts"]["precision"] == "fp32"
    assert result["facts"]["memory"] == program.memory


def test_the_gpu_is_described(page: Page) -> None:
    gpu = evaluate(page, "return findGpu({ networks: [{ programs: { fp32: { limits: given } } }] });", {})
    assert gpu["problems"] == []
    assert gpu["precision"] == "fp32", "SwiftShader has no shader-f16"
    assert gpu["limits"]["maxBufferSize"] >= 256 << 20
    assert gpu["name"]


def test_a_model_that_needs_more_than_the_gpu_has(page: Page) -> None:
    script = """
    const gpu = await findGpu({ networks: [{ programs: { fp32: { limits: { maxBufferSize: 2 ** 50 } } } }] });
    return [gpu.problems, await caught(() => openDevice(gpu))];
    """
    problems, (_, code, message) = evaluate(page, script)
    assert problems == [message]
    assert code == "too-small" and "needs maxBufferSize of 1125899906842624; this GPU has" in message
