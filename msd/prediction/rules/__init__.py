"""Which operations a GPU delegate takes and which it gets wrong, from the file alone."""

from msd.prediction.rules.finding import Finding
from msd.prediction.rules.registry import RULE_SETS, predict

__all__ = ["RULE_SETS", "Finding", "predict"]
