"""Staging folders: one that another run has locked stays, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from msd.errors import OutputUnwritable
from msd.files.staging import locked, staging_folder, sweep


def test_sweeping_leaves_a_locked_folder_that_has_no_mark_yet(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    with locked(folder, folder):
        sweep(folder)
        assert folder.is_dir()


def test_a_run_that_is_refused_leaves_the_folder_of_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    with locked(folder, folder):
        with pytest.raises(OutputUnwritable, match="another run is writing"), staging_folder(folder, folder):
            pass
        assert folder.is_dir()


def test_sweeping_deletes_an_empty_folder_that_nobody_has(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    folder.mkdir()
    sweep(folder)
    assert not folder.exists()
