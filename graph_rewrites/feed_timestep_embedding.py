"""The sinusoids of a timestep are computed outside: float16 cannot tell 987.2 from 987.5, and sin must."""

from msd.rewrite import Graph, Op, Tensor, graph_pass

NAME = "timestep_embedding"


@graph_pass("canonicalize")
def feed_timestep_embedding(graph: Graph) -> int:
    """input timestep (B,) -> CONCATENATION(COS(t*f), SIN(t*f))  =>  input timestep_embedding (B, C)

    What the caller then computes is the sinusoidal embedding of arXiv 2006.11239, in float32, once per step.
    """
    fired = 0
    for o in list(graph.ops):
        timestep = _timestep_of(o)
        if timestep is None or timestep not in graph.inputs or len(timestep.uses) != 1:
            continue
        embedding = Tensor(NAME, o.outputs[0].shape, o.outputs[0].dtype)
        graph.replace_tensor(o.outputs[0], embedding)
        graph.erase([o])
        graph.replace_input(timestep, embedding)
        fired += 1
    return fired


def _timestep_of(o: Op) -> Tensor | None:
    """Return what `o` is the sinusoidal embedding of, if it is one."""
    waves = [t.producer for t in o.operands]
    if o.kind != "CONCATENATION" or sorted(w.kind for w in waves if w) != ["COS", "SIN"]:
        return None
    angles = {w.operands[0] for w in waves if w}
    product = angles.pop().producer
    if angles or product is None or product.kind != "MUL":
        return None
    runtime = [t for t in product.operands if t.data is None]
    if len(runtime) != 1:
        return None
    column = runtime[0].producer
    return runtime[0] if column is None else column.operands[0] if column.kind == "RESHAPE" else None
