"""Single files that commands write: exactly one of two wins, and only a file is ever replaced."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from msd.cli import msd
from msd.errors import OutputExists, OutputUnwritable
from msd.files.atomic import atomic_write
from msd.files.publication import staged
from msd.files.scratch import scratch_folder
from msd.files.targets import require_writable
from msd.files.unwritable import raises_unwritable
from tests.app_bundles import write_bundle
from tests.tiny_disk import tiny_disk


def write(path: Path, text: str = "new", force: bool = False) -> None:
    with atomic_write(path, force) as temporary:
        temporary.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def race(path: Path, force: bool, writers: int = 4) -> list[int]:
    """Let processes write the same file, all of them begun before one ends; return their exit codes."""
    children = []
    begin, go = os.pipe()
    for number in range(writers):
        if not (child := os.fork()):
            os._exit(attempt(path, f"{number} " * 5000, force, begin, go))
        children.append(child)
    os.close(begin)
    os.close(go)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def attempt(path: Path, text: str, force: bool, begin: int, go: int) -> int:
    """Write when all writers have closed their end of the pipe; return 7 where the file exists by then."""
    try:
        require_writable(path, force)
        os.close(go)
        os.read(begin, 1)
        write(path, text, force)
    except OutputExists:
        return 7
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@pytest.mark.parametrize("links", [True, False])
def test_one_of_many_wins_without_force(links: bool, tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / f"{number}.png"
        with patch.object(os, "link", os.link if links else refused):
            assert sorted(race(path, force=False)) == [0, 7, 7, 7]
        text = path.read_text()
        assert text == text[:2] * 5000
    assert names(tmp_path) == [f"{number}.png" for number in range(10)]


def refused(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_all_of_many_write_with_force(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")
    assert race(path, force=True) == [0, 0, 0, 0]
    text = path.read_text()
    assert text == text[:2] * 5000
    assert names(tmp_path) == ["a.png"]


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    writing = atomic_write(path, False)
    writing.__enter__().write_text("new")
    path.write_text("mine")
    with pytest.raises(OutputExists, match="out exists; --force replaces it"):
        writing.__exit__(None, None, None)
    assert path.read_text() == "mine"
    assert names(tmp_path) == ["out"]


def pipe_at(path: Path) -> None:
    os.mkfifo(path)


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(os.path.relpath(path))


def device_at(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def identity(path: Path) -> tuple[int, ...]:
    """What tells a replaced file: reading a link may change the time of its last access."""
    found = path.lstat()
    return found.st_ino, found.st_dev, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


KINDS = [(pipe_at, "a pipe"), (socket_at, "a socket"), (device_at, "a device"), (link_to_device, "a device")]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_what_is_no_file_stays(
    make: Callable[[Path], None], kind: str, force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "out"
    make(path)
    before = identity(path)
    message = rf"(out|null) cannot be written \(Is {kind}\); give the name of a file"
    with pytest.raises(OutputUnwritable, match=message):
        require_writable(path, force)
    with pytest.raises((OutputUnwritable, OutputExists)):
        write(path, force=force)
    assert identity(path) == before
    assert names(tmp_path) == ["out"]


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("deep/file")
    write(tmp_path / "link")
    assert (tmp_path / "deep" / "file").read_text() == "new"
    with pytest.raises(OutputExists, match="link exists"):
        require_writable(tmp_path / "link", force=False)
    write(tmp_path / "link", "newer", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "file").read_text() == "newer"
    assert names(tmp_path / "deep") == ["file"]


def test_a_link_to_another_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", "64k") as other:
        (tmp_path / "link").symlink_to(other / "file")
        write(tmp_path / "link", "new")
        assert (other / "file").read_text() == "new"


def test_what_lies_where_we_would_write_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / ".out.msd-part").mkdir()
    (tmp_path / ".out.msd-part" / "mine").write_text("mine")
    for refuses in (require_writable, lambda path, force: write(path)):
        with pytest.raises(OutputUnwritable, match=r"\.out\.msd-part is in the way .*msd did not make it"):
            refuses(tmp_path / "out", False)
    assert (tmp_path / ".out.msd-part" / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("generate", "bundle", "--prompt", "x", "-o"), "image.png"),
        (("generate", "bundle", "--prompt", "x", "-o", "a.png", "--timeline"), "timeline.svg"),
        (("report", "bundle", "--no-run", "--json", "-o"), "report.json"),
        (("bench", "bundle", "-o"), "bench.json"),
        (("blocks", "bundle", "--reference", "bundle", "--plot"), "plot.svg"),
        (("sensitivity", "--candidate", "gpu-w8", "--target-db", "40", "-o"), "recipe.toml"),
        (("convert", "-o", "out", "--prune", "10%", "--prune-report"), "report.json"),
        (("regress", "demo", "bundle", "--junit"), "junit.xml"),
    ],
)
def test_every_command_refuses_a_device(
    command: tuple[str, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    device_at(Path(option))
    result = run(*command, option, "--force")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: {option} cannot be written (Is a device); give the name of a file\n"
    assert Path(option).is_char_device()


FOLDERS = [
    ("compare", "bundle", "bundle", "--prompts", "prompts.txt"),
    ("regress", "demo", "bundle"),
    ("export-android", "bundle"),
    ("export-files", "bundle"),
    ("export-web", "bundle"),
]


@pytest.mark.parametrize("command", FOLDERS, ids=lambda words: words[0])
def test_nothing_else_is_written_into_converted_files_or_the_root(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export into the folder that it exports would leave a folder that is both."""
    write_bundle(tmp_path / "bundle")
    (tmp_path / "prompts.txt").write_text("a star")
    monkeypatch.chdir(tmp_path)
    before = names(tmp_path / "bundle")
    into = run(*command, "-o", "bundle", "--force")
    last = "error: bundle is a folder that msd-convert wrote; give another one"
    assert (into.exit_code, into.stderr.splitlines()[-1]) == (1, last)
    assert names(tmp_path / "bundle") == before
    root = run(*command, "-o", "/", "--force")
    last = "error: / is the root of the file system; give a folder in it"
    assert (root.exit_code, root.stderr.splitlines()[-1]) == (1, last)


