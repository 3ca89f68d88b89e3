"""The inputs and outputs of a network as another program binds them: renamed, reordered, transposed, or cut.

The last rewrite of a conversion: what it adds is a few operators at the ends of the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from msd.conversion.client_interface import POSITIONS, TIME_EMBEDDING, BoundPort, NetworkInterface
from msd.errors import BadConfig
from msd.graph.ir import Build, Graph, Op, Signature, Tensor

LAYERS = ("CONV_2D", "FULLY_CONNECTED")
LOOKUPS = {"GATHER": 0, "EMBEDDING_LOOKUP": 1}
"""Operators that look up rows, and the position of their table."""

EMBEDDED = "timestep_embedding"
"""The input that the two layers in front of the time embedding read."""

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class Bound:
    """A network with another interface: the layers that it lost, and which ports have another size.

    `layers` are a graph from the timestep's sinusoids to the time embedding, or None where the network keeps
    them. `misfits` are clauses.
    """

    layers: Graph | None
    misfits: tuple[str, ...]


def bind(graph: Graph, component: str, wanted: NetworkInterface) -> Bound:
    """Give `graph` the inputs and outputs that a program binds.

    Raises BadConfig for an interface that the network cannot have.
    """
    (signature,) = graph.signatures
    own, outputs = dict(signature.inputs), dict(signature.outputs)
    cut = None
    if any(port.of == TIME_EMBEDDING for port in wanted.inputs):
        cut, own = _without_layers(graph, component, own)
    if any(port.of == POSITIONS for port in wanted.inputs):
        own[POSITIONS] = _positions(graph, component, own)
    _require_same(component, "inputs", wanted.inputs, own)
    _require_same(component, "outputs", wanted.outputs, outputs)
    front = Build("interface.")
    inputs = {port.name: _input(front, graph, port, own[port.of]) for port in wanted.inputs}
    graph.ops[:0] = front.ops
    back = Build("interface~")
    results = {port.name: _output(back, port, outputs[port.of]) for port in wanted.outputs}
    graph.ops += back.ops
    graph.inputs, graph.outputs = [*inputs.values()], [*results.values()]
    graph.signatures = [Signature(wanted.signature, inputs, results)]
    graph.verify()
    ports = (
        (port, side[port.name])
        for named, side in ((wanted.inputs, inputs), (wanted.outputs, results))
        for port in named
    )
    return Bound(cut, tuple(_misfits(component, ports)))


def _misfits(component: str, ports: Iterable[tuple[BoundPort, Tensor]]) -> Iterator[str]:
    for port, tensor in ports:
        if port.shape and port.shape != tensor.shape:
            yield (
                f"{component} has {port.name} of {list(tensor.shape)}, for which the program has room of"
                f" {list(port.shape)}"
            )


def require_takes(component: str, wanted: NetworkInterface, traced: Iterable[str]) -> None:
    """Raise BadConfig, before a network is traced, where a program binds other inputs than those to trace."""
    bound = [port.of for port in wanted.inputs]
    made = [name for name in bound if name in (POSITIONS, TIME_EMBEDDING)]
    own = [EMBEDDED if name == "timestep" and name not in bound else name for name in traced]
    kept = [name for name in own if name != EMBEDDED or TIME_EMBEDDING not in made]
    _require_same(component, "inputs", wanted.inputs, [*kept, *made])


def _require_same(component: str, side: str, ports: tuple[BoundPort, ...], own: Collection[str]) -> None:
    names = [port.of for port in ports]
    if unknown := [name for name in names if name not in own]:
        raise BadConfig(
            f"the interface binds {unknown[0]!r} of {component}, whose {side} are {', '.join(own)}"
        )
    if missing := [name for name in own if name not in names]:
        raise BadConfig(f"the interface has no place for {missing[0]!r} among the {side} of {component}")


def _input(new: Build, graph: Graph, port: BoundPort, tensor: Tensor) -> Tensor:
    """Return the input that a port is; operators in `new` turn it into `tensor`, if it is another one."""
    shape = list(tensor.shape)
    if port.rows:
        shape[0] = port.rows
    if port.layout == "NCHW":
        _require_image(port, tensor)
        shape = [shape[axis] for axis in TO_NCHW]
    if shape == list(tensor.shape) and port.layout == "NHWC":
        tensor.name = port.name
        return tensor
    given = Tensor(port.name, shape, tensor.dtype)
    own = new.TRANSPOSE(given, [*TO_NHWC]) if port.layout == "NCHW" else given
    if port.rows and own.shape[0] != tensor.shape[0]:
        own = new.CONCATENATION(*[own] * (tensor.shape[0] // own.shape[0]), axis=0)
    graph.replace_tensor(tensor, own)
    return given


def _output(new: Build, port: BoundPort, tensor: Tensor) -> Tensor:
    if port.layout == "NHWC":
        tensor.name = port.name
        return tensor
    _require_image(port, tensor)
    result = new.TRANSPOSE(tensor, [*TO_NCHW])
    result.name = port.name
    return result


def _require_image(port: BoundPort, tensor: Tensor) -> None:
    if len(tensor.shape) != 4:
        raise BadConfig(f"the interface has {port.of} as NCHW, and it has the shape {list(tensor.shape)}")


def _positions(graph: Graph, component: str, own: Mapping[str, Tensor]) -> Tensor:
    """Look the positions' embeddings up, as those of the tokens are; returns the new input (1, tokens)."""
    found = _position_sum(graph, own)
    if found is None:
        raise BadConfig(
            f"the interface gives {component} positions, and it adds no table of positions to its tokens"
        )
    lookup, total, table = found
    positions = Tensor(POSITIONS, (1, table.size // table.shape[-1]), "INT32")
    new = Build("positions.")
    rows = new.const(table.weights.reshape((positions.shape[1], table.shape[-1])), table.name)
    flat = new.RESHAPE(positions, [positions.shape[1]])
    order = (rows, flat) if LOOKUPS[lookup.kind] == 0 else (flat, rows)
    looked_up = new.RESHAPE(new.again(lookup, *order), list(table.shape))
    graph.insert_before(total, new.ops)
    total.inputs = tuple(looked_up if tensor is table else tensor for tensor in total.inputs)
    return positions


def _position_sum(graph: Graph, own: Mapping[str, Tensor]) -> tuple[Op, Op, Tensor] | None:
    """Return the lookup of the tokens, the sum with the positions' embeddings, and their table."""
    tokens = own.get("tokens")
    lookups = [op for op in graph.ops if op.kind in LOOKUPS] if tokens is not None else []
    for lookup in lookups:
        rows = lookup.outputs[0]
        while len(rows.uses) == 1:
            ((reader, _),) = rows.uses
            if reader.kind == "ADD":
                table = next((t for t in reader.operands if t.data is not None), None)
                fits = table is not None and table.size == rows.size
                return (lookup, reader, table) if table is not None and fits else None
            if reader.kind != "RESHAPE":
                break
            rows = reader.outputs[0]
    return None


def _without_layers(
    graph: Graph, component: str, own: Mapping[str, Tensor]
) -> tuple[Graph, dict[str, Tensor]]:
    """Take the two layers behind the timestep's sinusoids out of `graph`; return them, and the new inputs."""
    found = _layers(graph, own[EMBEDDED]) if EMBEDDED in own else None
    if found is None:
        raise BadConfig(
            f"the interface computes the time embedding outside {component}, which has not two layers of its"
            f" own behind {EMBEDDED}"
        )
    result, inside = found[-1].outputs[0], set(found)
    taken = Graph([own[EMBEDDED]], [result], found, "time_embedding")
    width = result.shape[-1]
    given = Tensor(TIME_EMBEDDING, (result.size // width, width), result.dtype)
    new = Build("time_embedding.")
    graph.replace_tensor(result, new.RESHAPE(given, list(result.shape)))
    graph.ops = [*new.ops, *(op for op in graph.ops if op not in inside)]
    return taken, {
        TIME_EMBEDDING if name == EMBEDDED else name: given if name == EMBEDDED else t
        for name, t in own.items()
    }


def _layers(graph: Graph, source: Tensor) -> list[Op] | None:
    """Return the operators from `source` to its second layer, if what they compute goes nowhere else."""
    inside, known, layers = list[Op](), {source}, 0
    for op in graph.ops:
        if not known.intersection(op.operands):
            continue
        inside.append(op)
        known.update(op.outputs)
        layers += op.kind in LAYERS
        if any(t not in known and t.data is None for t in op.operands):
            return None
        if layers == 2:
            own = set(inside)
            leaks = [t for t in known - {op.outputs[0]} if any(user not in own for user, _ in t.uses)]
            return None if leaks else inside
    return None
