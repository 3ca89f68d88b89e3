"""One phone over adb: commands that end when this process does, and adb's errors as sentences."""

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
"""The most seconds that a query may take."""

PUSH_SECONDS = 1800.0
LOST = re.compile(
    r"(?:adb|error): (?:device (?:'[^']*' )?(?:not found|offline|unauthorized)|no devices|closed|protocol)"
)
STATES = {
    "unauthorized": "does not trust this computer yet; unlock it and allow USB debugging on its screen",
    "offline": "is offline; unplug it and plug it in again",
    "no permissions": "may not be used by this user; add a udev rule for it, or the user to plugdev",
    "recovery": "is in recovery; start Android",
    "sideload": "is in sideload; start Android",
    "bootloader": "is in its bootloader; start Android",
}


@dataclass(frozen=True)
class Answer:
    """The output of a command, both streams together, and its exit code."""

    code: int
    text: str

    @property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "no words")


class Adb:
    """The phone with that serial number, or the only one there is.

    `program` is adb's name or path. Raises PhoneFailed where there is no adb, no phone, more than one phone,
    or a phone that cannot be used.
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
        """Return the answer of a command on the phone; raises PhoneFailed if the phone is disconnected."""
        return self._checked(["shell", shlex.join(words)], seconds)

    def script(self, text: str, seconds: float = SECONDS) -> Answer:
        """Return the answer of a line for the phone's shell, whose process ends if this one is interrupted.

        The line must print "msd-pid=" and its process number first.
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
        """Run adb; its process never outlives this call."""
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
        """End the process on the phone that an interrupted command has started."""
        if match := re.search(r"msd-pid=(\d+)", text):
            words = [*self._command, "shell", f"kill {match.group(1)}"]
            subprocess.run(words, capture_output=True, timeout=5, check=False)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit code; None if the process did not end in time and was killed."""
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
    """Return the state of each device that `adb devices -l` lists, followed by its model."""
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
