"""Rules that predict from a file which operators a GPU delegate supports and which it miscomputes."""

from msd.graph.prediction.rules.apply import predict, rules_of
from msd.graph.prediction.rules.finding import Finding

__all__ = ["Finding", "predict", "rules_of"]
