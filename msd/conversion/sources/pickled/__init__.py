"""Checkpoints of torch.save: a pickle, which is parsed but never executed, and the bytes of its tensors."""

from msd.conversion.sources.pickled.checkpoint import open_saved, read_contents
from msd.conversion.sources.pickled.saved import Keys, Saved

__all__ = ["Keys", "Saved", "open_saved", "read_contents"]
