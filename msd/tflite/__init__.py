"""Read and write .tflite files. Indices, buffers and operator code tables live here and nowhere else."""

from msd.tflite.read import parse, read
from msd.tflite.write import write

__all__ = ["parse", "read", "write"]
