"""A worker that loads nothing: asked, it starts a process that holds 200 MB for so many seconds."""

from __future__ import annotations

import subprocess
import sys
from multiprocessing.connection import Connection

from msd.delegate.worker import Done, serve

HOLD = "import sys, time; held = bytearray(b'1') * 200_000_000; time.sleep(float(sys.argv[1]))"


def answer(seconds: str) -> Done:
    subprocess.run([sys.executable, "-c", HOLD, seconds], check=True)
    return Done(float(seconds), {})


def main(handle: int) -> None:
    serve(Connection(handle), answer)
