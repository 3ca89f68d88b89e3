"""How the demo checkpoint is made; needs torch, diffusers and transformers, as nothing else in `msd` does."""
