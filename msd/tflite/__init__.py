"""Reads and writes .tflite files. Only this package knows tensor indices, buffers and operator codes."""

from msd.tflite.read import parse, read
from msd.tflite.write import write

__all__ = ["parse", "read", "write"]
