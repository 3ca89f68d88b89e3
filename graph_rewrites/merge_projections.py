"""The projections to queries, keys and values of one source become one convolution."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from msd.graph.rewrite import Build, ConvSize, Graph, Op, Target, Tensor, Weights, graph_pass

LARGEST = 1 << 26
"""The most weights of one convolution: the writer and the device hold one such tensor at a time."""


@dataclass(frozen=True)
class Branch:
    """A 1x1 convolution whose result is split into heads: CONV_2D -> RESHAPE (B, N, h, d) -> TRANSPOSE."""

    conv: Op
    heads: Tensor
    result: Tensor

    @property
    def perm(self) -> list[int]:
        """The permutation of the transpose."""
        order: list[int] = self.result.maker.operands[1].values().tolist()
        return order


@graph_pass("cleanup", spells=("projections", "merged"))
def merge_projections(graph: Graph, target: Target) -> int:
    """CONV_2D(x, q), CONV_2D(x, k), CONV_2D(x, v), each split into heads  =>  SPLIT of CONV_2D(x, [q k v])

    Merges as many into one convolution as the target's textures and `LARGEST` allow.
    """
    merged = 0
    for branches in _groups(graph, target):
        new = Build(f"{branches[0].conv.outputs[0].name}~merged.")
        results = _merged(new, branches)
        graph.insert_before(min((b.conv for b in branches), key=graph.ops.index), new.ops)
        for branch, result in zip(branches, results, strict=True):
            graph.replace_tensor(branch.result, result)
            graph.erase([branch.result.maker])
        merged += 1
    return merged


def _groups(graph: Graph, target: Target) -> Iterator[list[Branch]]:
    """Yield groups that can be merged: two or more branches of one source with equal shapes."""
    groups: dict[tuple[object, ...], list[Branch]] = defaultdict(list)
    for o in graph.ops:
        branch = _branch(graph, o)
        if branch:
            key = (id(o.operands[0]), branch.heads.shape, o.attrs["fused_activation_function"])
            groups[key].append(branch)
    for branches in groups.values():
        step = _most(branches, target)
        chunks = [branches[i : i + step] for i in range(0, len(branches), step)]
        yield from (chunk for chunk in chunks if len(chunk) > 1)


def _most(branches: list[Branch], target: Target) -> int:
    """Return how many of `branches` one convolution can hold; at least 1."""
    outputs, kh, kw, inputs = branches[0].conv.operands[1].shape
    _, height, width, _ = branches[0].conv.outputs[0].shape
    sizes = (
        ConvSize(inputs=inputs, outputs=outputs * n, height=height, width=width, kernel=(kh, kw))
        for n in range(len(branches), 1, -1)
    )
    each = outputs * kh * kw * inputs
    fitting = (s.outputs // outputs for s in sizes if target.fits(s))
    return next((n for n in fitting if n * each <= LARGEST), 1)


def _branch(graph: Graph, o: Op) -> Branch | None:
    if o.kind != "CONV_2D" or len(o.operands) != 3 or not _is_pointwise(o):
        return None
    reshape = _only_user(graph, o.outputs[0], "RESHAPE")
    transpose = reshape and _only_user(graph, reshape.outputs[0], "TRANSPOSE")
    if not reshape or not transpose or transpose.outputs[0] in graph.outputs:
        return None
    heads = reshape.outputs[0]
    if len(heads.shape) != 4 or heads.shape[2] * heads.shape[3] != o.outputs[0].shape[3]:
        return None
    perm = transpose.operands[1]
    if perm.data is None or perm.values().tolist() not in ([0, 2, 1, 3], [0, 2, 3, 1]):
        return None
    return Branch(o, heads, transpose.outputs[0])


def _is_pointwise(conv: Op) -> bool:
    """Whether `conv` is a plain 1x1 convolution with constant weights over all channels."""
    x, w, b = conv.operands
    constant = all(t.data is not None and not t.quant for t in (w, b))
    plain = conv.attrs["stride_h"] == conv.attrs["stride_w"] == 1
    return constant and plain and w.shape[1:] == (1, 1, x.shape[3])


def _only_user(graph: Graph, tensor: Tensor, kind: str) -> Op | None:
    users = [op for op, _ in tensor.uses]
    return users[0] if len(users) == 1 and users[0].kind == kind and tensor not in graph.outputs else None


def _merged(new: Build, branches: list[Branch]) -> list[Tensor]:
    first = branches[0].conv
    x, *names = first.operands
    filters = [
        new.const(Weights.joined([b.conv.operands[i].weights for b in branches]), t.name)
        for i, t in enumerate(names, start=1)
    ]
    batch, places, heads, width = branches[0].heads.shape
    every = new.again(first, x, *filters)
    cut = new.RESHAPE(every, [batch, places, heads * len(branches), width])
    parts = new.SPLIT(1, new.TRANSPOSE(cut, [0, 2, 1, 3]), len(branches))
    return [
        part if b.perm == [0, 2, 1, 3] else new.TRANSPOSE(part, [0, 1, 3, 2])
        for part, b in zip(parts, branches, strict=True)
    ]
