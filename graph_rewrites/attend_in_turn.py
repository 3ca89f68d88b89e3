"""Attention whose heads are computed one after another, so that the scores of only one exist at a time."""

from msd.graph.rewrite import ANY, Build, Skip, Tensor, op, rule, skip, var

SCORES = op.BATCH_MATMUL(var("q"), var("k"), adj_x=ANY, adj_y=ANY).named("scores")
ATTENTION = op.BATCH_MATMUL(op.SOFTMAX(SCORES, beta=ANY).named("weights"), var("v"), adj_x=ANY, adj_y=ANY)


@rule("cleanup", ATTENTION.named("y"), spells=("attention_heads", "in_turn"))
def attend_in_turn(
    new: Build, q: Tensor, k: Tensor, v: Tensor, scores: Tensor, weights: Tensor, y: Tensor
) -> Tensor | Skip:
    """SOFTMAX(q . k) . v over (B, h, N, d)  =>  CONCATENATION of SOFTMAX(q_i . k_i) . v_i, i = 1 .. h

    The scores of a head are an h-th of all, and no two heads' exist at once.
    """
    if any(len(t.shape) != 4 for t in (q, k, v)):
        return skip("it is not of rank 4")
    heads = y.shape[1]
    if heads == 1 or any(t.shape[1] != heads for t in (q, k, v)):
        return skip("it has one head, or heads share their keys")
    parts = zip(*(new.SPLIT(1, t, heads) for t in (q, k, v)), strict=True)
    each = [_attention(new, part, scores, weights, y) for part in parts]
    return new.CONCATENATION(*each, axis=1)


def _attention(new: Build, part: tuple[Tensor, ...], scores: Tensor, weights: Tensor, y: Tensor) -> Tensor:
    q, k, v = part
    powers = new.again(weights.maker, new.again(scores.maker, q, k))
    return new.again(y.maker, powers, v)
