"""The graph: every change keeps uses right and numbers as they are, and verify() finds what is broken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.graph.ir import Build, Graph, InvalidGraph, NotConstant, Op, Signature, Tensor
from msd.graph.ir.weights import Weights
from tests.on_cpu import graph, normal, run_graph

SHAPE = (2, 3)


def uses_are_right(made: Graph) -> bool:
    """Whether every tensor lists the inputs of operators of the graph that it is, and no others."""
    counted: dict[Tensor, set[tuple[Op, int]]] = {t: set() for t in made.tensors()}
    for op in made.ops:
        for i, tensor in enumerate(op.inputs):
            if tensor is not None:
                counted[tensor].add((op, i))
    return all(set(t.uses) == uses for t, uses in counted.items())


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to nine operators on two inputs and a constant, not all of them needed for the outputs."""
    new = Build()
    values = [Tensor("x", SHAPE), Tensor("y", SHAPE), new.const(normal(*SHAPE, seed=3), "c")]
    inputs = values[:2]
    for _ in range(draw(st.integers(2, 9))):
        kind = draw(st.sampled_from(["ADD", "SUB", "MUL", "NEG"]))
        operands = [draw(st.sampled_from(values)) for _ in range(1 if kind == "NEG" else 2)]
        values.append(getattr(new, kind)(*operands))
    chosen = draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=2, unique=True))
    return graph(new, inputs, chosen)


Change = Callable[[Graph, Op], None]


def respell(made: Graph, op: Op) -> None:
    """a op b  =>  -(-(a op b))"""
    new = Build(f"{op.outputs[0].name}'")
    result = new.NEG(new.NEG(new.again(op, *op.inputs)))
    made.insert_before(op, new.ops)
    made.replace_tensor(op.outputs[0], result)
    assert op in made.erase([op])


def merge(made: Graph, op: Op) -> None:
    """two operators that compute the same  =>  the first of them"""
    twin = next(o for o in made.ops if (o.kind, o.inputs) == (op.kind, op.inputs))
    if twin is not op:
        made.replace_tensor(op.outputs[0], twin.outputs[0])


def erase(made: Graph, op: Op) -> None:
    gone = made.erase([op])
    assert bool(gone) != (op in made.ops)
    assert all(not o.inputs for o in gone)


def remove_dead(made: Graph, op: Op) -> None:
    before = len(made.ops)
    assert before - made.remove_dead() == len(made.ops)
    assert all(map(made.is_needed, made.ops))


def swap(made: Graph, op: Op) -> None:
    if op.kind in ("ADD", "MUL"):
        op.inputs = op.inputs[::-1]


@settings(max_examples=60)
@given(
    made=graphs(),
    changes=st.lists(
        st.tuples(st.sampled_from([respell, merge, erase, remove_dead, swap]), st.integers(0, 99)), max_size=8
    ),
)
def test_changes_keep_the_numbers_and_the_uses(made: Graph, changes: list[tuple[Change, int]]) -> None:
    feeds = normal(*SHAPE, seed=1), normal(*SHAPE, seed=2)
    wanted = run_graph(made, *feeds)
    for change, where in changes:
        change(made, made.ops[where % len(made.ops)])
        assert uses_are_right(made)
        made.verify()
    for want, got in zip(wanted, run_graph(made, *feeds), strict=True):
        assert np.array_equal(want, got)


def chain() -> tuple[Graph, Tensor, Tensor, Tensor]:
    """Return x -> RELU -> y -> NEG -> z, and the three tensors."""
    new = Build()
    x = Tensor("x", SHAPE)
    y = new.RELU(x)
    z = new.NEG(y)
    return graph(new, [x], [z]), x, y, z


def test_replacing_an_output_replaces_it_in_signatures() -> None:
    made, x, y, z = chain()
    made.signatures = [Signature("f", {"in": x}, {"out": z, "again": z})]
    made.replace_tensor(z, y)
    assert made.outputs == [y]
    assert made.signatures[0].outputs == {"out": y, "again": y}
    assert [op.kind for op in made.erase(made.ops[::-1])] == ["NEG"]
    made.verify()


def test_replacing_an_input_renames_it_in_signatures() -> None:
    made, x, _, z = chain()
    made.signatures = [Signature("f", {"in": x}, {"out": z})]
    wide = Tensor("wide", SHAPE)
    made.replace_tensor(x, wide)
    made.replace_input(x, wide)
    assert made.inputs == [wide]
    assert made.signatures[0].inputs == {"wide": wide}
    assert not x.uses
    made.verify()


