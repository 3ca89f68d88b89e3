"""Filter stderr: native libraries write some lines there at every log level."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def without_lines(pattern: re.Pattern[bytes]) -> Iterator[None]:
    """Hold back what the `with` block writes to stderr, then write the lines that do not match `pattern`."""
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