def run(*words: str) -> Result:
    return CliRunner().invoke(msd, words)


@pytest.mark.parametrize("name", ["", "."])
def test_a_name_that_is_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("generate", "bundle", "--prompt", "x", "-o", name)
    assert result.exit_code == 2
    assert "Invalid value for '-o'" in result.stderr


def msd_process(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-c", "from msd.cli import msd; msd()", *words]  # -P: no working folder
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, stderr=subprocess.PIPE, env=environment, check=False, **options)


PLAN = ("convert", "--dry-run", "-o", "/nowhere", "--json")


def test_a_full_stdout_is_a_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        result = msd_process(*PLAN, stdout=full)
    assert result.returncode == 1
    assert (
        result.stderr == b"error: stdout, or a temporary file, cannot be written (No space left on device)\n"
    )


def test_a_deleted_working_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()

    def leave() -> None:
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()

    result = msd_process(*PLAN, stdout=subprocess.PIPE, preexec_fn=leave)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == (
        b"error: the working folder has been deleted; change to another folder and run again\n"
    )


def test_a_path_that_is_not_utf8_is_printed(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/b\xff")
    result = msd_process("generate", name, "--prompt", "x", "-o", "a.png", stdout=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr.endswith(b"b\\udcff is not a folder; it should be one that msd-convert wrote\n")


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of our own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def leave_scratch() -> None:
    """Leave the scratch folder of a killed process."""
    if not (child := os.fork()):
        with scratch_folder() as folder:
            (folder / "large").write_text("left")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_scratch_of_a_killed_run_goes_with_the_next(around: Path) -> None:
    (around / "msd-scratch-mine").mkdir()
    (around / "msd-scratch-mine" / "file").write_text("mine")
    leave_scratch()
    assert len(names(around)) == 2
    with scratch_folder() as ours:
        assert len(names(around)) == 2
        with scratch_folder():
            assert ours.is_dir()
            assert ours.parent.stat().st_mode & 0o77 == 0
    assert names(around) == ["msd-scratch-mine"]
    assert (around / "msd-scratch-mine" / "file").read_text() == "mine"


def test_an_error_on_a_file_of_a_folder_names_the_place_that_it_is_for(tmp_path: Path) -> None:
    out = tmp_path / "report"
    with (
        pytest.raises(OutputUnwritable, match=f"^cannot write {out}/a.png: no space$"),
        staged(out) as staging,
        raises_unwritable(out, staging),
    ):
        raise OutputUnwritable(f"cannot write {staging / 'a.png'}: no space")


def test_a_conversion_is_not_replaced_by_a_report(tmp_path: Path) -> None:
    for name in ("manifest.json", "unet.tflite", "report.json"):
        (tmp_path / name).write_text(name)
    for name in ("manifest.json", "unet.tflite"):
        with pytest.raises(OutputUnwritable, match=rf"{name} belongs to the conversion in .*; give another"):
            require_writable(tmp_path / name, force=True)
    require_writable(tmp_path / "report.json", force=True)
    (tmp_path / "unet.tflite").unlink()
    require_writable(tmp_path / "manifest.json", force=True)
