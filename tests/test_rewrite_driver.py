"""The driver, and what it asks of rules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from graph_rewrites.drop_identity import drop_reshape
from graph_rewrites.merge_reshapes import merge_reshapes
from graph_rewrites.recognise_gelu import recognise_gelu
from msd.graph.ir import Build, Graph, Op, Quant, Signature, Tensor
from msd.graph.rewrite import (
    RuleError,
    Skip,
    Target,
    any_op,
    apply,
    graph_pass,
    op,
    rule,
    skip,
    var,
)
from tests.harness import build, check_no_rewrite, evaluate, feeds_for

X = var("x")


@rule("fuse", op.TANH(X))
def to_logistic(new: Build, x: Tensor) -> Tensor:
    """TANH(x)  =>  LOGISTIC(x)"""
    return new.LOGISTIC(x)


@rule("fuse", op.LOGISTIC(X))
def to_tanh(new: Build, x: Tensor) -> Tensor:
    """LOGISTIC(x)  =>  TANH(x)"""
    return new.TANH(x)


class TestWhatARuleMustBe:
    """Mistakes surface when a rule's file is imported, in a sentence."""

    def test_it_needs_a_docstring_stating_before_and_after(self) -> None:
        def undocumented(new: Build, x: Tensor) -> Tensor:
            return x

        def vague(new: Build, x: Tensor) -> Tensor:
            """Makes it better."""
            return x

        for function in (undocumented, vague):
            words = f"rule {function.__name__} needs a docstring stating before => after"
            with pytest.raises(TypeError, match=words):
                rule("fuse", op.TANH(X))(function)

    def test_its_parameters_are_the_patterns_names(self) -> None:
        def misnamed(new: Build, y: Tensor) -> Tensor:
            """x => x"""
            return y

        words = r"rule misnamed takes \['new', 'y'\], but its pattern binds \['new', 'x'\]"
        with pytest.raises(TypeError, match=words):
            rule("fuse", op.TANH(X))(misnamed)

    def test_its_first_parameter_is_new(self) -> None:
        def built_last(x: Tensor, new: Build) -> Tensor:
            """x => x"""
            return x

        with pytest.raises(TypeError, match=r"rule built_last takes \['x', 'new'\]"):
            rule("fuse", op.TANH(X))(built_last)

    def test_its_phase_is_one_of_the_four(self) -> None:
        with pytest.raises(
            ValueError, match="no phase 'fusion'; choose from canonicalize, fuse, lower, cleanup"
        ):
            rule("fuse fusion", op.TANH(X))(lambda new, x: x)

    def test_its_pattern_is_an_operator(self) -> None:
        with pytest.raises(TypeError, match="a rule's pattern must be the result of an operator"):
            rule("fuse", X)

    def test_a_pass_takes_the_graph(self) -> None:
        def misnamed(graph: Graph, device: str) -> int:
            """x => x"""
            return 0

        with pytest.raises(TypeError, match=r"pass misnamed takes \['graph', 'device'\]"):
            graph_pass("fuse")(misnamed)

    def test_it_may_take_the_target(self) -> None:
        seen = []

        @rule("fuse", op.TANH(X))
        def look(new: Build, x: Tensor, target: Target) -> Tensor | Skip:
            """x => x"""
            seen.append(target.gelu_clip)
            return skip("looked")

        @graph_pass("fuse")
        def peek(graph: Graph, target: Target) -> int:
            """x => x"""
            seen.append(target.gelu_clip)
            return 0

        graph = build(lambda new, x: new.TANH(x), x=(2,))
        apply(graph, [look, peek], Target(gelu_clip=7))
        assert seen == [7, 7]


