"""The tanh form of GELU, written as separate operators, becomes GELU."""

from math import pi, sqrt

from msd.graph.rewrite import Build, Tensor, op, rule, var

X, GATED = var("x"), var("gated")
SLOPE = sqrt(2 / pi)
SQUARED = X * X
EXPANDED = 1 + op.TANH(SLOPE * (X + 0.044715 * (X * SQUARED)))
FACTORED = 1 + op.TANH((SLOPE * X) * (1 + 0.044715 * SQUARED))


@rule("canonicalize", (0.5 * X) * EXPANDED)
def recognise_gelu(new: Build, x: Tensor) -> Tensor:
    """0.5*x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3)))  =>  GELU(x) {approximate}, arXiv 1606.08415"""
    return new.GELU(x, approximate=True)


@rule("canonicalize", (0.5 * X) * FACTORED)
def recognise_factored_gelu(new: Build, x: Tensor) -> Tensor:
    """0.5*x*(1 + tanh(sqrt(2/pi)*x*(1 + 0.044715*x^2)))  =>  GELU(x) {approximate}, arXiv 1606.08415"""
    return new.GELU(x, approximate=True)


@rule("canonicalize", ((0.5 * GATED) * X) * FACTORED)
def recognise_gated_gelu(new: Build, x: Tensor, gated: Tensor) -> Tensor:
    """0.5*gated * x * (1 + tanh(...))  =>  gated * GELU(x) {approximate}, as GEGLU writes it"""
    return new.MUL(gated, new.GELU(x, approximate=True))
