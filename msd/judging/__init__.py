"""What the real GPU delegate makes of a file: which operations it accepts, and how close its numbers are."""

from msd.judging.judge import judge
from msd.judging.rejection import Rejection
from msd.judging.verdict import Distance, Verdict

__all__ = ["Distance", "Rejection", "Verdict", "judge"]
