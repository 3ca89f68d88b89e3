"""Phases, the ledger of what was done, and the loader of rewrites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graph_rewrites
from graph_rewrites.drop_identity import drop_reshape
from graph_rewrites.merge_duplicates import merge_duplicates
from graph_rewrites.merge_reshapes import merge_reshapes
from graph_rewrites.sink_reshape import sink_reshape_past_unary
from msd.files.schema import to_json
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.rewrite import (
    PHASES,
    GraphPass,
    Rule,
    Skip,
    apply,
    graph_pass,
    op,
    rule,
    skip,
    var,
)
from tests.harness import build, structure

X = var("x")


@rule("fuse", op.TANH(X))
def to_logistic(new: Build, x: Tensor) -> Tensor:
    """TANH(x)  =>  LOGISTIC(x)"""
    return new.LOGISTIC(x)


@rule("fuse", op.LOGISTIC(X))
def to_tanh(new: Build, x: Tensor) -> Tensor:
    """LOGISTIC(x)  =>  TANH(x)"""
    return new.TANH(x)


class TestPhases:
    def test_they_run_in_their_order_whatever_the_order_of_rules(self) -> None:
        seen: list[str] = []

        def looking(phase: str) -> Rule:
            def look(new: Build, x: Tensor) -> Tensor | Skip:
                """x  =>  x"""
                seen.append(phase)
                return skip("looked")

            return rule(phase, op.TANH(X))(look)

        apply(build(lambda new, x: new.TANH(x), x=(2,)), [looking(p) for p in reversed(PHASES)])
        assert seen == list(PHASES)

    def test_each_runs_until_nothing_fires(self) -> None:
        graph = build(lambda new, x: new.TANH(new.TANH(new.RESHAPE(x, [6, 4]))), x=(1, 2, 3, 4))
        ledger = apply(graph, [sink_reshape_past_unary])
        assert [o.kind for o in graph.ops] == ["TANH", "TANH", "RESHAPE"]
        assert ledger.fired == 2

    def test_any_may_be_left_out(self) -> None:
        graph = build(lambda new, x: new.TANH(x), x=(2,))
        assert to_json(apply(graph, []).of_component()) == {"before": 1, "after": 1, "rules": []}


class TestLedger:
    def graph(self) -> Graph:
        def spell(new: Build, x: Tensor) -> Tensor:
            new.EXP(new.NEG(x))
            a = new.TANH(new.RESHAPE(new.RESHAPE(x, [6]), [3, 2]))
            b = new.TANH(new.RESHAPE(new.RESHAPE(x, [6]), [3, 2]))
            return new.MUL(a, new.RESHAPE(b, [3, 2]))

        return build(spell, x=(2, 3))

    def test_it_accounts_for_every_operator(self) -> None:
        graph = self.graph()
        ledger = apply(graph, [merge_reshapes, drop_reshape, merge_duplicates])
        assert (ledger.before, ledger.after) == (10, 3)
        counts = {name: entry.ops for name, entry in ledger.entries.items()}
        assert counts["remove_dead"] == -2
        assert ledger.before + sum(counts.values()) == ledger.after

    def test_its_json_is_stable_and_says_why_not(self) -> None:
        rules = [merge_reshapes, drop_reshape, merge_duplicates]
        first, second = (to_json(apply(self.graph(), rules).of_component()) for _ in range(2))
        assert json.dumps(first) == json.dumps(second)
        assert first["rules"][0] == {
            "rule": "merge_reshapes",
            "fired": 2,
            "ops": -2,
            "kinds": {"RESHAPE": -2},
            "skipped": {},
        }
        skipped = first["rules"][1]["skipped"]
        assert list(skipped) == ["the shape changes"]
        assert set(skipped["the shape changes"]) == {"count", "example"}

    def test_a_skip_that_was_overcome_is_forgotten(self) -> None:
        @rule("fuse", op.TANH(X).named("y"))
        def late(new: Build, x: Tensor, y: Tensor) -> Tensor | Skip:
            """TANH(EXP(x))  =>  EXP(x)"""
            return new.EXP(x) if x.producer and x.maker.kind == "EXP" else skip("not yet")

        @graph_pass("fuse")
        def prepare(graph: Graph) -> int:
            """NEG(x)  =>  EXP(x)"""
            o = graph.ops[0]
            if o.kind != "NEG":
                return 0
            new = Build()
            result = new.EXP(o.operands[0])
            graph.insert_before(o, new.ops)
            graph.replace_tensor(o.outputs[0], result)
            return 1

        ledger = apply(build(lambda new, x: new.TANH(new.NEG(x)), x=(2,)), [late, prepare])
        assert ledger.entries["late"].fired == 1
        assert ledger.entries["late"].skipped == {}
        assert ledger.entries["prepare"].ops == 0


class TestLoader:
    def test_every_file_is_found_in_name_order(self) -> None:
        files = {p.stem for p in Path(graph_rewrites.__file__).parent.glob("[!_]*.py")}
        rules = graph_rewrites.load()
        homes = [_home(r) for r in rules]
        assert set(homes) == files
        assert homes == sorted(homes)
        assert len({r.name for r in rules}) == len(rules)

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ({"empty.py": "VALUE = 1\n"}, "graph_rewrites/empty.py has no rewrite"),
            (
                dict.fromkeys(
                    ["one.py", "two.py"],
                    "from msd.graph.rewrite import op, rule, var\n"
                    "@rule('fuse', op.TANH(var('x')))\n"
                    "def same(new, x):\n"
                    "    'x => x'\n"
                    "    return x\n",
                ),
                "two rewrites are called same; the second is in graph_rewrites/two.py",
            ),
        ],
    )
    def test_it_is_loud(
        self, files: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(graph_rewrites, "__path__", [str(tmp_path)])
        with pytest.raises(ImportError, match=words):
            graph_rewrites.load()


def _home(r: Rule | GraphPass) -> str:
    function = r.build if isinstance(r, Rule) else r.change
    return function.__module__.rpartition(".")[2]


def test_structural_equality_sees_attributes_operands_and_shapes() -> None:
    """The harness compares graphs with this; it must see what matters and not see names."""
    one = structure(build(lambda new, x: new.ADD(x, 1.0), x=(2, 3)))
    assert one == structure(build(lambda new, renamed: new.ADD(renamed, 1.0), renamed=(2, 3)))
    for other in (
        build(lambda new, x: new.ADD(1.0, x), x=(2, 3)),
        build(lambda new, x: new.ADD(x, [1.0]), x=(2, 3)),
        build(lambda new, x: new.ADD(x, x), x=(2, 3)),
        build(lambda new, x: new.SUB(x, 1.0), x=(2, 3)),
        build(lambda new, x: new.ADD(x, 1.0, fused_activation_function="RELU"), x=(2, 3)),
        build(lambda new, x: new.ADD(x, 1.0, version=2), x=(2, 3)),
        build(lambda new, x: new.ADD(x, 1.0), x=(3, 2)),
    ):
        assert structure(other) != one
