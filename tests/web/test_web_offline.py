"""The page's service worker in Chromium: opens without the server, and shows one version at a time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from msd.export.web.shell import NAME, write_shell
from msd.files import bounded
from tests.web import served
from tests.web.node import SITE

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

PAGE = Path(__file__).parent / "offline_page"
OWN = "service-worker.js", "page/offline.js"
WORDS = "page/word.js", "page.css", "model/tokens.txt"
WEIGHTS = "model/weights/0123456789abcdef0123456789abcdef.bin"
MODEL = {"model/web-manifest.json": "{}", "model/tokens.txt": "one\n", WEIGHTS: "weights"}
OTHERS = {"litert/runtime.wasm": "wasm", "README.md": "", "sd-export.json": "{}"}
SHOWN = ["index.html", "model/tokens.txt", "model/web-manifest.json", "page.css"]
SHOWN += [f"page/{name}.js" for name in ("main", "offline", "word")]


def write_site(folder: Path) -> Path:
    shutil.copytree(PAGE, folder)
    for name in OWN:
        shutil.copyfile(SITE / name, folder / name)
    for name, text in (MODEL | OTHERS).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    write_shell(folder)
    return folder


def rewrite(site: Path, word: str, *names: str) -> None:
    """Replace "one" in files of the page."""
    for name in names:
        (site / name).write_text((PAGE / name).read_text().replace("one", word) if "page" in name else word)


@contextmanager
def serving(site: Path) -> Iterator[str]:
    """Yield the address of a site."""
    with served.serving(site) as (_, port):
        yield f"http://127.0.0.1:{port}/"


def wait_for(happens: Callable[[], Any]) -> None:
    for _ in range(3600):
        if happens():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within three minutes")


def visit(page: Page, address: str) -> str:
    """Open an address, wait until its scripts ran, and return the words of its files."""
    page.goto(address)
    wait_for(lambda: evaluated(page, "globalThis.kept"))
    assert page.evaluate("globalThis.kept") is True
    words: str = page.evaluate("globalThis.words")
    return words


def keep_and_renew(site: Path, page: Page, address: str) -> None:
    """Visit the site until a worker keeps its page, and publish a newer one, which says "two"."""
    visit(page, address)
    assert is_kept(page)
    rewrite(site, "two", *WORDS)
    write_shell(site)


def evaluated(page: Page, script: str) -> Any:
    """Return the value of a script, or None while the page is opened again."""
    from playwright.sync_api import Error

    with suppress(Error):
        return page.evaluate(script)


def is_kept(page: Page) -> bool:
    """Wait until a worker serves the next visit."""
    return bool(page.evaluate("navigator.serviceWorker.ready.then(() => true)"))


def is_waiting(page: Page) -> bool:
    """Return whether a newer worker waits."""
    asked = "navigator.serviceWorker.getRegistration().then((found) => Boolean(found.waiting))"
    return bool(page.evaluate(asked))


def cached(page: Page) -> list[str]:
    """Return the paths of all that caches have."""
    asked = """async () => {
        const found = [];
        for (const name of await caches.keys()) found.push(...(await (await caches.open(name)).keys()));
        return found.map(({ url }) => new URL(url).pathname.slice(1)).sort();
    }"""
    found: list[str] = page.evaluate(asked)
    return found


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_site(tmp_path / "site")


def test_the_shell_is_the_page_without_weights(site: Path) -> None:
    shell = bounded.read_json(site / NAME)
    assert sorted(shell["files"]) == SHOWN
    assert list(shell["later"]) == ["litert/runtime.wasm"]
    assert shell["files"]["model/web-manifest.json"].startswith(
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe7"
    )
    assert len(shell["version"]) == 64


def test_another_version_is_another_page_and_not_other_weights(site: Path) -> None:
    def version() -> str:
        write_shell(site)
        found: str = bounded.read_json(site / NAME)["version"]
        return found

    versions = [version()]
    assert version() == versions[0]
    (site / WEIGHTS).write_text("other")
    assert version() == versions[0]
    for change in (
        lambda: (site / "page.css").write_text("other"),
        lambda: (site / "page.css").rename(site / "other.css"),
        lambda: (site / "litert/runtime.wasm").write_text("other"),
        lambda: (site / "litert/runtime.wasm").rename(site / "runtime.wasm"),
    ):
        change()
        versions.append(version())
    assert len(set(versions)) == len(versions)


def test_the_page_opens_without_the_server_after_one_visit(site: Path, page: Page) -> None:
    with serving(site) as address:
        assert visit(page, address) == "one one one"
        assert is_kept(page)
        assert cached(page) == sorted([*SHOWN, NAME])
    for path in ("", "index.html", "?from=phone", "index.html?x#y"):
        assert visit(page, address + path) == "one one one"
    assert page.evaluate("fetch('model/web-manifest.json').then((got) => got.text())") == "{}"
    isolated = page.evaluate("fetch('').then((got) => got.headers.get('Cross-Origin-Embedder-Policy'))")
    assert (isolated, page.evaluate("crossOriginIsolated")) == ("require-corp", True)


def test_a_newer_page_replaces_the_whole_older_one_on_the_next_visit(site: Path, page: Page) -> None:
    with serving(site) as address:
        visit(page, address)
        assert is_kept(page)
        assert page.evaluate("globalThis.newer") == 0
        rewrite(site, "two", *WORDS)
        write_shell(site)
        assert visit(page, address) == "one one one"
        wait_for(lambda: is_waiting(page))
        wait_for(lambda: page.evaluate("globalThis.newer") == 1)
        shown: list[str] = []
        page.on("framenavigated", lambda frame: shown.append(frame.url))
        assert visit(page, address) == "two two two"
        assert shown == [address, address]
        wait_for(lambda: cached(page) == sorted([*SHOWN, NAME]))
    assert visit(page, address) == "two two two"
    assert page.evaluate("globalThis.newer") == 0


def test_a_newer_page_waits_while_an_older_one_is_open(
    site: Path, page: Page, context: BrowserContext
) -> None:
    with serving(site) as address:
        keep_and_renew(site, page, address)
        other = context.new_page()
        assert visit(other, address) == "one one one"
        wait_for(lambda: is_waiting(other))
        assert visit(page, address) == "one one one"  # which no worker served until now
        assert visit(page, address) == "one one one"
        other.close()
        assert visit(page, address) == "two two two"


def test_a_second_page_lets_no_newer_one_replace_the_first(
    site: Path, page: Page, context: BrowserContext
) -> None:
    with serving(site) as address:
        keep_and_renew(site, page, address)
        assert visit(page, address) == "one one one"
        wait_for(lambda: is_waiting(page))
        other = context.new_page()
        assert visit(other, address) == "one one one"
        assert is_waiting(page)
        later = "fetch('model/tokens.txt').then((got) => got.text())"
        assert page.evaluate(later) == "one\n"
        page.close()
        wait_for(lambda: visit(other, address) == "two two two")  # a busy browser closes pages late


@pytest.mark.parametrize("changed", WORDS)
def test_a_page_that_is_half_uploaded_is_not_kept(site: Path, page: Page, changed: str) -> None:
    with serving(site) as address:
        keep_and_renew(site, page, address)
        rewrite(site, "three", changed)
        assert visit(page, address) == "one one one"
        wait_for(lambda: page.evaluate(INSTALLING) is False)
        assert not is_waiting(page)
        assert visit(page, address) == "one one one"
    assert visit(page, address) == "one one one"


INSTALLING = "navigator.serviceWorker.getRegistration().then((found) => Boolean(found.installing))"


def test_a_first_visit_to_a_page_that_is_half_uploaded_keeps_nothing(site: Path, page: Page) -> None:
    with serving(site) as address:
        (site / "page.css").write_text(":root { --word: three; }")
        assert visit(page, address) == "one three one"
        unregistered = "navigator.serviceWorker.getRegistration().then((found) => !found)"
        wait_for(lambda: page.evaluate(unregistered))
        write_shell(site)
        assert visit(page, address) == "one three one"
        assert is_kept(page)
    assert visit(page, address) == "one three one"


def test_weights_pass_by_and_a_large_runtime_is_kept_once_used(site: Path, page: Page) -> None:
    with serving(site) as address:
        visit(page, address)
        assert is_kept(page)
        visit(page, address)
        text = "(address) => fetch(address, { cache: 'no-store' }).then((got) => got.text())"
        part = "(address) => fetch(address, { headers: { Range: 'bytes=1-2' } }).then((got) => got.text())"
        assert page.evaluate(text, WEIGHTS) == "weights"
        assert page.evaluate(part, WEIGHTS) == "ei"
        assert cached(page) == sorted([*SHOWN, NAME])
        runtime = "fetch('litert/runtime.wasm').then((got) => got.text())"
        assert page.evaluate(runtime) == "wasm"
        assert cached(page) == sorted([*SHOWN, NAME, "litert/runtime.wasm"])
    assert visit(page, address) == "one one one"
    assert page.evaluate(runtime) == "wasm"
    failed = "fetch('model/weights/x.bin', { cache: 'no-store' }).then(() => false, () => true)"
    assert page.evaluate(failed)


def test_a_runtime_of_another_version_is_not_used(site: Path, page: Page) -> None:
    with serving(site) as address:
        visit(page, address)
        assert is_kept(page)
        visit(page, address)
        (site / "litert/runtime.wasm").write_text("other")
        assert page.evaluate("fetch('litert/runtime.wasm').then(() => false, () => true)")


def test_the_caches_of_others_stay(site: Path, page: Page) -> None:
    with serving(site) as address:
        visit(page, address)
        assert is_kept(page)
        names = ["msd-store-x", "msd-shell http://elsewhere/ 1"]
        page.evaluate("(names) => Promise.all(names.map((name) => caches.open(name)))", names)
        rewrite(site, "two", *WORDS)
        write_shell(site)
        visit(page, address)
        wait_for(lambda: is_waiting(page))
        assert visit(page, address) == "two two two"
        wait_for(lambda: cached(page) == sorted([*SHOWN, NAME]))
        assert set(names) <= set(page.evaluate("caches.keys()"))


def test_without_a_list_the_page_works_from_the_network(site: Path, page: Page) -> None:
    (site / NAME).unlink()
    with serving(site) as address:
        assert visit(page, address) == "one one one"
        asked = "navigator.serviceWorker.getRegistration().then((found) => !found)"
        assert page.evaluate(asked)
