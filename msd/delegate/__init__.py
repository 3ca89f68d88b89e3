"""LiteRT's real GPU delegate, in a child process: what it takes of a file, and what it computes."""

from msd.delegate.adapter import Adapter, find
from msd.delegate.judge import judge
from msd.delegate.rejection import Rejection
from msd.delegate.session import Session, run
from msd.delegate.verdict import Distance, Verdict

__all__ = ["Adapter", "Distance", "Rejection", "Session", "Verdict", "find", "judge", "run"]
