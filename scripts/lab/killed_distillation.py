"""A distillation of the demo checkpoint that is killed at random moments, beside one that is left alone."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msd.bundle import file_facts
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions

UPDATES, SAVE_EVERY = 120, 20
UNET = "unet/diffusion_pytorch_model.safetensors"


def kill_and_compare(work: Path, kills: int, smoke: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Return when runs of `msd distill` were killed, and whether their student is that of one left alone.

    A run is killed at a moment drawn from the first half of the seconds that the one takes which is left
    alone; there are fewer kills where one ends before its moment.
    """
    prompts = work / "prompts.txt"
    prompts.write_text("\n".join(captions("train", 64, 1)), "utf-8")
    begun = time.monotonic()
    subprocess.run(_command(work, "whole", smoke), check=True)
    seconds = time.monotonic() - begun
    say(f"left alone: {seconds:.1f} s")
    moments, rng = list[dict[str, Any]](), random.Random(0)
    while len(moments) < kills and not _ends_within(after := rng.uniform(0, seconds / 2), work, smoke):
        moments.append({"seconds": after, "state": _newest_state(work / "killed.state")})
        say(f"killed: {moments[-1]}")
    if not (work / "killed").exists():
        subprocess.run(_command(work, "killed", smoke), check=True)
    hashes = {name: file_facts(work / name / UNET).sha256 for name in ("whole", "killed")}
    return {
        "updates": 4 if smoke else UPDATES,
        "seconds": seconds,
        "kills": moments,
        "sha256": hashes,
        "equal": hashes["whole"] == hashes["killed"],
    }


def _ends_within(seconds: float, work: Path, smoke: bool) -> bool:
    """Run the distillation that is killed after so many seconds; return whether it had ended by then."""
    process = subprocess.Popen(_command(work, "killed", smoke))
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


def _command(work: Path, name: str, smoke: bool) -> list[str]:
    updates, every, batch = (4, 2, 2) if smoke else (UPDATES, SAVE_EVERY, 128)
    numbers = {
        "--guidance": 7.5,
        "--steps": 10,
        "--updates": updates,
        "--save-every": every,
        "--batch": batch,
        "--rate": 3e-4,
        "--trajectories": 4 if smoke else 512,
        "--sample-every": 0,
        "--prompts": work / "prompts.txt",
        "-o": work / name,
    }
    options = [str(each) for pair in numbers.items() for each in pair]
    return [sys.executable, "-m", "msd.cli", "distill", str(CHECKPOINT), *options]


def _newest_state(folder: Path) -> str | None:
    """Return the newest state or student in a folder, from which the next run goes on."""
    found = [*folder.glob("*/update-*"), *folder.glob("*/student.safetensors")]
    last = max(found, key=lambda path: path.stat().st_mtime, default=None)
    return str(last.relative_to(folder)) if last else None
