"""The rules as a whole: what a finding says, files of any kind, and how much work it is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import graph_rewrites
from msd.errors import BadConfig
from msd.graph import tflite
from msd.graph.ir import Graph, Model, Op, Tensor, opset
from msd.graph.prediction.registry import delegates
from msd.graph.prediction.rules import Finding, predict
from msd.graph.prediction.rules.checks import Check
from msd.graph.prediction.rules.miscomputed import odd_rows
from msd.graph.prediction.rules.ruleset import RuleSet
from msd.graph.prediction.rules.view import View, broadcast, from_left, from_right
from tests import edited_models, tiny_models, varied_models
from tests.oracle.case import given, ints, model, numbers, op
from tests.oracle.compare import every_case

DELEGATES = sorted(delegates())
S = (2, 3, 5, 8)
F = "FLOAT32"


def checks(rules: RuleSet) -> Iterator[Check]:
    yield from rules.every
    for table in (rules.rules, rules.miscomputed):
        for row in table.values():
            yield from row


@pytest.mark.parametrize("delegate", DELEGATES)
def test_every_fix_is_a_rewrite(delegate: str) -> None:
    known = {rewrite.name for rewrite in graph_rewrites.load()}
    fixes = {check.fix for check in checks(delegates()[delegate].rules)} - {None}
    assert fixes <= known
    assert len(fixes) >= 5


@pytest.mark.parametrize("delegate", DELEGATES)
def test_every_row_is_of_a_kind_that_there_is(delegate: str) -> None:
    rules = delegates()[delegate].rules
    for kind in (*rules.rules, *rules.miscomputed):
        assert opset.spec(kind).kind == kind
    assert set(rules.miscomputed) <= set(rules.rules)


def test_a_finding_says_what_where_and_why() -> None:
    made = model(op("TRANSPOSE", [numbers(5, 8), ints(1, 0)], ((8, 5), F)))
    (found,) = predict(made, "litert-gpu")
    assert found == Finding(
        op=0,
        kind="TRANSPOSE",
        tensors=("c0", "n1"),
        severity="rejected",
        code="constness",
        sentence="TRANSPOSE at 0, which makes y2, reads 0 runtime tensors; 1 are supported.",
        fix="fold_transpose",
        source="ml_drift_delegate/tflite/model_builder.cc",
    )
    assert found.to_json()["tensors"] == ["c0", "n1"]


def test_no_finding_is_taken_and_right() -> None:
    made = model(op("TANH", [given(*S)], (S, F)))
    assert all(predict(made, delegate) == () for delegate in DELEGATES)


def test_there_are_no_rules_for_another_delegate() -> None:
    with pytest.raises(
        BadConfig, match="no rules for the delegate nnapi; there are for litert-gpu, tflite-gpu"
    ):
        predict(Model([Graph()]), "nnapi")


@pytest.mark.parametrize(
    ("kind", "delegate", "severity"),
    [
        ("LSTM", "litert-gpu", "unknown"),
        ("LSTM", "tflite-gpu", "unknown"),
        ("CUSTOM:Resampler", "tflite-gpu", "unknown"),
        ("CUSTOM:FlexErf", "litert-gpu", "rejected"),
        ("GATHER_ND", "litert-gpu", "rejected"),
        ("CEIL", "tflite-gpu", "rejected"),
    ],
)
def test_what_has_no_row_is_never_fine(kind: str, delegate: str, severity: str) -> None:
    (found,) = predict(model(op(kind, [given(*S)], (S, F))), delegate)
    assert (found.severity, found.code) == (severity, "no-rule" if severity == "unknown" else "unsupported")


@pytest.mark.parametrize("delegate", DELEGATES)
def test_every_builtin_is_taken_rejected_or_unknown(delegate: str) -> None:
    for kind in vars(opset.schema.BuiltinOperator):
        if kind.isupper() and kind not in delegates()[delegate].rules.rules:
            (found,) = predict(model(op(kind, [given(*S)], (S, F))), delegate) or (None,)
            assert kind in ("CUSTOM", "STABLEHLO_COMPOSITE") or found is not None, kind


def test_operations_count_over_all_graphs_that_run() -> None:
    """Its body and its condition are two more graphs, and taken; msd.measure.judging counts alike."""
    found = predict(tflite.parse(tiny_models.model("loop")), "litert-gpu")
    assert [(f.op, f.kind) for f in found] == [(0, "WHILE")]


def test_a_composite_stands_for_its_own_graph() -> None:
    (found,) = predict(tflite.parse(edited_models.composite("whole")), "litert-gpu")
    assert (found.kind, found.severity) == ("STABLEHLO_COMPOSITE", "unknown")


@pytest.mark.parametrize(
    ("delegate", "name"),
    [
        *(("litert-gpu", name) for name in ("text_encoder", "unet", "vae_decoder")),
        ("tflite-gpu", "vae_decoder"),
    ],
)
def test_the_stand_in_bundle_is_taken_whole(delegate: str, name: str, bundle_folder: Path) -> None:
    found = predict(tflite.read(bundle_folder / f"{name}.tflite"), delegate)
    assert [f.sentence for f in found if f.severity != "note"] == []


@pytest.mark.parametrize("delegate", DELEGATES)
def test_no_case_is_beyond_its_checks(delegate: str) -> None:
    """`malformed` is for damaged files: a check that stumbles over a sound one is a bug."""
    stumbled = [c.name for c in every_case() if "malformed" in {f.code for f in predict(c.model, delegate)}]
    assert stumbled == []


@pytest.mark.parametrize("delegate", DELEGATES)
def test_damaged_operations_get_a_finding_and_no_traceback(delegate: str) -> None:
    """Operands left out, doubled, of other ranks and dtypes, results dropped: 4 ways with each case."""
    draw = random.Random(7)
    seen: Counter[str] = Counter()
    for case in every_case():
        for damage in (_shorter, _reshaped, _retyped, _without_results):
            ops = [damage(o, draw) for o in case.model.main.ops]
            for found in predict(Model([Graph(ops=ops)]), delegate):
                seen[found.code] += 1
                assert found.sentence.endswith(".")
    assert seen["malformed"] > 0
    assert len(seen) > 10


def _copy(tensor: Tensor | None, **changes: object) -> Tensor | None:
    if tensor is None:
        return None
    made = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data, tensor.quant)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _rebuilt(o: Op, inputs: list[Tensor | None], results: list[Tensor]) -> Op:
    return Op(o.kind, inputs, results, o.attrs, o.version)


def _results(o: Op) -> list[Tensor]:
    return [Tensor(t.name, t.shape, t.dtype) for t in o.outputs]


def _shorter(o: Op, draw: random.Random) -> Op:
    kept = [_copy(t) for t in o.inputs][: draw.randrange(len(o.inputs) + 1)]
    return _rebuilt(o, kept, _results(o))


def _reshaped(o: Op, draw: random.Random) -> Op:
    def other(t: Tensor | None) -> Tensor | None:
        constant = t is not None and t.data is not None
        return _copy(t) if constant else _copy(t, shape=tuple(draw.choices((0, 1, 3), k=draw.randrange(7))))

    return _rebuilt(o, [other(t) for t in o.inputs], _results(o))


def _retyped(o: Op, draw: random.Random) -> Op:
    kinds = ("STRING", "COMPLEX64", "INT64", "INT4", "RESOURCE", "FLOAT16")
    return _rebuilt(o, [_copy(t, dtype=draw.choice(kinds), data=None) for t in o.inputs], _results(o))


def _without_results(o: Op, draw: random.Random) -> Op:
    return _rebuilt(o, [_copy(t) for t in o.inputs], [])


@pytest.mark.parametrize("delegate", DELEGATES)
@pytest.mark.parametrize("name", varied_models.MODELS)
def test_files_of_every_kind_are_judged(name: str, delegate: str) -> None:
    for found in predict(tflite.parse(varied_models.model(name)), delegate):
        assert found.source.startswith(("tflite/", "ml_drift_delegate/", "measured", "LiteRT", "the CPU"))


def test_the_work_grows_with_the_operations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of 5 000 operations: each check of a row once for each operation, whatever came before it."""
    delegate, calls = delegates()["litert-gpu"], [0]
    rules = delegate.rules

    def counted(test: Callable[[View], object]) -> Callable[[View], object]:
        def run(view: View) -> object:
            calls[0] += 1
            return test(view)

        return run

    row = tuple(replace(check, test=counted(check.test)) for check in rules.rules["TANH"])
    counting = replace(delegate, rules=replace(rules, rules={"TANH": row}))
    monkeypatch.setitem(delegates(), "litert-gpu", counting)
    assert predict(chain(5000), "litert-gpu") == ()
    assert calls[0] == 5000 * len(row)