def test_a_result_used_twice_by_one_operator_is_replaced_twice() -> None:
    new = Build()
    x, w = Tensor("x", SHAPE), Tensor("w", SHAPE)
    made = graph(new, [x, w], [new.MUL(x, x)])
    made.replace_tensor(x, w)
    assert made.ops[0].inputs == (w, w)
    assert not x.uses
    assert len(w.uses) == 2


def test_erasing_takes_what_only_the_erased_needed() -> None:
    new = Build()
    x = Tensor("x", SHAPE)
    shared = new.RELU(x)
    lonely = new.NEG(new.ABS(shared))
    made = Graph([x], [new.SQUARE(shared)], new.ops)
    assert [o.kind for o in made.erase([lonely.maker])] == ["NEG", "ABS"]
    assert [o.kind for o in made.ops] == ["RELU", "SQUARE"]
    assert made.erase(made.ops) == []


def test_operators_with_side_effects_stay() -> None:
    x, table = Tensor("x", SHAPE), Tensor("table", (1,), "RESOURCE")
    ops = [
        Op("VAR_HANDLE", (), (table,)),
        Op("ASSIGN_VARIABLE", (table, x), ()),
        Op("NEG", (x,), (Tensor("unused", SHAPE),)),
        Op("WHILE", (x,), (Tensor("unused too", SHAPE),)),
    ]
    made = Graph([x], [x], ops)
    assert made.erase(made.ops[::-1]) == [ops[2]]
    assert made.remove_dead() == 0
    assert [o.kind for o in made.ops] == ["VAR_HANDLE", "ASSIGN_VARIABLE", "WHILE"]


def test_what_is_inserted_is_ready_in_time() -> None:
    made, _, y, z = chain()
    new = Build()
    z.maker.inputs = (new.SQUARE(new.ABS(y)),)
    made.insert_before(z.maker, new.ops)
    assert [o.kind for o in made.ops] == ["RELU", "ABS", "SQUARE", "NEG"]
    made.verify()


def unproduced() -> Graph:
    return Graph([], [Tensor("y", SHAPE)])


def read_early() -> Graph:
    made, *_ = chain()
    made.ops.reverse()
    return made


def forgotten_use() -> Graph:
    made, x, *_ = chain()
    x.uses.clear()
    return made


def stray_use() -> Graph:
    made, x, *_ = chain()
    Build().ABS(x)
    return made


def other_producer() -> Graph:
    made, _, y, _ = chain()
    y.producer = made.ops[1]
    return made


def made_twice() -> Graph:
    made, *_ = chain()
    made.ops.insert(0, made.ops[0])
    return made


def made_constant() -> Graph:
    made, _, y, _ = chain()
    y.data = Weights.of(normal(*SHAPE))
    return made


def made_input() -> Graph:
    made, _, y, _ = chain()
    made.inputs.append(y)
    return made


def wrong_shape() -> Graph:
    made, _, y, _ = chain()
    y.shape = (3, 2)
    return made


def wrong_operands() -> Graph:
    x = Tensor("x", (2, 3))
    return Graph([x], [], [Op("ADD", (x, Tensor("c", (2, 2), data=Weights.of(np.ones((2, 2))))), ())])


def wrong_count() -> Graph:
    x = Tensor("x", (2, 3))
    return Graph([x], [], [Op("TRANSPOSE", (x,), ())])


def no_parts() -> Graph:
    x = Tensor("x", (2, 3))
    return Graph([x], [], [Op("SPLIT", (Build().const(0), x), ())])


def foreign_signature_input() -> Graph:
    made, _, y, z = chain()
    made.signatures = [Signature("f", {"in": y}, {"out": z})]
    return made


