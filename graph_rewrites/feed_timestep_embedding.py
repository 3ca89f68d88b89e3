"""The timestep embedding becomes an input: its sines need more precision than float16 has.

float16 cannot distinguish 987.2 from 987.5.
"""

from msd.graph.rewrite import ANY, Graph, Match, Op, Tensor, const, graph_pass, match, op, var

NAME = "timestep_embedding"

COLUMNS = (var("timestep"), op.RESHAPE(var("timestep"), const("shape"), new_shape=ANY))
ANGLES = tuple(column * const("frequencies") for column in COLUMNS)
SINUSOIDS = tuple(
    op.CONCATENATION(*waves, axis=ANY)
    for angle in ANGLES
    for waves in ((op.COS(angle), op.SIN(angle)), (op.SIN(angle), op.COS(angle)))
)


@graph_pass("canonicalize")
def feed_timestep_embedding(graph: Graph) -> int:
    """input timestep (B,) -> CONCATENATION(COS(t*f), SIN(t*f))  =>  input timestep_embedding (B, C)

    The caller then computes the sinusoidal embedding of arXiv 2006.11239 in float32, once per step.
    """
    for o in graph.ops:
        matched = _sinusoid(graph, o)
        if matched and all(t.name != NAME for t in graph.inputs):
            embedding = Tensor(NAME, o.outputs[0].shape, o.outputs[0].dtype)
            graph.replace_tensor(o.outputs[0], embedding)
            graph.erase(matched.ops)
            graph.replace_input(matched.tensors["timestep"], embedding)
            return 1
    return 0


def _sinusoid(graph: Graph, o: Op) -> Match | None:
    """Return the match if `o` concatenates the sines and cosines of an input without other readers."""
    result = o.outputs[0] if o.outputs else None
    for matched in (m for pattern in SINUSOIDS for m in match(pattern, result)):
        timestep = matched.tensors["timestep"]
        alone = len(timestep.uses) == 1 and timestep not in graph.outputs and timestep in graph.inputs
        last = result and o.attrs["axis"] % len(result.shape) == len(result.shape) - 1
        if alone and last and result not in graph.outputs and not matched.shared(graph.outputs):
            return matched
    return None
