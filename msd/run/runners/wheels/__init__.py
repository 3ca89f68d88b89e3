"""LiteRT of other versions: each wheel of ai-edge-litert in a virtual environment, asked in a child process.

`message`, `worker`, and what they import run in that environment too, which has NumPy and LiteRT alone: they
import the standard library, NumPy and each other.
"""
