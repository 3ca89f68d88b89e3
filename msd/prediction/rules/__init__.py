"""Rules that predict from a file which operators a GPU delegate supports and which it miscomputes."""

from msd.prediction.rules.finding import Finding
from msd.prediction.rules.registry import RULE_SETS, predict

__all__ = ["RULE_SETS", "Finding", "predict"]
