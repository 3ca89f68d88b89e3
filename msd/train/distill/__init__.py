"""Trains a checkpoint to generate in fewer steps, without a second pass for guidance.

Needs PyTorch, diffusers and accelerate, which `pip install msd[train]` installs; nothing else in msd does.
"""
