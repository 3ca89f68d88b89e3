"""What CI runs, with a stand-in for make: it goes on after a failure, and its last line counts all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci/run"
QUICK = "3 passed, 1 skipped, 40 deselected in 4.50s (0:00:04)"
REST = "=== 4 passed in 61.20s ==="
NEWEST = "build/pythons/newest"


def write_command(path: Path, text: str) -> None:
    """Write a shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(
    folder: Path, printed: dict[str, str], failing: str = "", newest: str = ""
) -> tuple[int, list[str], list[str]]:
    """Return the exit code, what was made, and what .ci/run prints, where make prints these by target.

    Where there is a newest other Python, make prints `newest` for its tests.
    """
    cases = " ".join(f"{target}) echo {text!r};;" for target, text in printed.items())
    venv = f"VENV={NEWEST}"
    other = f'if [ "$2" = {venv} ]; then echo {newest!r}; [ {failing or "none"} != {venv} ]; exit; fi'
    made = f'echo "$1${{2:+ {venv}}}" >> {folder}/made'
    write_command(folder / "bin/make", f'{made}\n{other}\ncase $1 in {cases} esac\n[ "$1" != "{failing}" ]')
    write_command(folder / "bin/apt-get", "exit 1")
    if newest:
        write_command(folder / NEWEST / "bin/python", "echo Python 3.99.0")
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci/run")
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([folder / ".ci/run"], env=environment, capture_output=True, text=True)
    return done.returncode, (folder / "made").read_text().splitlines(), done.stdout.splitlines()


def test_the_last_line_counts_the_tests_of_both_parts(tmp_path: Path) -> None:
    code, made, lines = run(tmp_path, {"test": QUICK, "test-rest": REST})
    assert made[0] == "setup"
    assert {*made[1:4]} == {"check", "test-python", "test"}
    assert made[4:] == ["test-rest"]
    assert "no other Python was installed: the tests run on one" in lines
    assert (code, lines[-1]) == (0, "7 passed, 0 failed, 1 skipped")


def test_the_tests_run_on_the_newest_other_python_too(tmp_path: Path) -> None:
    code, made, lines = run(tmp_path, {"test": QUICK, "test-rest": REST}, newest="5 passed in 9.00s")
    assert {*made[1:5]} == {"check", "test-python", f"setup VENV={NEWEST}", "test"}
    assert made[5:] == [f"test VENV={NEWEST}", "test-rest"]
    assert lines[lines.index("make test on Python 3.99.0:") + 1] == "5 passed in 9.00s"
    assert (code, lines[-1]) == (0, "12 passed, 0 failed, 1 skipped")


def test_a_failure_on_the_newest_python_is_named(tmp_path: Path) -> None:
    tests = f"VENV={NEWEST}"
    code, _, lines = run(tmp_path, {"test": QUICK, "test-rest": REST}, tests, "1 failed, 4 passed in 9.00s")
    assert (code, lines[-2:]) == (1, [f"make test {tests} failed", "11 passed, 1 failed, 1 skipped"])


def test_tests_on_the_newest_python_that_did_not_finish_are_named(tmp_path: Path) -> None:
    code, _, lines = run(tmp_path, {"test": QUICK, "test-rest": REST}, f"VENV={NEWEST}", "Killed")
    assert (code, lines[-2:]) == (1, ["make test-newest did not finish", "7 passed, 0 failed, 1 skipped"])


@pytest.mark.parametrize("failing", ["setup", "check", "test", "test-rest", "test-python"])
def test_a_failure_is_named_and_the_others_run(failing: str, tmp_path: Path) -> None:
    code, made, lines = run(tmp_path, {"test": REST, "test-rest": REST}, failing)
    assert len(made) == 5
    assert (code, lines[-2:]) == (1, [f"make {failing} failed", "8 passed, 0 failed"])


def test_what_the_check_said_is_repeated_at_the_end(tmp_path: Path) -> None:
    _, _, lines = run(tmp_path, {"check": "a type is wrong", "test": QUICK, "test-rest": REST}, "check")
    assert "a type is wrong" in lines[-8:]
    assert lines.count("a type is wrong") == 2


def test_failures_and_errors_are_failed(tmp_path: Path) -> None:
    printed = {"test": "2 failed, 3 passed, 1 error in 5.00s", "test-rest": REST}
    code, _, lines = run(tmp_path, printed, "test")
    assert (code, lines[-1]) == (1, "7 passed, 3 failed")


def test_a_part_that_did_not_finish_is_named(tmp_path: Path) -> None:
    code, _, lines = run(tmp_path, {"test": "Killed", "test-rest": REST}, "test")
    assert (code, lines[-2:]) == (1, ["make test did not finish", "4 passed, 0 failed"])


def test_the_rest_ends_in_time(tmp_path: Path) -> None:
    _, _, lines = run(tmp_path, {"test": QUICK, "test-rest": "the rest's end: $TESTS_UNTIL"})
    (until,) = (int(line.rsplit(" ", 1)[1]) for line in lines if "end: " in line)
    assert 4000 < until - time.time() < 4600
