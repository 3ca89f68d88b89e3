"""A worker that loads nothing: asked, a thread of it starts a process that holds 200 MB for a while."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from msd.run.runners.messages import Done
from msd.run.runners.worker import serve

HOLD = "import sys, time; held = bytearray(b'1') * 200_000_000; time.sleep(float(sys.argv[1]))"


def answer(seconds: str) -> Done:
    command = [sys.executable, "-c", HOLD, seconds]
    with ThreadPoolExecutor(1) as thread:
        thread.submit(subprocess.run, command, check=True).result()
    return Done(float(seconds), {})


def main(handle: int) -> None:
    serve(Connection(handle), answer)
