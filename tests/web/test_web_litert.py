"""LiteRT.js beside the page: what is copied, what is refused, and three networks in a module worker."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from msd.bundle import open_bundle
from msd.cli import msd
from msd.errors import BadConfig
from msd.export.web import litert, litert_packages
from msd.export.web.expected import expected_inputs
from msd.export.web.litert import FOLDER, PARTS, copy_litert_js, require_litert_js, write_shards
from msd.export.web.litert_packages import CORE, INTEGRITY, UTILS, VERSION, fetched_packages
from msd.export.web.server import HEADERS
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from tests.harness import build
from tests.web.browser import PATIENCE, launched
from tests.web.networks import ROLES, NetworkSite, cpu_inputs, cpu_output, tiny_bundle, write_site
from tests.web.server import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

WORKER = """
import { openLiteRt } from './msd/litert.js';

onmessage = async ({ data }) => {
  try {
    postMessage({ result: await work(data) });
  } catch (error) {
    postMessage({ error: [error.name, error.code, error.message] });
  }
};

async function work({ litert, network, inputs }) {
  const readModel = async () => {
    const answers = await Promise.all(network.model.map(({ file }) => fetch(`model/${file}`)));
    const pieces = await Promise.all(answers.map((answer) => answer.blob()));
    return new Uint8Array(await new Blob(pieces).arrayBuffer());
  };
  const opened = await openLiteRt(litert, new URL('model/', location.href), readModel, network);
  const given = Object.fromEntries(Object.entries(inputs).map(([name, [kind, values]]) =>
    [name, kind === 'int32' ? Int32Array.from(values) : Float32Array.from(values)]));
  const runs = await Promise.all([opened.run(given), opened.run(given)]);
  const times = await opened.time(given, 2);
  opened.close();
  const [first, second] = runs.map((outputs) =>
    Object.fromEntries(Object.entries(outputs).map(([name, values]) => [name, [...values]])));
  return { first, second, times, facts: opened.facts };
}
"""
ASK = """(message) => {
  const workers = (globalThis.workers ??= {});
  const worker = (workers[message.worker] ??= new Worker(message.worker, { type: 'module' }));
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage(message);
  });
}"""


@pytest.fixture(scope="module")
def packages() -> Path:
    """npm's packages, fetched into the user's cache; skips where they cannot be."""
    if not shutil.which("npm"):
        pytest.skip("npm, which fetches LiteRT.js, is not installed; on Debian 12: apt-get install npm")
    try:
        return fetched_packages()
    except BadConfig as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> NetworkSite:
    site = write_site(tmp_path_factory.mktemp("site"), tiny_bundle(tmp_path_factory))
    copy_litert_js(packages, site.folder)
    (site.folder / "worker.js").write_text(WORKER, "utf-8")
    return site


@pytest.fixture(scope="module")
def page(site: NetworkSite) -> Iterator[Page]:
    with launched() as browser, served(site.folder, HEADERS) as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/index.html")
        yield page


def ask(
    page: Page,
    site: NetworkSite,
    role: str,
    operations: int,
    path: Path,
    inputs: Any,
    worker: str = "worker.js",
) -> Any:
    """Return what the page's worker answers, which is the same for all questions to it."""
    shards = write_shards(path, site.folder / "model")
    network = {"role": role, "operations": operations, "model": [{"file": shard.file} for shard in shards]}
    facts = {"module": "../litert/litert.js", "wasm": "../litert/wasm/"}
    return page.evaluate(ASK, {"litert": facts, "network": network, "inputs": inputs, "worker": worker})


@pytest.mark.parametrize("role", ROLES)
def test_a_network_computes_what_the_cpu_computes(role: str, site: NetworkSite, page: Page) -> None:
    """In a worker that is a module, under the policy of `msd serve`: no inline import map, no eval."""
    part = site.bundle.component(role)
    answer = ask(page, site, role, part.operations, site.bundle.path(role), cpu_inputs(site, role))
    assert "error" not in answer, answer["error"]
    result = answer["result"]
    assert set(result["first"]) == set(site.networks[role].expected.outputs)
    for name, values in result["first"].items():
        distance = psnr(cpu_output(site, role, name), np.asarray(values, np.float32))
        assert distance >= 90, f"{name}: {distance:.1f} dB"
    assert result["first"] == result["second"]
    assert len(result["times"]) == 2
    assert min(result["times"]) > 0
    log = result["facts"].pop("log")
    assert any("Initializing WebGPU-based API from graph" in line for line in log)
    assert result["facts"] == {
        "precision": "fp32",
        "operations": part.operations,
        "delegated": part.operations,
        "partitions": 1,
    }


