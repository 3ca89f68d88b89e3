"""Fixtures that several test files share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import hypothesis
import pytest

import graph_rewrites
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.files.packages import load_triton
from msd.models.demo import CHECKPOINT
from msd.run.runners.swiftshader import cache_folder
from tests import kept_structures
from tests.android_projects import Projects, write_projects
from tests.app_bundles import write_app
from tests.costs import Stopwatch, longest_first, read_costs
from tests.deadline import count_left_out, require_time
from tests.deliveries import Deliveries, export_all
from tests.garbage import collect_seldom, pass_over_the_past
from tests.jvm import Jvm, start
from tests.selection import Part, Selection, changed_files, joining, read_table
from tests.shared import shared_folder, shared_root
from tests.stand_in import write_bundle

SELECTION = pytest.StashKey[Selection]()
GOLDEN = Path(__file__).parent / "golden"

# Tests never time anything: a machine may be busy.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ instead of comparing")

    parser.addoption(
        "--update-costs", action="store_true", help="write how long each file takes to costs.txt"
    )
    parser.addoption(
        "--part", choices=get_args(Part), default="all", help="quick: what make test runs; rest: the others"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C even where the tests run in the background, whose commands a shell has ignore it.

    What tests start inherits that, and some of it is interrupted.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Nothing that tests write must outlive a power cut, and a disk takes milliseconds for each file.
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    config.stash[SELECTION] = select(config)
    if not is_worker(config):
        kept_structures.unpack(kept_structures.ARCHIVE, kept_structures.FOLDER)
    if config.getoption("--update-costs") and not is_worker(config):
        config.pluginmanager.register(Stopwatch())
    load_triton()  # tests open GPUs in a process that imports diffusers later
    if is_worker(config):
        collect_seldom()


def select(config: pytest.Config) -> Selection:
    """Return which files run whole; the controller finds that out for its workers."""
    if is_worker(config):
        joined = config.workerinput["joined"]  # type: ignore[attr-defined]
    else:
        joined = joining(read_table(), changed_files()) if config.getoption("--part") != "all" else ()
    return Selection(read_table(), frozenset(joined))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker what the controller found."""
    node.workerinput["joined"] = sorted(node.config.stash[SELECTION].joined)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test after the time that is set for all, and each with the same random numbers.

    What torch draws without a seed would depend on which tests a process ran before.
    """
    require_time()
    if is_worker(item.config):
        pass_over_the_past()
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def pytest_sessionfinish() -> None:
    """Let the ten collections of garbage that pytest makes at its end pass over what the tests loaded."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which files joined what make test runs, and how many tests had no turn."""
    if left := count_left_out(terminalreporter.stats.get("skipped", ())):
        terminalreporter.line(f"{left} tests had no turn: the time was up")
    if joined := sorted(config.stash[SELECTION].joined):
        terminalreporter.line(f"ran whole for what changed since main: {', '.join(joined)}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which the part that runs has no test."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(config.rootpath):
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    return None if config.stash[SELECTION].can_take(file, config.getoption("--part")) else True


def is_worker(config: pytest.Config) -> bool:
    """Return whether this is a process of pytest-xdist that runs a part of the tests."""
    return hasattr(config, "workerinput")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run those of the part, and with --update-golden only the tests that compare with a golden text."""
    selection, part = config.stash[SELECTION], config.getoption("--part")
    left = [item for item in items if not selection.takes(item.nodeid, part)]
    items[:] = [item for item in items if selection.takes(item.nodeid, part)]
    config.hook.pytest_deselected(items=left)
    if config.getoption("--update-golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    if is_worker(config):
        items[:] = longest_first(items, read_costs())


@pytest.fixture
def on_swiftshader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SwiftShader is the adapter, though lavapipe, or a GPU's driver, be installed."""
    from msd.run.runners import adapter, swiftshader

    copy = swiftshader.locate() or swiftshader.install()
    adapter._find.cache_clear()
    for name in adapter.VARIABLES:
        monkeypatch.setenv(name, str(copy.folder / swiftshader.ICD))
    yield
    adapter._find.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _structure_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep a cache for this run of the tests, in all its processes, apart from the user's own.

    Structures stay for the next run.
    SwiftShader, which takes long to fetch, is the user's own where that is there.
    """
    cache, fetched = shared_root(tmp_path_factory) / "cache", cache_folder()
    cache.mkdir(exist_ok=True)
    for kept in [kept_structures.FOLDER] + [fetched] * fetched.is_dir():
        with suppress(FileExistsError):
            (cache / kept.name).symlink_to(kept.absolute())
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
    return shared_folder(tmp_path_factory, "stand-in", write_bundle)


@pytest.fixture(scope="session")
def batch_two_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same networks with batch 2; read only."""
    return shared_folder(tmp_path_factory, "stand-in-2", partial(write_bundle, batch=2))


@pytest.fixture(scope="session")
def sinusoids_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same again, with a U-Net that takes the sinusoids of its timestep, sines first; read only."""
    write = partial(write_bundle, batch=2, sinusoids=True)
    return shared_folder(tmp_path_factory, "stand-in-sinusoids", write)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`demo(recipe)`: the demo checkpoint converted with that recipe; read only."""

    def bundle(recipe: str) -> Path:
        settings = Settings(graph_rewrites.load(), find_recipe(recipe))
        make = partial(convert, CHECKPOINT, settings=settings)
        return shared_folder(tmp_path_factory, f"demo-{recipe}", make)

    return bundle


@pytest.fixture(scope="session")
def demo_float(demo: Callable[[str], Path]) -> Path:
    """The demo checkpoint converted with the recipe float32; read only."""
    return demo("float32")


@pytest.fixture(scope="session")
def demo_int8(demo: Callable[[str], Path]) -> Path:
    """The demo checkpoint converted with the recipe gpu-w8; read only."""
    return demo("gpu-w8")


@pytest.fixture(scope="session")
def kotlin() -> Iterator[Jvm]:
    """A JVM with the Kotlin sources; skips where there is none."""
    with start() as process:
        yield process


@pytest.fixture(scope="session")
def deliveries(tmp_path_factory: pytest.TempPathFactory) -> Deliveries:
    """Exports by every delivery, their Kotlin compiled; skips without a compiler. Read only."""
    return export_all(tmp_path_factory.mktemp("deliveries"))


@pytest.fixture(scope="session")
def played(deliveries: Deliveries) -> Iterator[Jvm]:
    """A JVM that plays apps with each delivery."""
    with deliveries.start() as process:
        yield process


@pytest.fixture(scope="session")
def plain_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of sums with its app's manifest and tokenizer in the same folder; read only."""
    return write_app(tmp_path_factory.mktemp("app") / "plain")


@pytest.fixture(scope="session")
def android_projects(tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """Whole Android projects by every delivery, compiled; read only, and skips without a compiler."""
    return write_projects(tmp_path_factory.mktemp("projects"))
