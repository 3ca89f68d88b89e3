"""Reads and writes .tflite files. Only this package knows tensor indices, buffers and operator codes."""

from msd.graph.tflite.read import map_file, parse, read
from msd.graph.tflite.write import file_bytes, write

__all__ = ["file_bytes", "map_file", "parse", "read", "write"]
