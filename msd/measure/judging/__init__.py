"""Judge a file by the real GPU delegate: the operations that it accepts, and the error of its results."""

from msd.measure.judging.judge import judge
from msd.measure.judging.rejection import Rejection
from msd.measure.judging.verdict import Distance, Verdict

__all__ = ["Distance", "Rejection", "Verdict", "judge"]
