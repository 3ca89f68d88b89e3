"""Checkpoints that torch.save wrote: zip files with a pickle, of which nothing is ever executed."""

from msd.sources.pickled.checkpoint import read_contents

__all__ = ["read_contents"]