class TestBrokenRules:
    """A rule that breaks its contract is named."""

    def test_another_shape_or_dtype(self) -> None:
        @rule("fuse", op.TANH(X))
        def flatten(new: Build, x: Tensor) -> Tensor:
            """TANH(x)  =>  RESHAPE(x)"""
            return new.RESHAPE(x, [-1])

        @rule("fuse", op.TANH(X))
        def truncate(new: Build, x: Tensor) -> Tensor:
            """TANH(x)  =>  CAST(x)"""
            return new.CAST(x, out_data_type="INT32")

        graph = build(lambda new, x: new.TANH(x), x=(2, 3))
        with pytest.raises(RuleError, match=r"flatten turned t0: float32\[2, 3\] into .*float32\[6\]"):
            apply(graph, [flatten])
        with pytest.raises(RuleError, match=r"truncate turned t0: float32\[2, 3\] into .*int32\[2, 3\]"):
            apply(graph, [truncate])

    def test_nothing_returned(self) -> None:
        @rule("fuse", op.TANH(X))
        def forgetful(new: Build, x: Tensor) -> Tensor:  # type: ignore[return]
            """TANH(x)  =>  LOGISTIC(x)"""
            new.LOGISTIC(x)

        graph = build(lambda new, x: new.TANH(x), x=(2, 3))
        with pytest.raises(RuleError, match=r"forgetful turned t0: float32\[2, 3\] into None"):
            apply(graph, [forgetful])

    def test_an_exception_inside(self) -> None:
        @rule("fuse", op.TANH(X))
        def careless(new: Build, x: Tensor) -> Tensor:
            """TANH(x)  =>  LOGISTIC(x)"""
            return new.MUL(x, float(x.values()[0]))

        graph = build(lambda new, x: new.TANH(x), x=(2, 3))
        with pytest.raises(RuleError, match=r"careless failed at t0: float32\[2, 3\]: x is not a constant"):
            apply(graph, [careless])

    def test_a_cycle_is_named(self) -> None:
        graph = build(lambda new, x: new.TANH(new.TANH(x)), x=(2, 3))
        words = "no fixed point after 140 rewrites; the last were (to_(tanh|logistic)(, |$)){6}"
        with pytest.raises(RuleError, match=words):
            apply(graph, [to_logistic, to_tanh])

    def test_a_pass_that_always_finds_something_is_named(self) -> None:
        @graph_pass("cleanup")
        def busy(graph: Graph) -> int:
            """x  =>  x"""
            return 1

        graph = build(lambda new, x: new.TANH(x), x=(2, 3))
        with pytest.raises(RuleError, match="no fixed point after 120 rewrites; the last were busy, busy"):
            apply(graph, [busy])

    def test_nothing_is_changed_by_a_rule_that_gives_up_half_way(self) -> None:
        @rule("fuse", op.TANH(X))
        def hesitant(new: Build, x: Tensor) -> Tensor | Skip:
            """TANH(x)  =>  LOGISTIC(x)"""
            new.LOGISTIC(new.EXP(x))
            return skip("on second thoughts")

        check_no_rewrite([hesitant], lambda new, x: new.TANH(x), "on second thoughts", x=(2, 3))


