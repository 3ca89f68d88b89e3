"""A checkpoint's own networks, run by PyTorch as a backend of the runtime.

Needs PyTorch, diffusers and transformers, which `pip install msd[train]` installs.
"""
