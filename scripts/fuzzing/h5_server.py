"""A process that has the HDF5 library and forks for each .h5 file, as the product starts one for each.

A start takes a quarter of a second, a fork some milliseconds.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from msd.conversion.sources import h5_index
from msd.conversion.sources.h5 import TIMEOUT


def run_index(path: Path) -> subprocess.CompletedProcess[bytes]:
    """Return what the process of `msd.conversion.sources.h5.run_index` returns, by a fork.

    Raises TimeoutExpired as that does, and RuntimeError where an exception ends the process, as no file may.
    """
    server = _server()
    assert server.stdin
    assert server.stdout
    server.stdin.write(os.fsencode(path) + b"\n")
    server.stdin.flush()
    code = int(server.stdout.readline())
    answer = path.with_suffix(".answer").read_bytes()
    if code == -signal.SIGALRM:
        raise subprocess.TimeoutExpired("h5_index", TIMEOUT)
    if code > 0:
        raise RuntimeError(f"the index ends with {code}: {answer.decode(errors='replace')[-800:]}")
    return subprocess.CompletedProcess([], code, answer)


@cache
def _server() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "scripts.fuzzing.h5_server"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    atexit.register(server.kill)
    return server


def main() -> None:
    """Read paths, one on a line; print the exit code of each, and write its answer beside it."""
    for line in sys.stdin.buffer:
        path = Path(os.fsdecode(line.removesuffix(b"\n")))
        child = os.fork()
        if child == 0:
            _index(path)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _index(path: Path) -> None:
    """Write the index of a file beside it, and end this process."""
    signal.alarm(TIMEOUT)
    answer = os.open(path.with_suffix(".answer"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(answer, 1)
    os.dup2(answer, 2)
    code = 1
    try:
        h5_index.main(str(path))
        sys.stdout.flush()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
