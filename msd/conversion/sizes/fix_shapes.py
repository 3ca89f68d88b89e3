"""A file whose inputs leave sizes open, with one choice of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from msd.errors import BadConfig, BadModelFile
from msd.files.atomic import atomic_write
from msd.graph import tflite
from msd.graph.ir import Graph, Tensor
from msd.graph.tflite.shapes import with_shapes

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
"""The shape of each input that is given one, by its name in the signature or by its tensor's."""


def open_inputs(graph: Graph) -> dict[str, Tensor]:
    """Return the inputs with open dimensions, by the names that callers use."""
    named = graph.signatures[0].inputs if graph.signatures else {t.name: t for t in graph.inputs}
    return {name: t for name, t in named.items() if any(n < 0 for n in t.shape_signature or ())}


def require_fixed(path: Path, graph: Graph) -> None:
    """Raise BadModelFile, with the remedy, for a file whose inputs leave sizes open."""
    if found := open_inputs(graph):
        raise BadModelFile(f"{path} leaves sizes open: {_described(found)}; {_remedy(found)}")


def fix_shapes(path: Path, shapes: Shapes, target: Path) -> None:
    """Write the file at `path` to `target` with its inputs' shapes fixed, and all others as they follow.

    Names of no input are passed over. Raises BadConfig for a shape that does not fit, BadModelFile where an
    open input is given none or the CPU cannot run these sizes.
    """
    graph = tflite.read(path).main
    found, inputs = open_inputs(graph), inputs_by_name(graph)
    given = {inputs[name]: shape for name, shape in shapes.items() if name in inputs}
    for name in shapes.keys() & inputs.keys():
        _require_fits(path, name, shapes[name], inputs[name])
    if missing := {name: t for name, t in found.items() if t not in given}:
        raise BadModelFile(f"{path} still leaves sizes open: {_described(missing)}; {_remedy(missing)}")
    known = _run(path, [given.get(t, t.shape) for t in graph.inputs])
    with atomic_write(target) as temporary:
        temporary.write_bytes(with_shapes(path, known))


def inputs_by_name(graph: Graph) -> dict[str, Tensor]:
    """Return the inputs by the names of their tensors and of the signature."""
    named = {t.name: t for t in graph.inputs}
    return named | (graph.signatures[0].inputs if graph.signatures else {})


def _require_fits(path: Path, name: str, shape: Shape, tensor: Tensor) -> None:
    own = tensor.shape_signature or tensor.shape
    if len(own) != len(shape) or any(n not in (-1, m) for n, m in zip(own, shape, strict=True)):
        raise BadConfig(f"{path} takes {name} as {list(own)}, where -1 is open; {list(shape)} does not fit")


def _described(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(f"input {name} is {list(t.shape_signature or ())}" for name, t in tensors.items())


def _remedy(tensors: Mapping[str, Tensor]) -> str:
    options = (f"--shape {name}={','.join(map(str, t.shape))}" for name, t in tensors.items())
    return f"a delegate compiles one choice of them, so give yours, such as {' '.join(options)}"


def _run(path: Path, shapes: list[Shape]) -> dict[int, Shape]:
    """Return the shape of each tensor of the main graph, by its index, after a run on the CPU."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        network: Any = Interpreter(str(path), experimental_op_resolver_type=plain)
        ports = network.get_input_details()
        for port, shape in zip(ports, shapes, strict=True):
            network.resize_tensor_input(port["index"], shape, strict=False)
        network.allocate_tensors()
        for port, shape in zip(ports, shapes, strict=True):
            network.set_tensor(port["index"], np.zeros(shape, port["dtype"]))
        network.invoke()
    except (ValueError, RuntimeError) as problem:
        raise BadModelFile(f"{path} cannot be run at these sizes: {problem}") from None
    return {each["index"]: tuple(int(n) for n in each["shape"]) for each in network.get_tensor_details()}
