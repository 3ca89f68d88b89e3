"""Filter stderr: native libraries write some lines there at every log level."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator

_STDERR = threading.RLock()
"""Held while stderr leads elsewhere: a second thread would take the first one's file for stderr."""


@contextlib.contextmanager
def without_lines(pattern: re.Pattern[bytes]) -> Iterator[None]:
    """Hold back what the `with` block writes to stderr, then write the lines that do not match `pattern`."""
    with _STDERR, _held_back(pattern):
        yield


@contextlib.contextmanager
def _held_back(pattern: re.Pattern[bytes]) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            output.seek(0)
            for line in output:
                if not pattern.match(line):
                    os.write(2, line)