def test_what_the_gpu_does_not_take_is_not_run_on_the_cpu(
    site: NetworkSite, page: Page, tmp_path: Path
) -> None:
    """A sum of rank 5 would run on LiteRT's CPU; an operator is not in LiteRT.js at all."""
    graphs = {
        "SUM: Unknown layout": lambda new, x: new.SUM(new.RESHAPE(x, [1, 1, 3, 2, 2]), [2], keep_dims=True),
        "'BROADCAST_TO'": lambda new, x: new.NEG(new.BROADCAST_TO(x, [2, 3, 4])),
    }
    for number, (words, spell) in enumerate(graphs.items()):
        path = tmp_path / f"{number}.tflite"
        tflite.write(Model([build(spell, x=(3, 4))]), path)
        answer = ask(page, site, "unet", 2, path, {"x": ["float32", [1.0] * 12]})
        name, code, message = answer["error"]
        assert (name, code) == ("MsdError", "failed")
        assert message.startswith("This GPU does not take unet whole: ")
        assert words in message


def test_inputs_that_do_not_fit(site: NetworkSite, page: Page) -> None:
    answer = ask(page, site, "text_encoder", 1, site.bundle.path("text_encoder"), {"tokens": ["int32", [1]]})
    assert answer["error"] == [
        "MsdError",
        "bad-request",
        "text_encoder takes 77 numbers of int32 for tokens.",
    ]


HALF = """
const { get } = Object.getOwnPropertyDescriptor(GPUDevice.prototype, 'features');
Object.defineProperty(GPUDevice.prototype, 'features', {
  get() { return new Set([...get.call(this), 'shader-f16']); },
});
"""


def test_a_network_that_webgpu_refuses_in_float16_runs_in_float32(
    site: NetworkSite, page: Page, demo_int8: Path
) -> None:
    """The demo's decoder has convolutions for which LiteRT.js 2.5.3 makes shaders of float16 that lack
    `enable f16`, wherever a device says that it has shader-f16. It notices nothing: the image is noise."""
    part = open_bundle(demo_int8).component("vae_decoder")
    path = demo_int8 / part.file
    with Interpreter(path, float_weights=True) as cpu:
        inputs = expected_inputs(part.inputs, 0, 1)
        ((name, wanted),) = cpu.run(inputs).items()
    (site.folder / "half.js").write_text(HALF + WORKER, "utf-8")
    given = {key: [array.dtype.name, array.reshape(-1).tolist()] for key, array in inputs.items()}
    answer = ask(page, site, "vae_decoder", part.operations, path, given, "half.js")
    assert "error" not in answer, answer["error"]
    facts = answer["result"]["facts"]
    assert facts["precision"] == "fp32"
    (said,) = (line for line in facts["log"] if line.startswith("msd: not in float16: "))
    assert "'f16' type used without 'f16' extension enabled" in said
    assert psnr(wanted.reshape(-1), np.asarray(answer["result"]["first"][name], np.float32)) >= 90


