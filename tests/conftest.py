"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import graph_rewrites
from msd.conversion.convert import Settings, convert
from msd.demo import CHECKPOINT
from msd.encoding.recipe import find_recipe
from msd.runners.swiftshader import cache_folder
from tests.app_bundles import write_app
from tests.jvm import Jvm, start
from tests.stand_in import write_bundle

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ instead of comparing")


def pytest_configure() -> None:
    """Take Ctrl-C even where the tests run in the background, whose commands a shell has ignore it.

    What tests start inherits that, and some of it is interrupted.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --update-golden, run only the tests that compare with a golden text."""
    if config.getoption("--update-golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]


@pytest.fixture(scope="session", autouse=True)
def _structure_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep structures for this run of the tests, in all its processes, apart from the user's own.

    SwiftShader, which takes long to fetch, is the user's own where that is there.
    """
    base = tmp_path_factory.getbasetemp()
    cache, fetched = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache", cache_folder()
    cache.mkdir(exist_ok=True)
    if fetched.is_dir():
        with suppress(FileExistsError):
            (cache / fetched.name).symlink_to(fetched.absolute())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MSD_CACHE", str(cache))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text is the one in tests/golden/, which `make golden` writes.

    A test calls it last, when the numbers behind the text have been checked.
    """

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.read_text("utf-8") == text, f"{path} differs; `make golden` accepts the new text"

    return compare


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of small stand-in networks with batch 1; read only."""
    return write_bundle(tmp_path_factory.mktemp("bundle") / "one")


@pytest.fixture(scope="session")
def batch_two_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same networks with batch 2; read only."""
    return write_bundle(tmp_path_factory.mktemp("bundle") / "two", batch=2)


@pytest.fixture(scope="session")
def sinusoids_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same again, with a U-Net that takes the sinusoids of its timestep, sines first; read only."""
    return write_bundle(tmp_path_factory.mktemp("bundle") / "sinusoids", batch=2, sinusoids=True)


@pytest.fixture(scope="session")
def demo_float(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo checkpoint converted with the recipe float32; read only."""
    folder = tmp_path_factory.mktemp("demo") / "float32"
    convert(CHECKPOINT, folder, Settings(graph_rewrites.load(), find_recipe("float32")))
    return folder


@pytest.fixture(scope="session")
def demo_int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo checkpoint converted with the recipe gpu-w8; read only."""
    folder = tmp_path_factory.mktemp("demo") / "int8"
    convert(CHECKPOINT, folder, Settings(graph_rewrites.load(), find_recipe("gpu-w8")))
    return folder


@pytest.fixture(scope="session")
def kotlin() -> Iterator[Jvm]:
    """A JVM with the Kotlin sources; skips where there is none."""
    with start() as process:
        yield process


@pytest.fixture(scope="session")
def plain_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of sums with its app's manifest and tokenizer in the same folder; read only."""
    return write_app(tmp_path_factory.mktemp("app") / "plain")
