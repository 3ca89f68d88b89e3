"""Packs of Google Play: what an exported app makes of what a store says, on a JVM with a stand-in store."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from msd.export.android.delivery import PLACEHOLDER
from msd.export.app.manifest import NAME
from tests.deliveries import Deliveries
from tests.jvm import Jvm, Refused
from tests.played_download import wait_for

PENDING, DOWNLOADING, TRANSFERRING, COMPLETED, FAILED, CANCELED, WIFI, NOT_INSTALLED, CONSENT = range(1, 10)
UNKNOWN = 0
NETWORK_ERROR = -6
BYTES = 15
IDS = (f"pack {i}" for i in count())


class Store:
    """A store that has the packs of an export, and an app that asks it for them."""

    def __init__(self, jvm: Jvm, deliveries: Deliveries, home: Path, kind: str = "assetpack") -> None:
        export = {"assetpack": "asset-pack", "aipack": "ai-pack"}[kind]
        self.jvm, self.kind, self.out = jvm, kind, deliveries.folder / export
        self.home = deliveries.home(home, export)
        self.packs = sorted(path.name.replace("-", "_") for path in self.out.glob("sd-models*"))

    def open(self, **options: Any) -> Store:
        """Open the store, which delivers nothing by itself."""
        self.jvm.ask("play", out=str(self.out), **options)
        return self

    def ask(self, **options: Any) -> str:
        """Begin to ask for the model and wait until the store was asked; return a name for that."""
        name = next(IDS)
        self.jvm.ask("ask", id=name, kind=self.kind, home=str(self.home), **options)
        wait_for(lambda: "fetch" in self.asked)
        return name

    def tell(self, status: int, *packs: str, **said: Any) -> None:
        """Say something of all packs, or of these."""
        for pack in packs or self.packs:
            self.jvm.ask("tell", pack=pack, status=status, **said)

    def result(self, name: str) -> str:
        found: str = self.jvm.ask("result", id=name)
        return found

    def arrivals(self, name: str) -> list[list[Any]]:
        found: list[list[Any]] = self.jvm.ask("arrivals", id=name)
        return found

    @property
    def asked(self) -> list[str]:
        found: list[str] = self.jvm.ask("store")
        return found


@pytest.fixture(params=["assetpack", "aipack"])
def store(request: pytest.FixtureRequest, deliveries: Deliveries, played: Jvm, tmp_path: Path) -> Store:
    return Store(played, deliveries, tmp_path / "home", request.param).open()


def test_packs_arrive_are_checked_once_and_are_one_folder_of_links(
    store: Store, deliveries: Deliveries
) -> None:
    assert len(store.packs) > 1
    name = store.ask()
    store.tell(DOWNLOADING, bytes=7)
    store.tell(TRANSFERRING, bytes=BYTES)
    store.tell(COMPLETED)
    folder, total = Path(store.result(name)), sum(deliveries.files.values())
    told = store.arrivals(name)
    fetched = [words for words in told if words[0] == "fetching"]
    assert fetched[-1] == ["fetching", BYTES * len(store.packs), BYTES * len(store.packs)]
    assert ["fetching", 7, BYTES * len(store.packs)] in fetched
    assert told[-1] == ["checking", total, total]
    assert folder == store.home / "no_backup" / "sd-models"
    assert {path.name for path in folder.iterdir()} == {*deliveries.files, NAME}
    assert all(path.is_symlink() for path in folder.iterdir())
    again = next(IDS)
    store.jvm.ask("ask", id=again, kind=store.kind, home=str(store.home), suspend=True)
    assert (store.result(again), store.arrivals(again)) == (str(folder), [])
    assert store.asked == ["fetch"]


def test_one_folder_of_links_holds_nothing_of_an_earlier_model(store: Store, tmp_path: Path) -> None:
    folder = store.home / "no_backup" / "sd-models"
    folder.mkdir(parents=True)
    (folder / "old.tflite").write_text("old")
    (folder / "unet.tflite").symlink_to(tmp_path / "gone")
    name = store.ask()
    store.tell(COMPLETED)
    store.result(name)
    assert not (folder / "old.tflite").exists()
    assert (folder / "unet.tflite").resolve().is_file()


@pytest.mark.parametrize(("status", "word"), [(WIFI, "wifi"), (CONSENT, "consent")])
def test_a_store_that_waits_for_the_user_is_no_failure(status: int, word: str, store: Store) -> None:
    name = store.ask()
    store.tell(status, store.packs[0])
    wait_for(lambda: [word] in store.arrivals(name))
    model = store.jvm.ask("name", kind=store.kind, home=str(store.home))
    assert len(model) == 64
    assert store.asked == ["fetch", "dialog"]
    store.tell(COMPLETED)
    assert store.result(name).endswith("sd-models")


@pytest.mark.parametrize("suspend", [False, True])
def test_cancelling_ends_the_wait_and_the_store_s_download(suspend: bool, store: Store) -> None:
    name = store.ask(suspend=suspend)
    store.tell(WIFI)
    store.jvm.ask("cancel", id=name)
    with pytest.raises(
        Refused, match="CancellationException" if suspend else "Cancelled: fetching the model"
    ):
        store.result(name)
    assert store.asked == ["fetch", "cancel"]


def test_news_that_never_came_is_asked_for(store: Store) -> None:
    store.open(patience=1)
    name = store.ask()
    store.tell(UNKNOWN, quiet=True)
    wait_for(lambda: "states" in store.asked)
    store.tell(COMPLETED, quiet=True)
    assert store.result(name).endswith("sd-models")


def test_what_is_said_of_other_packs_is_left_alone(store: Store) -> None:
    name = store.ask()
    store.tell(FAILED, "music", error=-7)
    store.tell(COMPLETED)
    assert store.result(name).endswith("sd-models")


def test_a_download_that_the_user_cancels_in_the_store_is_cancelled(store: Store) -> None:
    name = store.ask()
    store.tell(CANCELED, store.packs[0])
    with pytest.raises(Refused, match="Cancelled: the download was cancelled in Google Play; try again"):
        store.result(name)


def test_a_broken_connection_is_tried_again_and_then_a_sentence(store: Store) -> None:
    store.open(patience=1, failures="-6,-6,-6")
    name = store.ask()
    store.tell(COMPLETED, quiet=True)
    assert store.result(name).endswith("sd-models")
    assert store.asked.count("fetch") == 4
    store.open(patience=1)
    name = store.ask()
    store.tell(FAILED, store.packs[0], error=NETWORK_ERROR)
    with pytest.raises(Refused, match=r"BadFile: .*the connection is broken; check it .* \(error -6\)"):
        store.result(name)
    store.open(patience=1)
    name = store.ask()
    store.tell(NOT_INSTALLED, store.packs[0])
    with pytest.raises(Refused, match=r"BadFile: .*it does not keep the download; try again \(error -4\)"):
        store.result(name)


ERRORS = {
    -1: "BadFile: .* does not know this app or this version; install it from there",
    -2: "BadFile: .* has no such pack for this version of the app; update the app",
    -3: "BadFile: .* asks for packs that its version does not have; update the app",
    -5: "BadFile: .* has no Google Play that delivers packs",
    -7: "BadFile: .* the app is not visible; open it and try again",
    -10: "NoSpace: .* the disk is too small; free some space",
    -11: "BadFile: .* this device has no Google Play",
    -13: "BadFile: .* nobody on this device has this app from Google Play",
    -15: "BadFile: .* was not installed from Google Play; install it from there",
    -99: r"BadFile: .* something is wrong in Google Play; try again \(error -99\)",
}


@pytest.mark.parametrize(("code", "message"), ERRORS.items())
def test_errors_are_sentences(code: int, message: str, store: Store) -> None:
    name = store.ask()
    store.tell(FAILED, store.packs[0], error=code)
    with pytest.raises(Refused, match=message):
        store.result(name)
    store.open(failures=str(code))
    with pytest.raises(Refused, match=message):
        store.result(store.ask())
    assert store.asked == ["fetch"]


def test_an_error_without_a_code_is_a_sentence_too(store: Store) -> None:
    store.open(failures="1")
    with pytest.raises(Refused, match="BadFile: Google Play does not deliver the model: there is no store"):
        store.result(store.ask())


def test_an_empty_pack_is_for_devices_with_less_memory(store: Store, tmp_path: Path) -> None:
    for pack in store.packs:
        folder = tmp_path / "out" / pack.replace("_", "-") / "src/main/assets" / pack
        folder.mkdir(parents=True)
        (folder / PLACEHOLDER).write_text("")
    store.out = tmp_path / "out"
    name = store.open().ask()
    store.tell(COMPLETED)
    with pytest.raises(Refused, match="BadDevice: Google Play delivers this model only to devices with more"):
        store.result(name)


def test_packs_of_another_version_than_the_app_are_refused(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.out, tmp_path / "out", symlinks=True)
    (path,) = (tmp_path / "out").glob(f"sd-models/src/main/assets/*/{NAME}")
    path.write_text(path.read_text().replace('"precision"', ' "precision"'))
    store.out = tmp_path / "out"
    name = store.open().ask()
    store.tell(COMPLETED)
    with pytest.raises(Refused, match="another model than the app's manifest describes; update the app"):
        store.result(name)
    path.unlink()
    store.jvm.ask("ask", id="gone", kind=store.kind, home=str(store.home))
    with pytest.raises(Refused, match=f"BadFile: the pack in .* has no {NAME}; update the app"):
        store.result("gone")


def test_a_damaged_pack_is_refused(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.out, tmp_path / "out", symlinks=True)
    (path,) = (tmp_path / "out").rglob("unet.tflite")
    path.write_bytes(path.read_bytes()[::-1])
    store.out = tmp_path / "out"
    name = store.open().ask()
    store.tell(COMPLETED)
    with pytest.raises(Refused, match=r"BadFile: .*unet\.tflite has another SHA-256 than the manifest says"):
        store.result(name)
