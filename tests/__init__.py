"""The tests, which keep Python's bytecode even where the machine says otherwise, and so does what they start.

Without it each process compiles msd anew, and each worker rewrites the assertions of every test file. And
workers of pytest-xdist share the processor's cores: threads beyond those would wait for each other, awake.
"""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

THREADS = "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"
"""How many threads numpy, torch and TensorFlow use; read when they are imported."""

if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    for name in THREADS:
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // int(workers))))
