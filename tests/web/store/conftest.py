"""Chromium, a server whose answers go wrong, and tabs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.web.node import SITE
from tests.web.store.tab import SIZES, File, Tab, describe
from tests.web_host import WebHost, web_host

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

DRIVER = Path(__file__).parent / "page"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[WebHost]:
    shutil.copytree(DRIVER, tmp_path / "site")
    shutil.copytree(SITE / "msd", tmp_path / "site/msd")
    (tmp_path / "site/model").mkdir()
    random = np.random.default_rng(5)
    for name, size in SIZES.items():
        (tmp_path / "site/model" / name).write_bytes(random.bytes(size))
    with web_host(tmp_path / "site") as host:
        yield host


@pytest.fixture
def files(host: WebHost) -> dict[str, File]:
    return {name: describe(name, (host.folder / "model" / name).read_bytes()) for name in SIZES}


@pytest.fixture
def a(files: dict[str, File]) -> File:
    return files["a.bin"]


@pytest.fixture
def opened(context: BrowserContext, host: WebHost) -> Callable[[str], Tab]:
    """`opened(where)`: another tab of the same browser."""

    def opened(where: str) -> Tab:
        page = context.new_page()
        page.goto(host.base + "index.html")
        return Tab(page, where)

    return opened


@pytest.fixture(params=["worker", "page"])
def tab(request: pytest.FixtureRequest, opened: Callable[[str], Tab]) -> Tab:
    return opened(request.param)
