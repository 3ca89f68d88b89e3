"""Formats of other programs, told by the names of their files, and what to give instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

FORMATS = (
    ("*.onnx", "ONNX networks"),
    ("openvino_*", "OpenVINO's networks"),
    ("*.msgpack", "weights of Flax"),
    ("*.mlpackage", "Core ML's networks"),
    ("*.mlmodelc", "Core ML's networks"),
    ("*.gguf", "GGUF files, whose weights are quantised"),
    ("*.engine", "TensorRT's engines"),
    ("*.mnn", "MNN's networks"),
    ("tf_model.h5", "weights of TensorFlow"),
)
"""Patterns of names, and what files of such names hold."""

PIPELINES = (
    (re.compile(r"O(nnx|RT)"), "ONNX networks"),
    (re.compile("OV"), "OpenVINO's networks"),
    (re.compile("Flax"), "weights of Flax"),
)
"""How the names of other libraries' pipelines begin, and what their folders hold."""

INSTEAD = "give the checkpoint of PyTorch that they were made from"
WEB = re.compile(r"https?:/+(?P<rest>.+)", re.IGNORECASE)
HUB = re.compile(r"(www\.)?(huggingface\.co|hf\.co)/(?P<id>[^/]+/[^/?#]+)(?P<file>/.*)?", re.IGNORECASE)


def format_of_files(names: Iterable[str]) -> str | None:
    """Return what files of another program hold, None where the names are of no other program's."""
    there = list(names)
    return next((what for pattern, what in FORMATS if any(fnmatch(n, pattern) for n in there)), None)


def format_of_pipeline(name: str) -> str | None:
    """Return what a pipeline of another library runs; None for another pipeline."""
    return next((what for begin, what in PIPELINES if begin.match(name)), None)


def remedy_for_address(path: Path) -> str | None:
    """Return what a web address should be instead, None for what is none; paths lose its second slash."""
    web = WEB.fullmatch(path.as_posix())
    if web is None:
        return None
    hub = HUB.fullmatch(web["rest"])
    if hub is None or hub["file"]:
        return "it is a web address; download the file and give its path"
    return f"it is a web address; give {hub['id']}, the id on Hugging Face"
