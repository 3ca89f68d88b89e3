"""`python -m msd.cli` is the `msd` command, for launchers that take a module."""

from msd.cli import msd

msd()
