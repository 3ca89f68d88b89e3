"""Programs for matrix units, which Chrome offers as an experiment: where a browser refuses them, others run.

SwiftShader has no matrix unit: its adapter is made to tell of one, whose device or whose shaders it refuses.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from msd.gpu.kernels.matrix_tile import ENABLE
from tests.web.browser import PATIENCE
from tests.web.networks import tiny_bundle
from tests.web.real_site import address_of, export

if TYPE_CHECKING:
    from playwright.sync_api import Browser

UNIT = {"rows": 8, "columns": 8, "depth": 8, "subgroup": 32}
KIND = "fp32-8x8x8"
GENERATE = """
async ([unit, unopened]) => {
  const MATRIX = ['subgroups', 'chromium-experimental-subgroup-matrix'];
  const { features, info } = await navigator.gpu.requestAdapter();
  const told = { vendor: info.vendor, subgroupMinSize: unit.subgroup, subgroupMaxSize: unit.subgroup };
  const size = { M: unit.rows, N: unit.columns, K: unit.depth };
  const configs = [{ ...size, componentType: 'f16', resultComponentType: 'f32' }];
  const define = (name, get) => Object.defineProperty(GPUAdapter.prototype, name, { get });
  define('features', () => new Set([...features, ...MATRIX]));
  define('info', () => ({ ...told, subgroupMatrixConfigs: configs }));
  const request = GPUAdapter.prototype.requestDevice;
  const asked = [];
  GPUAdapter.prototype.requestDevice = function (descriptor) {
    asked.push(descriptor.requiredFeatures.filter((feature) => MATRIX.includes(feature)).length);
    const requiredFeatures = unopened ? descriptor.requiredFeatures : [];
    return request.call(this, { ...descriptor, requiredFeatures });
  };
  const { openModel } = await import('/msd/index.js');
  const model = await openModel(new URL('/model/', location.href));
  const picture = await model.generate({ prompt: 'a hill', seed: 5, steps: 1 });
  const again = await model.generate({ prompt: 'a hill', seed: 5, steps: 1 });
  await model.remove();
  const same = picture.rgba.every((value, i) => value === again.rgba[i]);
  return { asked, same, rgba: [...picture.rgba] };
}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tiny_bundle(tmp_path_factory).folder, tmp_path_factory.mktemp("out") / "site", "msd", (1,))


def with_matrices(model: Path) -> None:
    """Give each network another program, whose shaders are for matrix units."""
    path = model / "web-manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    for network in manifest["networks"]:
        plain = network["programs"]["fp32"]
        described = json.loads((model / plain["program"]["file"]).read_text("utf-8"))
        for pipeline in described["pipelines"]:
            pipeline["wgsl"] = ENABLE + pipeline["wgsl"]
        content = json.dumps(described).encode()
        file = f"programs/{network['role']}.{KIND}.json"
        (model / file).write_bytes(content)
        program = {"file": file, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        network["programs"][KIND] = {**plain, "program": program, "matrix": UNIT}
    path.write_text(json.dumps(manifest), "utf-8")


def generated(browser: Browser, site: Path, unopened: bool) -> dict[str, Any]:
    """Return what a page makes that is told of a matrix unit, and the programs that it asked for."""
    with address_of(site) as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        programs: list[str] = []
        page.on("request", lambda request: programs.append(request.url.rsplit("/", 1)[1]))
        page.goto(address)
        found: dict[str, Any] = page.evaluate(GENERATE, [UNIT, unopened])
        page.close()
    kinds = {name.split(".")[1] for name in programs if name.count(".") == 2 and name.endswith(".json")}
    return {**found, "kinds": kinds}


@pytest.fixture(scope="module")
def plain(browser: Browser, site: Path) -> dict[str, Any]:
    """What is made without programs for matrix units; the site has some afterwards."""
    made = generated(browser, site, unopened=True)
    with_matrices(site / "model")
    return made


@pytest.mark.parametrize("unopened", [True, False])
def test_the_programs_without_run_where_matrix_units_are_refused(
    unopened: bool, plain: dict[str, Any], browser: Browser, site: Path
) -> None:
    """Where the device is not opened with the features, or a shader of one that is open is refused."""
    assert (plain["asked"], plain["kinds"]) == ([0], {"fp32"})
    refused = generated(browser, site, unopened)
    assert refused["asked"] == ([2, 0] if unopened else [2]), "a device is opened again where none was"
    assert refused["kinds"] == {"fp32", KIND}
    assert refused["same"]
    assert refused["rgba"] == plain["rgba"]
