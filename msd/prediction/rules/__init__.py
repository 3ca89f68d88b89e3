"""Which operations a GPU delegate takes and which it gets wrong, from the file alone."""

from msd.prediction.rules.apply import predict
from msd.prediction.rules.finding import Finding

__all__ = ["Finding", "predict"]
