"""Networks with int4 in Chromium, whose own compiler takes their kernels: the numbers of LiteRT's CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from msd.graph.parity import psnr
from tests.recipe_bundles import constants, recipe_bundle
from tests.web.browser import PATIENCE
from tests.web.networks import ROLES, cpu_inputs, cpu_output, facts, write_site
from tests.web.server import served
from tests.web.test_web_run import RUN, evaluate

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_chromium_computes_with_int4(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bundle = recipe_bundle(tmp_path_factory, "gpu-w4")
    assert all(constants(bundle.path(role))["INT4"] for role in ROLES)
    site = write_site(tmp_path, bundle)
    with served(site.folder) as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/index.html")
        for role in ROLES:
            result = evaluate(page, RUN, {"network": facts(site)[role], "inputs": cpu_inputs(site, role)})
            for name, values in result["outputs"].items():
                assert psnr(cpu_output(site, role, name), np.asarray(values, np.float32)) >= 100
