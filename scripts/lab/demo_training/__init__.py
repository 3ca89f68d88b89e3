"""Trains the demo checkpoint; needs torch, diffusers and transformers, as nothing else in `msd` does."""
