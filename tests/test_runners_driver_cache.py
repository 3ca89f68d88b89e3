"""Folders of a driver's pipelines: each process has its own, and a network finds its own again."""

from __future__ import annotations

from pathlib import Path

import pytest

from msd.run.runners import driver_cache
from msd.run.runners.driver_cache import VARIABLE, DriverCache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MSD_CACHE", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "drivers"


def test_processes_side_by_side_have_folders_of_their_own(cache: Path) -> None:
    first, second = DriverCache.claimed(), DriverCache.claimed()
    assert first.environment == {VARIABLE: str(cache / "0")}
    assert second.environment == {VARIABLE: str(cache / "1")}
    first.close()
    assert DriverCache.claimed().folder == cache / "0"


def test_a_network_prefers_the_folder_that_it_was_compiled_to(cache: Path) -> None:
    first, second = DriverCache.claimed(), DriverCache.claimed()
    second.note("unet")
    first.close()
    assert DriverCache.claimed("unet").folder == cache / "0", "another process has the one that knows it"
    second.close()
    found = DriverCache.claimed("unet")
    assert found.folder == cache / "1"
    assert found.knows("unet")
    assert not found.knows("vae_decoder")


def test_where_all_folders_are_taken_the_driver_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_cache, "MOST", 1)
    first, second = DriverCache.claimed(), DriverCache.claimed()
    assert first.folder
    assert second.environment == {}
    second.note("unet")
    assert not second.knows("unet")


def test_a_folder_that_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv(VARIABLE, "/elsewhere")
    assert DriverCache.claimed("unet").environment == {}
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_none(cache: Path) -> None:
    cache.write_text("a file where the folders should be")
    assert DriverCache.claimed().environment == {}
