"""How graphs are cut: by hand, by TensorFlow Lite's own way of scanning, and by the real delegate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Op, Tensor
from msd.graph.prediction.partition import Copy, Partitions, Piece, partition
from msd.measure.judging import judge
from tests import tiny_models

SHAPE = (1, 4, 3, 8)
REFUSED = ("BROADCAST_TO", "GATHER_ND", "WHILE")
"""Operators that LiteRT's delegate does not take (docs/delegates.md)."""


def spelt(text: str) -> Graph:
    """A graph from its spelling, one operator a letter, each on the last result.

    T: TANH, taken; C: BROADCAST_TO, refused; D: DEQUANTIZE of a float16 constant; M: MUL by the last such.
    """
    new, half = Build(), None
    x = y = Tensor("x", SHAPE)
    for letter in text:
        if letter == "T":
            y = new.TANH(y)
        elif letter == "C":
            y = new.BROADCAST_TO(y, list(SHAPE), version=2)
        elif letter == "D":
            half = new.DEQUANTIZE(new.const(np.full((1, 1, 1, 8), 1.5, np.float16)), version=3)
        else:
            y = new.MUL(y, half)
    return Graph([x], [y], new.ops)


def taken(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.kind not in REFUSED]


def cut(text: str, most: int = 1) -> Partitions:
    graph = spelt(text)
    return partition(graph, taken(graph), most)


def test_a_graph_taken_whole_is_one_piece_and_its_ports_are_copied() -> None:
    found = cut("TTT")
    assert found.pieces == (Piece(True, (0, 1, 2)),)
    assert (found.offered, found.kernels, found.on_gpu) == ((3,), 1, (0, 1, 2))
    assert found.copies == (Copy("x", 384, True), Copy("t2", 384, False))


def test_one_refused_operator_costs_the_smaller_side() -> None:
    found = cut("TTCTTT")
    assert found.pieces == (Piece(False, (0, 1, 2)), Piece(True, (3, 4, 5)))
    assert found.offered == (2, 3)
    assert [copy.tensor for copy in found.copies] == ["t2", "t5"]


def test_more_pieces_may_be_kept() -> None:
    found = cut("TTCTTTCT", most=2)
    assert [(p.on_gpu, p.ops) for p in found.pieces] == [
        (True, (0, 1)),
        (False, (2,)),
        (True, (3, 4, 5)),
        (False, (6, 7)),
    ]
    assert (found.kernels, [c.to_gpu for c in found.copies]) == (2, [True, False, True, False])
    assert cut("TTCTTTCT", most=9).on_gpu == (0, 1, 3, 4, 5, 7)
    assert cut("TTCTTTCT", most=0).pieces == (Piece(False, tuple(range(8))),)


def test_nothing_taken_and_nothing_there() -> None:
    assert cut("CC") == Partitions((), (Piece(False, (0, 1)),), ())
    assert partition(Graph(), []) == Partitions((), (), ())


def test_a_piece_takes_what_is_ready_past_what_is_not() -> None:
    """A refused branch does not end a piece: what follows in order but does not wait for it goes along."""
    new = Build()
    x = Tensor("x", SHAPE)
    a = new.TANH(x)
    slow = new.BROADCAST_TO(a, list(SHAPE), version=2)
    b = new.EXP(a)
    graph = Graph([x], [new.ADD(new.NEG(b), slow)], new.ops)
    found = partition(graph, taken(graph))
    assert found.pieces == (Piece(True, (0, 2, 3)), Piece(False, (1, 4)))
    assert [copy.tensor for copy in found.copies if not copy.to_gpu] == [a.name, new.ops[3].outputs[0].name]


def test_copies_are_counted_once_for_each_side() -> None:
    """A tensor read by two operators goes over once; an output that the GPU goes on reading comes back."""
    new = Build()
    x, y = Tensor("x", SHAPE), Tensor("y", (1, 1, 1, 8), "FLOAT16")
    a = new.BROADCAST_TO(x, list(SHAPE), version=2)
    b = new.ADD(a, new.TANH(a))
    c = new.EXP(b)
    graph = Graph([x, y], [b, c, new.NEG(y)], new.ops)
    copies = partition(graph, taken(graph)).copies
    assert [(copy.tensor, copy.bytes, copy.to_gpu) for copy in copies] == [
        ("t0", 384, True),
        ("y", 16, True),
        ("t2", 384, False),
        ("t3", 384, False),
        ("t4", 16, False),
    ]


def test_float16_constants_are_no_obstacle_where_all_is_taken() -> None:
    assert cut("TDMT").pieces == (Piece(True, (0, 1, 2, 3)),)
    assert [copy.tensor for copy in cut("TDMT").copies] == ["x", "t3"]


