"""Checkpoints of torch.save: zip files with a pickle, which is parsed but never executed."""

from msd.conversion.sources.pickled.checkpoint import read_contents

__all__ = ["read_contents"]
