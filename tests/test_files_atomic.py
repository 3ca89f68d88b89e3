"""Files are whole or not there, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from msd.errors import OutputUnwritable
from msd.files.atomic import atomic_write
from msd.files.targets import require_targets, require_writable
from msd.models import structure_cache
from msd.run.runners import swiftshader
from tests.other_user import nobody
from tests.tiny_disk import tiny_disk


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.parent == tmp_path / ".out.msd-part"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("lasting", [True, False])
def test_what_need_not_last_is_not_waited_for(lasting: bool, tmp_path: Path) -> None:
    synced = list[Path]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msd.files.atomic.sync", synced.append)
        with atomic_write(tmp_path / "out", lasting=lasting) as temporary:
            temporary.write_text("new")
    assert synced == ([temporary, tmp_path] if lasting else [])
    assert (tmp_path / "out").read_text() == "new"


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write(path, interrupted())
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert path.read_text() == "old"


def test_a_new_file_takes_the_old_ones_place(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "out"
    with pytest.raises(OutputUnwritable, match=r"nowhere/out cannot be written \(No such file"):
        write(path)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritable, match=r"file/out cannot be written \(Not a directory\)"):
        write(tmp_path / "file" / "out")


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputUnwritable, match=r"out cannot be written \(Is a directory\)"):
        write(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that all may read and nobody but root may write to."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        yield Path(folder)
        Path(folder).chmod(0o755)


def test_a_folder_that_may_not_be_written(closed_folder: Path) -> None:
    with nobody(), pytest.raises(OutputUnwritable, match=r"out cannot be written \(Permission denied\)"):
        write(closed_folder / "out")
    assert list(closed_folder.iterdir()) == []


def test_a_full_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk") as folder:
        path = folder / "out"
        path.write_text("old")
        with pytest.raises(OutputUnwritable, match=f"no space left to write {path}; free some and run again"):
            write(path, ["x" * 9000])
        assert [p.name for p in folder.iterdir()] == ["out"]
        assert path.read_text() == "old"


def test_a_full_disk_of_which_numpy_says_no_number(tmp_path: Path) -> None:
    """It raises OSError with a sentence alone where a disk takes a part of an array."""
    with tiny_disk(tmp_path / "disk") as folder:
        path = folder / "out"
        with (
            pytest.raises(OutputUnwritable, match=f"no space left to write {path}; free some and run again"),
            atomic_write(path) as temporary,
            temporary.open("wb") as file,
        ):
            np.save(file, np.ones(9000))
        assert not [*folder.iterdir()]


def test_the_fault_of_another_file_is_not_the_outputs(tmp_path: Path) -> None:
    """A checkpoint that has gone is not a folder that cannot be written."""
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "out"):
        (tmp_path / "checkpoint").read_bytes()


def interrupted() -> Iterator[str]:
    """Half of a text."""
    yield "half"
    raise KeyboardInterrupt


def write(path: Path, text: Iterable[str] = ("new",)) -> None:
    with atomic_write(path) as temporary, temporary.open("w") as file:
        file.writelines(text)


def test_one_variable_moves_every_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = structure_cache.cache_folder, swiftshader.cache_folder
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "mine"))
    assert [folder() for folder in folders] == [tmp_path / "mine/structures", tmp_path / "mine/swiftshader"]
    monkeypatch.delenv("MSD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [folder() for folder in folders] == [tmp_path / "msd/structures", tmp_path / "msd/swiftshader"]


def test_a_closed_place_is_refused_before_anything_is_computed(closed_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in Path("/proc/out"), Path("/proc/new/out"), tmp_path / "file" / "out", tmp_path / "file/a/out":
        around = Path("/proc") if place.is_relative_to("/proc") else tmp_path / "file"
        with pytest.raises(
            OutputUnwritable, match=f"cannot write {place}: {around} is not a folder that can"
        ):
            require_targets(place, ["a"])
        with pytest.raises(OutputUnwritable, match=f"cannot write {place}: {place.parent} is not a folder"):
            require_writable(place, force=False)
    with nobody():
        with pytest.raises(OutputUnwritable, match="is not a folder that can be written to"):
            require_targets(closed_folder / "new" / "out", ["a"])
        with pytest.raises(OutputUnwritable, match="is not a folder that can be written to"):
            require_writable(closed_folder / "out", force=False)
    require_targets(tmp_path / "new" / "out", ["a"])
    require_writable(tmp_path / "out", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_may_have_room_by_then(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk") as folder:
        (folder / "full").write_bytes(b"x" * 4096)
        require_writable(folder / "out", force=False)