def test_float16_constants_cut_where_something_is_refused() -> None:
    """Each DEQUANTIZE between operators ends a piece; one before them all does not."""
    assert (cut("TDMC").offered, cut("TDMC").on_gpu) == ((1, 1), (0,))
    assert (cut("DTMC").offered, cut("DTMC").on_gpu) == ((2,), (1, 2))
    assert [copy.tensor for copy in cut("DTMC").copies] == ["x", "t2"]


def test_side_effects_keep_their_order() -> None:
    """The second assignment is ready at once, but waits for the first, which waits for what is refused."""
    new = Build()
    x, variable = Tensor("x", SHAPE), Tensor("variable", (), "RESOURCE")
    late = new.BROADCAST_TO(new.TANH(x), list(SHAPE), version=2)
    effects = [Op("ASSIGN_VARIABLE", [variable, value], []) for value in (late, x)]
    graph = Graph([x, variable], [late], [*new.ops, *effects])
    found = partition(graph, [graph.ops[0], effects[1]], most=2)
    assert [p.ops for p in found.pieces] == [(0,), (1, 2), (3,)]
    free = [Op("NEG", [value], [Tensor(f"{value.name}/neg", SHAPE)]) for value in (late, x)]
    graph = Graph([x], [late], [*new.ops, *free])
    found = partition(graph, [graph.ops[0], free[1]], most=2)
    assert [p.ops for p in found.pieces] == [(0, 3), (1, 2)]


def scanned(graph: Graph, kept: set[Op]) -> list[tuple[bool, set[int]]]:
    """Pieces as graph_info.cc finds them: by scanning all operators until no more fits the piece."""
    made, found = set[Tensor](), list[tuple[bool, set[int]]]()
    waiting = dict(enumerate(graph.ops))
    while waiting:
        piece: tuple[bool, set[int]] | None = None
        again = True
        while again:
            again = False
            for i, op in list(waiting.items()):
                ready = all(t.producer is None or t in made for t in op.operands)
                if ready and (piece is None or piece[0] is (op in kept)):
                    piece = piece or (op in kept, set())
                    piece[1].add(i)
                    made.update(op.outputs)
                    del waiting[i]
                    again = True
        assert piece is not None
        found.append(piece)
    return found


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 30)), max_size=30), st.integers(1, 3)
)
def test_pieces_are_those_of_a_scan(steps: list[tuple[bool, int, int]], most: int) -> None:
    new = Build()
    made = [Tensor("x", SHAPE)]
    for refused, near, far in steps:
        last = made[max(0, len(made) - 1 - near)]
        both = new.MAXIMUM if refused else new.ADD
        made.append(both(last, made[far % len(made)]))
    graph = Graph(made[:1], made[1:], new.ops)
    willing = {op for op in graph.ops if op.kind == "ADD"}
    found = partition(graph, willing, most)
    if willing != set(graph.ops):
        assert list(found.offered) == [len(ops) for on_gpu, ops in scanned(graph, willing) if on_gpu]
    kept = {graph.ops[i] for i in found.on_gpu}
    assert [(p.on_gpu, set(p.ops)) for p in found.pieces] == scanned(graph, kept)
    assert len(kept) == sum(sorted(found.offered, reverse=True)[:most])


def ask(path: Path) -> tuple[int, int]:
    """How many operations the real delegate got, and in how many pieces the graph was cut."""
    verdict = judge(path)
    assert verdict.confirmed or not verdict.delegated
    return verdict.delegated, verdict.partitions


@pytest.mark.parametrize("text", ["TCT", "TTCTTT", "CTCTTCTT", "TTDMC", "DTMCDTM", "TTCDMDM", "CDMDMDMC"])
def test_the_real_delegate_cuts_alike(text: str, tmp_path: Path) -> None:
    """It keeps the largest piece alone, of equal ones the first."""
    graph = spelt(text)
    path = tmp_path / "spelt.tflite"
    tflite.write(Model([graph]), path)
    found = partition(graph, taken(graph))
    assert ask(path) == (len(found.on_gpu), len(found.pieces))


@pytest.mark.parametrize("name", ["whole", "five_dimensions", "cut_off"])
def test_the_real_delegate_cuts_converted_models_alike(name: str, tmp_path: Path) -> None:
    """RESHAPE and SUM of five dimensions are refused, and GATHER_ND."""
    path = tiny_models.save(name, tmp_path)
    graph = tflite.read(path).main
    fine = [op for op in taken(graph) if all(len(t.shape) < 5 for t in (*op.operands, *op.outputs))]
    found = partition(graph, fine)
    assert ask(path) == (len(found.on_gpu), len(found.pieces))
