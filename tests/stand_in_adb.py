"""A stand-in for adb: it has no phone, and replays the texts in tests/recorded/adb as a plan says.

    python tests/stand_in_adb.py PLAN.json … what adb is given …

The plan is a JSON object beside which the stand-in keeps "calls.txt" and the folder "phone". Its keys:
"devices", "help", "run", "thermal" name a text each (thermal: a list, of which the last is said for ever);
"code" is the exit code of "run"; "result": the bytes of a result file, in hexadecimal; "push": what a push
complains; "seconds": how long the program runs; "lost": from which call on the phone is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

TEXTS = Path(__file__).parent / "recorded" / "adb"
INTRODUCTION = "* this is tests/stand_in_adb.py, a stand-in for adb: no phone is there *"
PLAN = {"devices": "devices-one", "thermal": ["thermal-0"], "help": "tflite-help", "run": "tflite-whole"}


class StandIn:
    """One call of adb."""

    def __init__(self, plan: Path) -> None:
        self.plan: dict[str, Any] = PLAN | json.loads(plan.read_text())
        self.folder = plan.parent
        self.phone = self.folder / "phone"
        self.phone.mkdir(exist_ok=True)

    def answer(self, words: list[str]) -> int:
        calls = self.folder / "calls.txt"
        before = calls.read_text().splitlines() if calls.exists() else []
        calls.write_text("\n".join([*before, json.dumps(words)]) + "\n")
        if words[0] == "devices":
            print(INTRODUCTION)
            return self.say(self.plan["devices"])
        assert words[0] == "-s"
        if len(before) >= self.plan.get("lost", 1 << 30):
            return self.say("disconnected", 1)
        return getattr(self, words[2])(*words[3:])

    def say(self, text: str, code: int = 0) -> int:
        print((TEXTS / f"{text}.txt").read_text(), end="", flush=True)
        return code

    def push(self, local: str, remote: str) -> int:
        if "push" in self.plan:
            print(f"adb: error: failed to copy '{local}' to '{remote}': {self.plan['push']}")
            return 1
        shutil.copy(local, self.at(remote))
        print(f"{local}: 1 file pushed, 0 skipped.")
        return 0

    def pull(self, remote: str, local: str) -> int:
        if not self.at(remote).exists():
            print(f"adb: error: failed to stat remote object '{remote}': No such file or directory")
            return 1
        shutil.copy(self.at(remote), local)
        return 0

    def shell(self, line: str) -> int:
        if line.startswith("echo msd-pid"):
            return self.program(shlex.split(line.partition("exec ")[2])[1:])
        command, *rest = shlex.split(line)
        return getattr(self, f"do_{command}")(*rest)

    def program(self, flags: list[str]) -> int:
        print(f"msd-pid={os.getpid()}", flush=True)
        if flags == ["--help"]:
            return self.say(self.plan["help"], self.plan.get("help code", 1))
        named = dict(re.findall(r"--(\w+)=(\S*)", " ".join(flags)))
        if "result_file_path" in named:
            self.at(named["result_file_path"]).write_bytes(bytes.fromhex(self.plan.get("result", "")))
        time.sleep(self.plan.get("seconds", 0))
        return self.say(self.plan["run"], self.plan.get("code", 0))

    def do_getprop(self) -> int:
        return self.say("properties")

    def do_dumpsys(self, service: str) -> int:
        if service == "SurfaceFlinger":
            return self.say("surfaceflinger")
        calls = (self.folder / "calls.txt").read_text().count("thermalservice")
        thermal = self.plan["thermal"]
        return self.say(thermal[min(calls, len(thermal)) - 1])

    def do_sha256sum(self, remote: str) -> int:
        if not self.at(remote).exists():
            print(f"sha256sum: {remote}: No such file or directory")
            return 1
        print(hashlib.sha256(self.at(remote).read_bytes()).hexdigest(), remote)
        return 0

    def do_rm(self, *words: str) -> int:
        for remote in words[1:]:
            self.at(remote).unlink(missing_ok=True)
        return 0

    def do_mkdir(self, *words: str) -> int:
        return 0

    def do_chmod(self, *words: str) -> int:
        return 0

    def do_rmdir(self, *words: str) -> int:
        return 0

    def do_kill(self, pid: str) -> int:
        return 0

    def at(self, remote: str) -> Path:
        return self.phone / remote.replace("/", "_")


if __name__ == "__main__":
    sys.exit(StandIn(Path(sys.argv[1])).answer(sys.argv[2:]))
