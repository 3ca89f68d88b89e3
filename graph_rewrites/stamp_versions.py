"""Each operator gets the lowest version that suffices, since delegates refuse higher ones by number."""

from msd.graph.rewrite import Graph, Op, graph_pass

RANK5_VERSIONS = {"SUB": 2, "ADD": 1, "MUL": 1, "DIV": 1}


@graph_pass("cleanup")
def stamp_versions(graph: Graph) -> int:
    """ADD, SUB, MUL, DIV stamped for rank 5 or more  =>  the version for rank 4, if of rank 4"""
    changed = 0
    for o in graph.ops:
        lowest = RANK5_VERSIONS.get(o.kind)
        if lowest is not None and o.version > lowest and _is_plain(o):
            o.version = lowest
            changed += 1
    return changed


def _is_plain(o: Op) -> bool:
    return all(len(t.shape) <= 4 and t.dtype == "FLOAT32" for t in (*o.operands, *o.outputs))
