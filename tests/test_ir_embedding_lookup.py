"""Models cut behind their lookups: the two parts compute what the whole did, and are well formed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.embedding_lookup import split_lookup
from tests.harness import Ints, Spell, build, evaluate, feeds_for

ROWS, WIDTH = 9, 4


def table(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float32)


def flat(new: Build, tokens: Tensor) -> Tensor:
    return new.EMBEDDING_LOOKUP(new.RESHAPE(tokens, [tokens.size]), new.const(table()))


def encoder(new: Build, tokens: Tensor) -> Tensor:
    """As converted: numbers in a row, rows as a picture one high."""
    batch, length = tokens.shape
    return new.MUL(new.RESHAPE(flat(new, tokens), [batch, 1, length, WIDTH]), 2.0)


def same_shape(new: Build, tokens: Tensor) -> Tensor:
    return new.TANH(new.RESHAPE(flat(new, tokens), [*tokens.shape, WIDTH]))


def read_twice(new: Build, tokens: Tensor) -> tuple[Tensor, ...]:
    """Beside a RESHAPE a TANH reads the rows as they are, and so does the caller."""
    rows = flat(new, tokens)
    return new.ABS(new.RESHAPE(rows, [WIDTH, tokens.size])), new.TANH(rows), rows


def gathered(new: Build, tokens: Tensor) -> Tensor:
    return new.TANH(new.GATHER(new.const(table()), tokens, axis=0, batch_dims=0))


def halves(new: Build, tokens: Tensor) -> Tensor:
    stored = new.DEQUANTIZE(new.const(table().astype(np.float16)), version=3)
    return new.TANH(new.EMBEDDING_LOOKUP(new.RESHAPE(tokens, [tokens.size]), stored))


def also_as_number(new: Build, tokens: Tensor) -> Tensor:
    """What else reads the integers stays where it was."""
    numbers = new.CAST(tokens, in_data_type="INT32", out_data_type="FLOAT32")
    return new.ADD(encoder(new, tokens), new.SUM(numbers, [0, 1], keep_dims=False))


def two_tables(new: Build, tokens: Tensor) -> Tensor:
    return new.ADD(same_shape(new, tokens), new.GATHER(new.const(table(1)), tokens, axis=0, batch_dims=0))


SPELLED: dict[str, tuple[Spell, set[str], set[str]]] = {
    "encoder": (encoder, {"tokens"}, {"token_embedding"}),
    "same shape": (same_shape, {"tokens"}, {"token_embedding"}),
    "read twice": (read_twice, {"tokens"}, {"token_embedding"}),
    "gathered": (gathered, {"tokens"}, {"token_embedding"}),
    "halves": (halves, {"tokens"}, {"token_embedding"}),
    "also as number": (also_as_number, {"tokens"}, {"token_embedding", "tokens"}),
    "two tables": (two_tables, {"tokens"}, {"token_embedding", "token_embedding_1"}),
}


def parts(graph: Graph) -> tuple[Graph, Graph]:
    cut = split_lookup(Model([graph]))
    assert cut is not None
    lookup, rest = (model.main for model in cut)
    if not set(lookup.tensors()) & set(rest.tensors()):
        lookup.verify()
        rest.verify()
    return lookup, rest


def named(graph: Graph, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: feeds[name] for name in graph.signatures[0].inputs}


def check_parts(spell: Spell, **inputs: tuple[int, ...] | Ints) -> tuple[Graph, Graph]:
    """The parts together give the whole's numbers to the last bit."""
    graph = build(spell, **inputs)
    feeds = feeds_for(graph)
    wanted, names = evaluate(graph, feeds), list(graph.signatures[0].outputs)
    lookup, rest = parts(graph)
    rows = dict(zip(lookup.signatures[0].outputs, evaluate(lookup, named(lookup, feeds)), strict=True))
    found = evaluate(rest, named(rest, feeds | rows))
    assert list(rest.signatures[0].outputs) == names
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    return lookup, rest


@pytest.mark.parametrize("name", SPELLED)
def test_the_parts_are_the_whole(name: str) -> None:
    spell, asked, taken = SPELLED[name]
    lookup, rest = check_parts(spell, tokens=Ints((2, 3)))
    assert set(lookup.signatures[0].inputs) == asked
    assert set(rest.signatures[0].inputs) == taken
    for tensor in lookup.signatures[0].outputs.values():
        assert (tensor.shape, tensor.dtype) == ((2, 3, WIDTH), "FLOAT32")
    assert not {op.kind for op in rest.ops} & {"EMBEDDING_LOOKUP", "GATHER", "DEQUANTIZE"}
    assert not {op.kind for op in lookup.ops} - {"RESHAPE", "EMBEDDING_LOOKUP", "GATHER", "DEQUANTIZE"}


def test_reshapes_that_do_nothing_are_not_written() -> None:
    lookup, rest = check_parts(same_shape, tokens=Ints((2, 3)))
    assert [op.kind for op in lookup.ops] == ["RESHAPE", "EMBEDDING_LOOKUP", "RESHAPE"]
    assert [op.kind for op in rest.ops] == ["TANH"]
    lookup, rest = check_parts(encoder, tokens=Ints((2, 3)))
    assert [op.kind for op in rest.ops] == ["RESHAPE", "MUL"]


@settings(max_examples=25)
@given(st.sampled_from(sorted(SPELLED)), st.integers(1, 3), st.integers(1, 5))
def test_at_any_size(name: str, batch: int, length: int) -> None:
    check_parts(SPELLED[name][0], tokens=Ints((batch, length)))


def test_each_integer_input_has_its_own_port() -> None:
    def positions_too(new: Build, tokens: Tensor, positions: Tensor, scale: Tensor) -> Tensor:
        return new.MUL(new.ADD(encoder(new, tokens), gathered(new, positions)), scale)

    lookup, rest = check_parts(positions_too, tokens=Ints((2, 3)), positions=Ints((1, 3)), scale=(1,))
    assert list(lookup.signatures[0].inputs) == ["tokens", "positions"]
    shapes = {name: t.shape for name, t in rest.signatures[0].inputs.items()}
    assert shapes == {"token_embedding": (2, 3, WIDTH), "position_embedding": (1, 3, WIDTH), "scale": (1,)}


def by_constants(new: Build, x: Tensor) -> Tensor:
    return new.ADD(x, new.GATHER(new.const(table()), new.const([1, 2]), axis=0, batch_dims=0))


def only_cast(new: Build, x: Tensor) -> Tensor:
    return new.CAST(x, in_data_type="INT32", out_data_type="FLOAT32")


@pytest.mark.parametrize(("spell", "given_"), [(by_constants, (2, WIDTH)), (only_cast, Ints((2, 3)))])
def test_what_looks_nothing_up_stays_whole(
    spell: Callable[..., Tensor], given_: tuple[int, ...] | Ints
) -> None:
    graph = build(spell, x=given_)
    text = str(graph)
    assert split_lookup(Model([graph])) is None
    assert str(graph) == text


def test_without_a_signature_tensors_give_the_names() -> None:
    graph = build(encoder, tokens=Ints((2, 3)))
    graph.signatures = []
    model = Model([graph], "mine", {"note": b"x"})
    wanted = copy.copy(model.metadata)
    cut = split_lookup(model)
    assert cut is not None
    assert [list(part.main.signatures[0].inputs) for part in cut] == [["tokens"], ["token_embedding"]]
    assert all((part.description, part.metadata) == ("mine", wanted) for part in cut)