def chain(length: int) -> Model:
    ops, x = [], given(*S)
    for _ in range(length):
        ops.append(op("TANH", [x], (S, F)))
        (x,) = ops[-1].outputs
    return model(*ops)


@pytest.mark.parametrize(
    ("shape", "left", "right"),
    [
        ((), (1, 1, 1, 1), (1, 1, 1, 1)),
        ((8,), (8, 1, 1, 1), (1, 1, 1, 8)),
        ((5, 8), (5, 1, 1, 8), (1, 1, 5, 8)),
        ((3, 5, 8), (3, 1, 5, 8), (1, 3, 5, 8)),
        (S, S, S),
    ],
)
def test_how_shapes_are_laid_out(shape: tuple[int, ...], left: object, right: object) -> None:
    assert (from_left(shape), from_right(shape)) == (left, right)


def test_shapes_that_do_not_broadcast() -> None:
    assert broadcast((3, 5), (5,)) == (3, 5)
    assert broadcast((3, 5), (4,)) is None


@pytest.mark.parametrize(
    ("dtype", "width", "wrong"), [("INT4", 7, 1), ("INT2", 6, 1), ("INT2", 8, 0), ("INT8", 7, 0)]
)
def test_rows_that_begin_within_a_byte(dtype: str, width: int, wrong: bool) -> None:
    assert odd_rows(Tensor("table", (3, width), dtype)) == wrong