def gelu_spelt(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return GELU of x, and the cube inside."""
    cube = new.MUL(x, new.MUL(x, x))
    slope = new.MUL(0.7978845608, new.ADD(x, new.MUL(0.044715, cube)))
    return new.MUL(new.MUL(0.5, x), new.ADD(1.0, new.TANH(slope))), cube


class TestInnerResults:
    def test_those_that_others_read_keep_a_rule_away(self) -> None:
        def read(new: Build, x: Tensor) -> tuple[Tensor, ...]:
            y, cube = gelu_spelt(new, x)
            return y, new.TANH(cube)

        check_no_rewrite([recognise_gelu], read, "the inner MUL is also used elsewhere", x=(2, 3))
        check_no_rewrite([recognise_gelu], gelu_spelt, "the inner MUL is also used elsewhere", x=(2, 3))

    def test_they_go_with_the_match(self) -> None:
        graph = build(lambda new, x: gelu_spelt(new, x)[0], x=(2, 3))
        ledger = apply(graph, [recognise_gelu])
        assert [o.kind for o in graph.ops] == ["GELU"]
        assert ledger.entries["recognise_gelu"].delta == Counter(
            {"GELU": 1, "MUL": -6, "ADD": -2, "TANH": -1}
        )

    def test_what_a_bound_operand_needed_goes_too(self) -> None:
        """A rule that drops an operand leaves no work behind for it."""

        @rule("fuse", op.SUB(X, var("y")))
        def first(new: Build, x: Tensor, y: Tensor) -> Tensor:
            """x - y  =>  TANH(x)"""
            return new.TANH(x)

        graph = build(lambda new, x: new.SUB(x, new.EXP(new.NEG(x))), x=(2, 3))
        ledger = apply(graph, [first])
        assert [o.kind for o in graph.ops] == ["TANH"]
        assert ledger.entries["first"].effect.kinds == {"EXP": -1, "NEG": -1, "SUB": -1, "TANH": 1}

    def test_operators_a_rule_made_for_nothing_are_not_kept_or_counted(self) -> None:
        @rule("fuse", op.TANH(X))
        def wasteful(new: Build, x: Tensor) -> Tensor:
            """TANH(x)  =>  LOGISTIC(x)"""
            new.EXP(new.NEG(x))
            return new.LOGISTIC(x)

        graph = build(lambda new, x: new.TANH(x), x=(2, 3))
        ledger = apply(graph, [wasteful])
        assert [o.kind for o in graph.ops] == ["LOGISTIC"]
        assert ledger.entries["wasteful"].effect.kinds == {"LOGISTIC": 1, "TANH": -1}


class TestInterface:
    def test_outputs_keep_their_names(self) -> None:
        def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
            return new.TANH(x), new.RESHAPE(new.EXP(x), [2, 3])

        graph = build(before, x=(2, 3))
        names = [t.name for t in graph.outputs]
        apply(graph, [to_logistic, drop_reshape])
        assert [t.name for t in graph.outputs] == names
        assert [o.kind for o in graph.ops] == ["LOGISTIC", "EXP"]
        assert graph.signatures[0].outputs == dict(zip(["out0", "out1"], graph.outputs, strict=True))

    def test_one_tensor_may_be_several_outputs(self) -> None:
        def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
            y = new.TANH(x)
            return y, y

        graph = build(before, x=(2, 3))
        apply(graph, [to_logistic])
        assert graph.outputs[0] is graph.outputs[1]
        assert set(graph.signatures[0].outputs.values()) == {graph.outputs[0]}

    def test_an_output_never_becomes_an_input_a_constant_or_another_output(self) -> None:
        def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
            y = new.TANH(x)
            return y, new.RESHAPE(y, [2, 3]), new.RESHAPE(x, [2, 3])

        because = "a graph output would become another name for"
        check_no_rewrite([drop_reshape], before, because + " x", x=(2, 3))
        check_no_rewrite([drop_reshape], before, because + " t0", x=(2, 3))

    def test_every_signature_follows(self) -> None:
        graph = build(lambda new, x: new.TANH(x), x=(2, 3))
        graph.signatures.append(Signature("again", {"first": graph.inputs[0]}, {"last": graph.outputs[0]}))
        apply(graph, [to_logistic])
        assert [list(s.outputs.values()) for s in graph.signatures] == [[graph.outputs[0]]] * 2


class TestOperatorsWithSeveralResults:
    def test_each_result_is_replaced_on_its_own(self) -> None:
        @rule("fuse", any_op("SPLIT", name="y"))
        def slice_first(new: Build, y: Tensor) -> Tensor | Skip:
            """SPLIT(x)[0]  =>  SLICE(x)"""
            if y.maker.outputs.index(y):
                return skip("it is not the first")
            return new.SLICE(y.maker.operands[1], [0, 0], [2, 2])

        graph = build(lambda new, x: new.SPLIT(1, x, 3), x=(2, 6))
        feeds = feeds_for(graph)
        want = evaluate(graph, feeds)
        ledger = apply(graph, [slice_first])
        assert [o.kind for o in graph.ops] == ["SLICE", "SPLIT"]
        np.testing.assert_array_equal(evaluate(graph, feeds), want)
        assert set(ledger.entries["slice_first"].skipped.values()) == {"it is not the first"}

    def test_it_goes_when_all_its_results_are_replaced(self) -> None:
        @rule("fuse", any_op("SPLIT", name="y"))
        def slice_all(new: Build, y: Tensor) -> Tensor:
            """SPLIT(x)[i]  =>  SLICE(x)"""
            return new.SLICE(y.maker.operands[1], [0, 2 * y.maker.outputs.index(y)], [2, 2])

        graph = build(lambda new, x: new.SPLIT(1, x, 3), x=(2, 6))
        feeds = feeds_for(graph)
        want = evaluate(graph, feeds)
        ledger = apply(graph, [slice_all])
        assert [o.kind for o in graph.ops] == ["SLICE"] * 3
        np.testing.assert_array_equal(evaluate(graph, feeds), want)
        assert (ledger.before, ledger.after, ledger.entries["slice_all"].ops) == (1, 3, 2)

    def test_results_that_nobody_reads_are_left_alone(self) -> None:
        seen = []

        @rule("fuse", any_op("SPLIT", name="y"))
        def look(new: Build, y: Tensor) -> Tensor | Skip:
            """x  =>  x"""
            seen.append(y.maker.outputs.index(y))
            return skip("looked")

        apply(build(lambda new, x: new.SPLIT(1, x, 3)[1], x=(2, 6)), [look])
        assert seen == [1]


class TestWhatRulesLeaveAlone:
    def test_quantised_values(self) -> None:
        """A rule would lose their scales."""
        quant = Quant(np.float32([0.1]), np.int64([0]))
        x, y = Tensor("x", (2, 3), "INT8", quant=quant), Tensor("y", (2, 3), "INT8", quant=quant)
        graph = Graph([x], [y], [Op("TANH", [x], [y])])
        check_no_rewrite([to_logistic], graph, because="is quantised")

    def test_values_of_unknown_size(self) -> None:
        """A rule would write the size down that the file happens to name."""
        graph = build(lambda new, x: new.RESHAPE(new.RESHAPE(x, [3]), [1, 3]), x=(1, 3))
        graph.inputs[0].shape_signature = (-1, 3)
        check_no_rewrite([merge_reshapes], graph, because="the shape of x is not fixed")

    def test_a_shape_signature_without_unknowns_is_no_obstacle(self) -> None:
        graph = build(lambda new, x: new.TANH(x), x=(1, 3))
        graph.inputs[0].shape_signature = (1, 3)
        assert apply(graph, [to_logistic]).fired == 1

    def test_operators_with_side_effects(self) -> None:
        x, seed = Tensor("x", (2,)), Build().const([2])
        rolled = Tensor("rolled", (2,))
        new = Build()
        graph = Graph([x], [new.TANH(x)], [Op("RANDOM_UNIFORM", [seed], [rolled]), *new.ops])
        apply(graph, [to_logistic])
        assert [o.kind for o in graph.ops] == ["RANDOM_UNIFORM", "LOGISTIC"]
