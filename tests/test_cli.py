"""The umbrella command: what it lists, what it imports, how it fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import msd as package
from msd.cli import COMMANDS, msd
from msd.cli.command import Command
from msd.cli.convert import convert
from msd.cli.report import report
from msd.errors import BadConfig

HEAVY = (
    "ai_edge_litert",
    "diffusers",
    "keras",
    "keras_cv",
    "numpy",
    "rich",
    "tensorflow",
    "torch",
    "transformers",
)


def test_help_lists_every_command(golden: Callable[[str, str], None]) -> None:
    result = CliRunner().invoke(msd, ["--help"], prog_name="msd", terminal_width=100)
    assert result.exit_code == 0
    assert all(f"  {name} " in result.output for name in COMMANDS)
    golden("msd-help.txt", result.output)


def test_help_and_the_commands_themselves_import_nothing_heavy() -> None:
    script = (
        "import sys; import msd.cli.generate; from msd.cli import msd\n"
        "msd(['--help'], standalone_mode=False)\n"
        f"sys.exit(' '.join(name for name in {HEAVY} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_says_what_it_does(name: str) -> None:
    command = msd.get_command(click.Context(msd), name)
    assert isinstance(command, click.Command)
    result = CliRunner().invoke(msd, [name, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_commands_names_every_command(name: str) -> None:
    text = (Path(__file__).parent.parent / "docs" / "commands.md").read_text("utf-8")
    assert f"`msd {name}`" in text


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["generate", "--nonsense"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(msd, arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_a_user_s_error_is_one_line_and_exit_code_1() -> None:
    @click.command(cls=Command)
    def fail() -> None:
        raise BadConfig("the moon is not made of cheese")

    result = CliRunner().invoke(fail)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: the moon is not made of cheese\n"


def test_sigterm_ends_a_command_by_an_exit_and_is_as_before_after_it() -> None:
    @click.command(cls=Command)
    def fail() -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    assert CliRunner().invoke(fail).exit_code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_another_error_keeps_its_traceback() -> None:
    @click.command(cls=Command)
    def fail() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(fail).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("said", "shown"), [("Unable to allocate 1 TiB", " (Unable to allocate 1 TiB)"), ("", "")]
)
def test_too_little_memory_is_a_sentence(said: str, shown: str) -> None:
    @click.command(cls=Command)
    def fail() -> None:
        raise MemoryError(said)

    done = CliRunner().invoke(fail)
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: there is too little memory{shown}: end other programs, or take smaller or fewer images\n"
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("docs bench", 0), ("docs nothing", 2), ("--version", 0)])
def test_a_stream_that_is_closed_changes_no_exit_code(arguments: str, code: int, closed: str) -> None:
    command = f'"{sys.executable}" -m msd.cli {arguments} {closed}'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize("command", [msd, convert, report])
def test_each_installed_command_says_its_version(command: click.Command) -> None:
    done = CliRunner().invoke(command, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"msd, version {package.__version__}\n")


def test_files_get_no_number_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    """What native libraries print would be written into them."""
    (tmp_path / "file").touch()
    script = "from msd.cli.streams import open_streams; open_streams(); print(open('file').fileno() > 2)"
    command = f'cd {tmp_path}; PYTHONPATH={Path.cwd()} {sys.executable} -c "{script}" <&- 2>&-'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0)
