"""The tests, which keep Python's bytecode even where the machine says otherwise, and so does what they start.

Without it each process compiles msd anew, and each worker rewrites the assertions of every test file.
"""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
