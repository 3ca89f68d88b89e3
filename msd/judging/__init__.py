"""Judge a file by the real GPU delegate: the operations that it accepts, and the error of its results."""

from msd.judging.judge import judge
from msd.judging.rejection import Rejection
from msd.judging.verdict import Distance, Verdict

__all__ = ["Distance", "Rejection", "Verdict", "judge"]