def foreign_signature_output() -> Graph:
    made, x, y, _ = chain()
    made.signatures = [Signature("f", {"in": x}, {"out": y})]
    return made


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (unproduced, "graph output y is never produced"),
        (read_early, r"op 0 .*NEG.*: reads t0 before it is produced"),
        (forgotten_use, "op 0 .*: input 0 does not list this op"),
        (stray_use, "x is used by .*ABS.*, which is not in the graph"),
        (other_producer, "op 0 .*: t0 names another producer"),
        (made_twice, "op 1 .*: t0 has its value already"),
        (made_constant, "op 0 .*: t0 has its value already"),
        (made_input, "op 0 .*: t0 has its value already"),
        (wrong_shape, r"op 0 .*: result should be \[\(2, 3\)\]"),
        (wrong_operands, "op 0 .*: shape mismatch"),
        (wrong_count, "op 0 .*: tuple index out of range"),
        (no_parts, "op 0 .*SPLIT.*: (integer .*|division) by zero"),
        (foreign_signature_input, "signature f takes t0, no input of the graph"),
        (foreign_signature_output, "signature f returns t0, no output of the graph"),
    ],
)
def test_verify_finds_what_is_broken(broken: Callable[[], Graph], message: str) -> None:
    with pytest.raises(InvalidGraph, match=message):
        broken().verify()


def test_verify_leaves_what_it_cannot_know() -> None:
    """Shapes that only running tells, and variables that the first run finds ready."""
    new = Build()
    x, where, state = Tensor("x", (2, 3)), Tensor("where", (1,), "INT32"), Tensor("state", SHAPE)
    state.is_variable = True
    loose = Op("RESHAPE", (x, where), (Tensor("y", (4,)),))
    moving = Op("NEG", (x,), (Tensor("z", (1, 3)),))
    moving.outputs[0].shape_signature = (-1, 3)
    Graph([x, where], [], [loose, moving, Op("ADD", (x, state), (Tensor("sum", SHAPE),)), *new.ops]).verify()


def test_values_are_those_of_constants_only() -> None:
    new = Build()
    assert new.const([1, 2]).values().tolist() == [1, 2]
    with pytest.raises(NotConstant, match="x is not a constant"):
        Tensor("x", SHAPE).values()
    with pytest.raises(ValueError, match="no operator produces x"):
        _ = Tensor("x", SHAPE).maker


def test_literals_become_narrow_constants_and_arrays_stay() -> None:
    new = Build()
    dtypes = [new.const(v).dtype for v in (1, [1.5], True, np.int64(3), np.ones(2))]
    assert dtypes == ["INT32", "FLOAT32", "BOOL", "INT32", "FLOAT64"]
    assert new.const(np.ones(2, np.int64)).dtype == "INT64"


def test_building_again_changes_what_is_said() -> None:
    new = Build()
    x = Tensor("x", (1, 7, 6, 3))
    filters = np.ones((5, 3, 3, 3), np.float32)
    first = new.CONV_2D(x, filters, None, stride_h=2, stride_w=1, padding="VALID", version=3).maker
    second = new.again(first, *first.inputs, padding="SAME").maker
    assert second.attrs == {**first.attrs, "padding": "SAME"}
    assert second.version == 3
    assert (first.outputs[0].shape, second.outputs[0].shape) == ((1, 3, 4, 5), (1, 4, 6, 5))


def test_an_attribute_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"ADD has no attribute \['axis'\]; it has \['fused_activation_function'"
    ):
        Build().ADD(Tensor("x", SHAPE), 1.0, axis=3)


def test_an_operator_of_unknown_shape_is_refused() -> None:
    with pytest.raises(TypeError, match="the result shape of TOPK_V2 is unknown"):
        Build().TOPK_V2(Tensor("x", SHAPE), 1)
    with pytest.raises(AttributeError):
        _ = Build()._nothing


def test_a_graph_reads_like_a_program() -> None:
    new = Build()
    x = Tensor("x", (1, 3))
    y = new.CONCATENATION(new.ADD(x, 1.5), new.RESHAPE(x, [1, 3]), axis=1)
    assert str(graph(new, [x], [y])).splitlines() == [
        "main(x: float32[1, 3]) -> t2",
        "  t0: float32[1, 3] = ADD(x, 1.5)",
        "  t1: float32[1, 3] = RESHAPE(x, [1, 3])",
        "  t2: float32[1, 6] = CONCATENATION(t0, t1) {axis=1}",
    ]


def test_an_optional_operand_may_be_left_out() -> None:
    x = Tensor("x", (1, 4, 4, 3))
    op = Op("CONV_2D", (x, None, None), (Tensor("y", (1, 4, 4, 3)),))
    assert op.operands == (x,)
    assert repr(op).startswith("y: float32[1, 4, 4, 3] = CONV_2D(x, -, -)")
