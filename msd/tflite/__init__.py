"""Reads and writes .tflite files. Only this package knows tensor indices, buffers and operator codes."""

from msd.tflite.read import parse, read
from msd.tflite.write import file_bytes, write

__all__ = ["file_bytes", "parse", "read", "write"]
