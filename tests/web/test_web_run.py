"""Programs in Chromium: three networks against LiteRT's CPU, and what a user reads when they cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from msd.graph.parity import psnr
from tests.web.browser import PATIENCE, launched
from tests.web.networks import ROLES, NetworkSite, cpu_inputs, cpu_output, tiny_bundle, write_site
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
const tensors = (inputs) => Object.fromEntries(Object.entries(inputs).map(([name, [kind, values]]) =>
  [name, kind === 'int32' ? Int32Array.from(values) : Float32Array.from(values)]));
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
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/index.html")
        yield page


def evaluate(page: Page, script: str, argument: Any = None) -> Any:
    """Return what the body of an async function returns, in a page that has imported the library."""
    return page.evaluate(f"async (given) => {{ {OPEN} {script} }}", argument)


RUN = """
const device = await openDevice(await findGpu());
const network = await openProgram(device, await described(given.network), shardOf(given.network));
const inputs = tensors(given.inputs);
const first = await network.run(inputs);
const [again, twice] = await Promise.all([network.run(inputs), network.run(inputs)]);
const same = Object.keys(first).every((name) =>
  first[name].every((value, i) => value === again[name][i] && value === twice[name][i]));
const times = await network.time(inputs, 2);
network.close();
device.destroy();
const outputs = Object.fromEntries(Object.entries(first).map(([name, values]) => [name, [...values]]));
return { outputs, same, times, facts: network.facts };
"""


@pytest.mark.parametrize("role", ROLES)
def test_a_network_computes_what_the_cpu_computes(role: str, site: NetworkSite, page: Page) -> None:
    given = {"network": facts_of(site)[role], "inputs": cpu_inputs(site, role)}
    result = evaluate(page, RUN, given)
    expected = site.networks[role].expected.outputs
    assert set(result["outputs"]) == set(expected)
    for name, values in result["outputs"].items():
        distance = psnr(cpu_output(site, role, name), np.asarray(values, np.float32))
        assert distance >= 100, f"{name}: {distance:.1f} dB"
    assert result["same"], "a run leaves nothing behind that the next one reads"
    assert len(result["times"]) == 2
    assert min(result["times"]) > 0
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
    assert code == "too-small"
    assert "needs maxBufferSize of 1125899906842624; this GPU has" in message


REFUSED = """
const device = await openDevice(await findGpu());
const description = await described(given);
let read = shardOf(given);
const change = {
  'another format': () => { description.format = 9; },
  'a list is missing': () => { delete description.steps; },
  'a binding outside its buffer': () => { description.steps[0].places[0].offset = 2 ** 40; },
  'a binding of no buffer': () => { description.steps[0].places[0].buffer = 99; },
  'a step without a shader': () => { description.steps[0].pipeline = -1; },
  'a step that is too wide': () => { description.steps[0].groups = [1, 1.5, 1]; },
  'a binding of no kind': () => { description.pipelines[0].bindings[0] = 'texture'; },
  'parameters that are not base64': () => { description.params = '\\u00b6'; },
  'an output larger than its place': () => { Object.values(description.outputs)[0].shape = [1e6]; },
  'a shard of no hash': () => { description.shards[0].sha256 = ''; },
  'a flipped bit': () => {
    read = async (index) => {
      const shard = await shardOf(given)(index);
      new Uint8Array(shard)[77] ^= 1;
      return shard;
    };
  },
  'a cut shard': () => { read = async (index) => (await shardOf(given)(index)).slice(4); },
  'a shader that is no WGSL': () => { description.pipelines[0].wgsl = 'nonsense'; },
  'a program of float16': () => { description.half = true; },
  'a buffer beyond the limit': () => { description.buffers[0] = 2 ** 40; },
  'cancelled before': () => undefined,
};
const results = {};
for (const [name, damage] of Object.entries(change)) {
  const whole = structuredClone(description);
  damage();
  const signal = name.startsWith('cancelled') ? AbortSignal.abort() : undefined;
  results[name] = await caught(() => openProgram(device, description, read, signal));
  Object.assign(description, whole);
  read = shardOf(given);
}
const network = await openProgram(device, description, read);
network.close();
device.destroy();
return results;
"""
DAMAGED = {
    "another format": "it has format 9, not 1",
    "a list is missing": "a part of it is missing",
    "a binding outside its buffer": "a binding lies outside its buffer",
    "a binding of no buffer": "a binding lies outside its buffer",
    "a step without a shader": "another number of bindings than its shader",
    "a step that is too wide": "has no size",
    "a binding of no kind": "is not whole",
    "parameters that are not base64": "its parameters are not base64",
    "an output larger than its place": "an input or output is larger than its place",
    "a shard of no hash": "a shard has no size or SHA-256",
    "a flipped bit": "has another size or SHA-256",
    "a cut shard": "has another size or SHA-256",
}
OTHERWISE = {
    "a shader that is no WGSL": ("failed", "WebGPU refuses"),
    "a program of float16": ("too-small", "this GPU has no shader-f16"),
    "a buffer beyond the limit": (
        "too-small",
        "The network needs maxBufferSize of 1099511627776; this GPU has",
    ),
    "cancelled before": ("cancelled", "It was cancelled"),
}


def test_what_cannot_run_is_refused_in_a_sentence(site: NetworkSite, page: Page) -> None:
    """Each in turn, on one device, which opens the whole program after all of them."""
    results = evaluate(page, REFUSED, facts_of(site)["text_encoder"])
    reasons = {name: ("damaged", reason) for name, reason in DAMAGED.items()} | OTHERWISE
    assert results.keys() == reasons.keys()
    for name, (expected, reason) in reasons.items():
        kind, code, message = results[name]
        assert (kind, code) == ("MsdError", expected), f"{name}: {message}"
        assert reason in message, f"{name}: {message}"
        assert message.endswith("."), f"{name}: {message}"


def test_a_shard_that_its_reader_has_verified_is_not_hashed_again(site: NetworkSite, page: Page) -> None:
    script = """
    const device = await openDevice(await findGpu());
    const program = await described(given);
    const { digest } = SubtleCrypto.prototype;
    const counts = [];
    try {
      for (const verified of [false, true]) {
        let count = 0;
        SubtleCrypto.prototype.digest = function (...args) { count += 1; return digest.apply(this, args); };
        (await openProgram(device, program, shardOf(given), undefined, verified)).close();
        counts.push(count);
      }
    } finally { SubtleCrypto.prototype.digest = digest; }
    return [program.shards.length, ...counts];
    """
    shards, hashed, again = evaluate(page, script, facts_of(site)["text_encoder"])
    assert (hashed, again) == (shards, 0)
    assert shards > 0


def test_a_device_that_is_lost(site: NetworkSite, page: Page) -> None:
    script = """
    const device = await openDevice(await findGpu());
    const program = await described(given.network);
    const network = await openProgram(device, program, shardOf(given.network));
    device.destroy();
    const lost = await caught(() => network.run(tensors(given.inputs)));
    return [lost, await caught(() => openProgram(device, program, shardOf(given.network)))];
    """
    given = {"network": facts_of(site)["text_encoder"], "inputs": cpu_inputs(site, "text_encoder")}
    for kind, code, message in evaluate(page, script, given):
        assert (kind, code) == ("MsdError", "device-lost"), message
        assert message.startswith("The browser lost the GPU: ")


@pytest.mark.parametrize(
    ("inputs_", "message"),
    [
        ("{}", "The network takes tokens, not ."),
        (
            "{ tokens: new Int32Array(3) }",
            "The network takes 77 numbers as Int32Array for tokens, not 3 as Int32Array.",
        ),
        (
            "{ tokens: new Float32Array(77) }",
            "The network takes 77 numbers as Int32Array for tokens, not 77 as Float32Array.",
        ),
    ],
)
def test_inputs_that_do_not_fit(inputs_: str, message: str, site: NetworkSite, page: Page) -> None:
    script = f"""
    const device = await openDevice(await findGpu());
    const network = await openProgram(device, await described(given), shardOf(given));
    return caught(() => network.run({inputs_}));
    """
    assert evaluate(page, script, facts_of(site)["text_encoder"]) == ["MsdError", "bad-request", message]


def test_a_gpu_whose_memory_is_full(site: NetworkSite, page: Page) -> None:
    """SwiftShader's never is: a scope says so in its place, and everything allocated is freed."""
    script = """
    const device = await openDevice(await findGpu());
    device.popErrorScope = async () => new GPUOutOfMemoryError('full');
    let alive = 0;
    const create = device.createBuffer.bind(device);
    device.createBuffer = (given) => {
      const buffer = create(given);
      const destroy = buffer.destroy.bind(buffer);
      alive += 1;
      buffer.destroy = () => { alive -= 1; destroy(); };
      return buffer;
    };
    return [await caught(async () => openProgram(device, await described(given), shardOf(given))), alive];
    """
    network = facts_of(site)["text_encoder"]
    (_, code, message), alive = evaluate(page, script, network)
    megabytes = -(-network["programs"]["fp32"]["memory"] // 10**6)
    assert (code, message) == (
        "out-of-memory",
        f"The GPU has too little memory for a network of {megabytes} MB.",
    )
    assert alive == 0
