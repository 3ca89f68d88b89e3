"""One phone over adb: commands that end when we do, and its complaints as sentences."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from msd.errors import PhoneFailed

SECONDS = 60.0
"""All that a command that only asks something may take."""

PUSH_SECONDS = 1800.0
LOST = re.compile(
    r"(?:adb|error): (?:device (?:'[^']*' )?(?:not found|offline|unauthorized)|no devices|closed|protocol)"
)
STATES = {
    "unauthorized": "does not trust this computer yet; unlock it and accept the question on its screen",
    "offline": "is offline; unplug it and plug it in again",
    "no permissions": "may not be used by this user; add a udev rule for it, or the user to plugdev",
    "recovery": "is in recovery; start Android",
    "sideload": "is in sideload; start Android",
    "bootloader": "is in its bootloader; start Android",
}


@dataclass(frozen=True)
class Answer:
    """What a command said on both streams, and its exit code."""

    code: int
    text: str

    @property
    def first_line(self) -> str:
        """The first line that says something."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "no words")


class Adb:
    """The phone with that serial number, or the only one there is.

    `program` is adb's name or path. Raises PhoneFailed where there is no adb, no phone or several, or where
    the one there is cannot be used.
    """

    def __init__(self, program: str = "adb", serial: str | None = None) -> None:
        executable = shutil.which(program)
        if executable is None:
            raise PhoneFailed(
                f"there is no {program}; install Android's platform-tools, or name its adb with --adb"
            )
        self._command = [executable]
        self.serial = _chosen(_devices(self._run(["devices", "-l"], SECONDS).text), serial)
        self._command = [executable, "-s", self.serial]

    def shell(self, *words: str, seconds: float = SECONDS) -> Answer:
        """Return what a command said on the phone; raises PhoneFailed where the phone was lost."""
        return self._checked(["shell", shlex.join(words)], seconds)

    def script(self, text: str, seconds: float = SECONDS) -> Answer:
        """The same for a line of the phone's shell; where we are stopped, what it began is stopped too.

        The line must write "msd-pid=" and its process's number first.
        """
        return self._checked(["shell", text], seconds)

    def push(self, local: Path, remote: str) -> Answer:
        """Copy a file to the phone."""
        return self._checked(["push", str(local), remote], PUSH_SECONDS)

    def pull(self, remote: str, local: Path) -> Answer:
        """Copy a file from the phone."""
        return self._checked(["pull", remote, str(local)], SECONDS)

    def _checked(self, words: list[str], seconds: float) -> Answer:
        answer = self._run(words, seconds)
        if answer.code and LOST.search(answer.text):
            raise PhoneFailed(f"the phone {self.serial} was disconnected ({answer.first_line})")
        return answer

    def _run(self, words: list[str], seconds: float) -> Answer:
        """Run adb; nothing of it is left when this ends, however it ends."""
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            with subprocess.Popen(
                [*self._command, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            ) as process:
                try:
                    code = _wait(process, seconds)
                except BaseException:
                    process.kill()
                    process.wait()
                    output.seek(0)
                    self._stop(output.read())
                    raise
            output.seek(0)
            if code is None:
                raise PhoneFailed(f"adb {words[0]} did not end within {seconds:g} s")
            return Answer(code, output.read())

    def _stop(self, text: str) -> None:
        """End on the phone what an interrupted command has begun there."""
        if found := re.search(r"msd-pid=(\d+)", text):
            words = [*self._command, "shell", f"kill {found.group(1)}"]
            subprocess.run(words, capture_output=True, timeout=5, check=False)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit code; None where it did not end in time, and was ended."""
    until = monotonic() + seconds
    while monotonic() < until:
        try:
            return process.wait(timeout=min(0.2, seconds))
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.wait()
    return None


def _devices(text: str) -> dict[str, str]:
    """Return the state of each device that `adb devices -l` lists, and its model behind it."""
    states = {}
    for line in text.splitlines():
        match = re.match(r"(\S+)\s+(device|no permissions|[a-z]+)\b(.*)", line)
        if match and not line.startswith(("List of", "*", "adb")):
            model = re.search(r"model:(\S+)", match[3])
            states[match[1]] = f"{match[2]} {model[1] if model else ''}".strip()
    return states


def _chosen(devices: dict[str, str], serial: str | None) -> str:
    """Return the serial number of the phone to use; raises PhoneFailed."""
    if not devices:
        raise PhoneFailed("adb sees no phone; connect one and turn on USB debugging in its developer options")
    listed = ", ".join(f"{name} ({state})" for name, state in devices.items())
    if serial is None and len(devices) > 1:
        raise PhoneFailed(f"adb sees several devices, {listed}; choose one with --serial")
    name = serial or next(iter(devices))
    if name not in devices:
        raise PhoneFailed(f"adb sees no {name}; it sees {listed}")
    state = devices[name]
    if not state.startswith("device"):
        why = next((words for word, words in STATES.items() if state.startswith(word)), f"is {state}")
        raise PhoneFailed(f"the phone {name} {why}")
    return name
