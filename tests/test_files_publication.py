"""Where a folder is published: other disks, other users, what is in the way, what ends too soon."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest

from msd.bundle import open_bundle
from msd.conversion import convert as conversion
from msd.errors import BadConfig, OutputExists, OutputUnwritable
from msd.files import disk
from msd.files.journal import Journal, write_journal
from msd.files.publication import publish, recover, staged
from tests import publications
from tests.app_bundles import write_bundle
from tests.kills import MINE, files
from tests.other_user import NOBODY, nobody
from tests.publications import EARLIER, FORCED, SETTINGS, convert
from tests.tiny_disk import tiny_disk


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("wanted")
    convert(folder, SETTINGS)
    return files(folder / "out")


def test_a_mount_point_is_an_output(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    with tiny_disk(tmp_path / "out", "80m") as out:
        convert(tmp_path, SETTINGS)
        assert files(out) == wanted
        (out / MINE).write_text("mine")
        convert(tmp_path, replace(SETTINGS, recipe=EARLIER.recipe, force=True))
        assert open_bundle(out, verify=True).manifest.configuration.recipe.name == "float32"
        convert(tmp_path, FORCED)
        assert files(out) == {**wanted, MINE: b"mine"}
    assert names(tmp_path) == ["out"]


def test_a_link_to_another_disk_is_an_output(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    with tiny_disk(tmp_path / "disk", "80m") as other:
        (tmp_path / "out").symlink_to(other)
        convert(tmp_path, SETTINGS)
        assert files(other) == wanted
        shutil.rmtree(tmp_path / "disk" / "tokenizer")
        (tmp_path / "out").unlink()
        (tmp_path / "out").symlink_to(other / "deep" / "new")
        convert(tmp_path, SETTINGS)
        assert files(other / "deep" / "new") == wanted
    assert (tmp_path / "out").is_symlink()


def test_a_folder_is_enough_where_the_one_around_it_is_closed(place: Path, wanted: dict[str, bytes]) -> None:
    (place / "out").mkdir()
    os.chown(place / "out", NOBODY if os.geteuid() == 0 else -1, -1)
    place.chmod(0o555)
    with nobody():
        convert(place, SETTINGS)
    assert files(place / "out") == wanted


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
@pytest.mark.parametrize("where", [".out.msd-part", "out/.msd-part"])
def test_what_is_not_ours_is_not_deleted(where: str, kind: str, tmp_path: Path) -> None:
    left = tmp_path / where
    left.parent.mkdir(exist_ok=True)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    if kind == "file":
        left.write_text("mine")
    elif kind == "folder":
        shutil.copytree(tmp_path / "precious", left)
    else:
        left.symlink_to(tmp_path / "precious")
    before = files(tmp_path)
    with pytest.raises(OutputUnwritable, match=r"\.msd-part is in the way .*, and msd did not make it"):
        convert(tmp_path, FORCED)
    assert files(tmp_path) == before
    assert os.path.lexists(left)


def test_other_names_are_nobodys_debris(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / "file").write_text("mine")
    convert(tmp_path, SETTINGS)
    assert (tmp_path / ".out.part" / "file").read_text() == "mine"
    assert files(tmp_path / "out") == wanted


def folder_there(path: Path) -> None:
    path.unlink()
    (path / "mine").mkdir(parents=True)


def link_there(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe_there(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def socket_there(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(os.path.relpath(path))


def device_there(path: Path) -> None:
    path.unlink()
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("mine")


def link_for_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("unet.tflite", folder_there, r"out/unet\.tflite cannot be written \(Is a directory\)"),
        ("unet.tflite", link_there, r"out/unet\.tflite cannot be written \(Is a link\)"),
        ("unet.tflite", pipe_there, r"out/unet\.tflite cannot be written \(Is a pipe\)"),
        ("unet.tflite", socket_there, r"out/unet\.tflite cannot be written \(Is a socket\)"),
        ("unet.tflite", device_there, r"out/unet\.tflite cannot be written \(Is a device\)"),
        ("manifest.json", folder_there, r"out/manifest\.json cannot be written \(Is a directory\)"),
        ("tokenizer/vocab.json", folder_there, r"vocab\.json cannot be written \(Is a directory\)"),
        ("tokenizer/vocab.json", file_for_folder, r"tokenizer cannot be written to \(Is a file\)"),
        ("tokenizer/vocab.json", link_for_folder, r"tokenizer cannot be written to \(Is a link\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_replaced_is_refused_before_any_work(
    name: str, change: Callable[[Path], None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(tmp_path, EARLIER)
    monkeypatch.chdir(tmp_path)
    change(tmp_path / "out" / name)
    before = files(tmp_path)
    with patch.object(publications, "written", worked), pytest.raises(OutputUnwritable, match=message):
        convert(tmp_path, FORCED)
    assert files(tmp_path) == before


def worked(*_: object) -> None:
    raise AssertionError("there was work before the refusal")


@pytest.mark.parametrize("closed", ["out", "out/tokenizer"])
def test_another_users_bundle_is_refused_before_any_work(closed: str, place: Path) -> None:
    convert(place, EARLIER)
    if closed != "out":
        os.chown(place / "out", NOBODY if os.geteuid() == 0 else -1, -1)
    (place / closed).chmod(0o555)
    message = rf"{closed} cannot be written.*\(Permission denied\)"
    with nobody(), patch.object(publications, "written", worked):
        with pytest.raises(OutputUnwritable, match=message):
            convert(place, FORCED)
        open_bundle(place / "out", verify=True)


def test_another_users_file_in_a_sticky_folder(place: Path) -> None:
    convert(place, EARLIER)
    if os.geteuid():
        pytest.skip("only root has files of two users")
    (place / "out").chmod(0o1777)
    with nobody(), pytest.raises(OutputUnwritable, match=r"json cannot be written: it belongs to another"):
        convert(place, FORCED)


def test_a_disk_on_the_way_into_the_folder(tmp_path: Path) -> None:
    convert(tmp_path, EARLIER)
    shutil.rmtree(tmp_path / "out" / "tokenizer")
    with (
        tiny_disk(tmp_path / "out" / "tokenizer"),
        pytest.raises(OutputUnwritable, match="out/tokenizer cannot be written: it is on another disk"),
    ):
        convert(tmp_path, FORCED)
    open_bundle(tmp_path / "out")


def test_a_disk_that_is_too_small_is_refused_before_any_work(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", "1m") as small:
        (tmp_path / "out").symlink_to(small / "out")
        message = r"no space left to write .*out: it takes about \d+\.\d MB, and 1\.0 MB are free; free some"
        with patch.object(publications, "written", worked), pytest.raises(OutputUnwritable, match=message):
            convert(tmp_path, SETTINGS)
        assert names(small) == []


@pytest.mark.parametrize("earlier", [False, True])
def test_a_disk_that_is_full_at_any_stage(earlier: bool, tmp_path: Path, wanted: dict[str, bytes]) -> None:
    """Each time one more page is free, until the new bundle fits beside the old one."""
    refused = 0
    for pages in range(1, 200):
        with (
            tiny_disk(tmp_path / str(pages), "2m") as small,
            patch.object(conversion, "require_space"),
        ):
            if earlier:
                convert(small, EARLIER)
                (small / "out" / MINE).write_text("mine")
            before = files(small / "out")
            fill(small, pages)
            try:
                convert(small, FORCED)
            except OutputUnwritable as problem:
                refused += "no space left to write" in str(problem)
            else:
                mine = {MINE: b"mine"} if earlier else {}
                assert files(small / "out") == {**wanted, **mine}
                assert refused == pages - 1 > 10
                return
            assert files(small / "out") == before
            assert not list(small.rglob("*.msd-part"))
    raise AssertionError("the new bundle fits nowhere")


def fill(folder: Path, pages: int) -> None:
    """Leave so many pages of a disk free."""
    page = os.sysconf("SC_PAGE_SIZE")
    with (folder / "fill").open("wb") as stream:
        stream.write(bytes(shutil.disk_usage(folder).free - pages * page))


def test_a_bad_name_is_refused_before_the_old_files_go(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with staged(tmp_path / "out") as new:
        (new / "old").write_text("new")
        with pytest.raises(ValueError, match="not a file in the folder"):
            publish(new, tmp_path / "out", "old", ["../mine"])
    assert files(tmp_path / "out") == {"old": b"old"}
    with pytest.raises(ValueError, match="not a file in the folder"):
        write_journal(tmp_path, Journal(("/a",)))


def test_a_folder_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    with staged(tmp_path / "out") as new:
        (new / "file").write_text("new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "file").write_text("mine")
        with pytest.raises(OSError, match="Directory not empty"):
            publish(new, tmp_path / "out", "file")
    assert files(tmp_path) == {"out/file": b"mine"}


def test_a_new_folder_without_force_is_not_mixed_with_another(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MINE).write_text("mine")
    with pytest.raises(OutputExists, match="is not empty and not a converted bundle"):
        convert(tmp_path, SETTINGS)


def test_everything_is_on_the_disk_before_it_gets_its_name(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    events: list[tuple[str, str]] = []

    def sync(path: Path) -> None:
        events.append(("sync", path.name))

    def rename(old: Path, new: Path, move: Callable[[Path, Path], None] = os.rename) -> None:
        events.append(("rename", new.name))
        move(old, new)

    with (
        patch.object(disk, "sync", sync),
        patch("msd.files.journal.sync", sync),
        patch("os.rename", rename),
        patch("os.replace", rename),
        staged(tmp_path / "out") as new,
    ):
        (new / "a").write_text("a")
        (new / "b").write_text("b")
        publish(new, tmp_path / "out", "b")
    listed = events.index(("rename", "journal.json"))
    assert {("sync", name) for name in ("a", "b", "new", "journal.json.part")} <= {*events[:listed]}
    assert events[listed:] == [
        ("rename", "journal.json"), ("sync", ".msd-part"), ("rename", "a"), ("rename", "b"), ("sync", "out"),
    ]  # fmt: skip


def test_names_that_are_not_utf8_are_refused_in_a_sentence(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff"))
    odd.mkdir()
    with (
        patch.object(publications, "written", worked),
        pytest.raises(BadConfig, match="is not UTF-8"),
    ):
        convert(odd, SETTINGS)
    with pytest.raises(BadConfig, match="is not UTF-8, and LiteRT loads no file from there"):
        open_bundle(odd)


def test_very_long_names(tmp_path: Path) -> None:
    long = tmp_path / ("o" * 255)
    with staged(long) as new:
        (new / "file").write_text("new")
        publish(new, long, "file")
    recover(long)
    assert files(tmp_path) == {f"{long.name}/file": b"new"}


def test_an_export_says_how_much_room_it_takes(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundle")
    with tiny_disk(tmp_path / "disk", "16k") as small:
        (tmp_path / "out").symlink_to(small / "out")
        with pytest.raises(
            OutputUnwritable, match=r"out: it takes about \d+\.\d kB, and \d+\.\d kB are free"
        ):
            publications.export(tmp_path)
        assert names(small) == []


def test_the_note_of_an_export_leads_nowhere(tmp_path: Path) -> None:
    publications.earlier_export(tmp_path)
    (tmp_path / "mine").write_text("mine")
    note = tmp_path / "out" / "sd-export.json"
    odd = ["", ".", "/mine", "../mine", "a\0b", "SDModels"]
    note.write_text(json.dumps({**json.loads(note.read_text()), "files": odd}))
    publications.export(tmp_path, force=True)
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "out" / "SDModels" / "unet.tflite").is_file()
