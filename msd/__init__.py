"""Stable Diffusion checkpoints to .tflite files that a phone's GPU delegate takes whole."""

__version__ = "0.1.0"