def test_a_network_larger_than_any_that_opened_is_told_of(
    packages: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["export-web", str(tiny_bundle(tmp_path_factory).folder), "--runtime", "litert", "--no-expected"]
    words += ["--litert-js", str(packages), "-o"]
    quiet = CliRunner().invoke(msd, [*words, str(tmp_path / "small")])
    monkeypatch.setattr(litert, "OPENED", 1000)
    told = CliRunner().invoke(msd, [*words, str(tmp_path / "large")])
    assert (quiet.exit_code, told.exit_code) == (0, 0), told.output
    assert "was seen to open" not in quiet.output
    assert "LiteRT.js was seen to open files of up to 0 MB, and to abort at one of 884" in told.output


def test_only_what_a_browser_loads_is_copied(packages: Path, tmp_path: Path) -> None:
    record = copy_litert_js(packages, tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    variants = [f"litert/wasm/litert_wasm_{kind}internal" for kind in ("", "compat_")]
    scripts = {"litert/litert.js", "litert/wasm-utils.js", *(f"{variant}.js" for variant in variants)}
    assert names == {"litert/LICENSE", *scripts, *(f"{variant}.wasm" for variant in variants)}
    assert record.version == VERSION == "2.5.3"
    assert (tmp_path / "model" / record.module).resolve() == tmp_path / "litert/litert.js"
    assert "Apache License" in (tmp_path / "litert/LICENSE").read_text()
    for name in scripts:
        text = (tmp_path / name).read_text()
        assert text.startswith("// Changed by msd: ")
        assert "@litertjs/wasm-utils" not in text
        assert "sourceMappingURL" not in text


def copied(packages: Path, folder: Path) -> Path:
    """Return a folder with the packages' parts, as node_modules has them."""
    for part in PARTS:
        target = folder / part.package / part.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(packages / part.package / part.path, target)
    require_litert_js(folder)
    return folder


def test_a_folder_that_lacks_a_file_is_refused(packages: Path, tmp_path: Path) -> None:
    folder = copied(packages, tmp_path)
    (folder / CORE / "wasm/litert_wasm_internal.wasm").unlink()
    with pytest.raises(
        BadConfig, match=r"litert_wasm_internal\.wasm cannot be read .* should have the packages"
    ):
        require_litert_js(folder)


def test_a_folder_with_another_version_is_refused(packages: Path, tmp_path: Path) -> None:
    folder = copied(packages, tmp_path)
    with (folder / UTILS / "dist/bundle.js").open("a") as file:
        file.write("\n")
    with pytest.raises(BadConfig, match=r"bundle\.js is not the file of @litertjs/wasm-utils 2\.5\.3"):
        copy_litert_js(folder, tmp_path / "site")


def npm(folder: Path, body: str) -> None:
    """Write a program that is npm to whoever looks in `folder`."""
    path = folder / "npm"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without packages, and a folder where npm is looked for, which it is the only one for."""
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_a_machine_without_npm_is_told_what_to_do(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(BadConfig, match="which this machine does not have; install npm, or give a folder"):
        require_litert_js()


def test_npm_that_fails_is_quoted(empty: Path) -> None:
    npm(empty, "echo 'npm error code ENOTFOUND' >&2; echo 'npm error network no such host' >&2; exit 1")
    with pytest.raises(
        BadConfig, match=r"npm cannot fetch @litertjs/core 2\.5\.3: network no such host; install npm"
    ):
        require_litert_js()
    assert not (empty / "cache" / f"litert-js-{VERSION}").exists()


def test_another_package_than_the_one_known_is_refused(empty: Path) -> None:
    npm(empty, """echo damaged > core.tgz; echo '[{"filename": "core.tgz"}]'""")
    with pytest.raises(BadConfig, match="is not the one msd knows: its SHA-512 differs"):
        require_litert_js()
    assert os.listdir(empty / "cache") == []


def test_packages_are_fetched_once(packages: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm's archives, from a program in its place, are unpacked and kept."""
    import base64
    import tarfile

    known = {}
    for package in INTEGRITY:
        archive = empty / f"{package.rpartition('/')[2]}.tgz"
        with tarfile.open(archive, "w:gz") as made:
            made.add(packages / package, "package")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        known[package] = f"sha512-{digest}"
    monkeypatch.setattr(litert_packages, "INTEGRITY", known)
    name = json.dumps([{"filename": "NAME.tgz"}]).replace("NAME", "'$name'")
    npm(empty, f"name=${{2#*/}}; name=${{name%@*}}; cp {empty}/$name.tgz . && echo '{name}'")
    require_litert_js()
    npm(empty, "exit 1")
    require_litert_js()
    assert litert.fetched_packages() == empty / "cache" / f"litert-js-{VERSION}"


def test_a_file_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert, "SHARD_BYTES", 1000)
    content = np.random.default_rng(0).bytes(2500)
    (tmp_path / "unet.tflite").write_bytes(content)
    shards = write_shards(tmp_path / "unet.tflite", tmp_path)
    assert [shard.bytes for shard in shards] == [1000, 1000, 500]
    assert b"".join((tmp_path / shard.file).read_bytes() for shard in shards) == content
    for shard in shards:
        assert hashlib.sha256((tmp_path / shard.file).read_bytes()).hexdigest() == shard.sha256
        assert shard.file == f"weights/{shard.sha256[:32]}.bin"


def test_the_folder_is_the_one_that_the_service_worker_knows() -> None:
    from msd.export.web.shell import LITERT

    assert FOLDER == LITERT
