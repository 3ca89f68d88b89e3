"""Attention as LiteRT's composite: the CPU's numbers, what the GPU's parser reads, and what is refused."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_rewrites
import msd
from msd.cli.convert import convert
from msd.conversion.composite_attention import compose_attention
from msd.errors import BadConfig
from msd.graph import tflite
from msd.graph.ir import Build, Model, Op, Tensor
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.parity import psnr
from msd.graph.prediction.arithmetic import ATTENTION, arithmetic
from msd.graph.prediction.rules import predict
from msd.graph.rewrite import apply
from msd.measure.judging import judge
from msd.run.runners.interpreter import Interpreter
from tests.harness import build, feeds_for, normal
from tests.reference import Array
from tests.test_ablation import from_checkpoint
from tests.traced import Traced

RULES = graph_rewrites.load()


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Traced]:
    return dict(from_checkpoint(tmp_path_factory.mktemp("composites")))


def run(model: Model, path: Path, feeds: dict[str, Array]) -> Array:
    tflite.write(model, path)
    with Interpreter(path) as opened:
        return next(iter(opened.run(feeds).values()))


def composites(model: Model) -> list[Op]:
    return [op for op in model.main.ops if op.kind == "STABLEHLO_COMPOSITE"]


def test_networks_give_the_cpus_numbers(networks: dict[str, Traced], tmp_path: Path) -> None:
    """The text encoder's attentions have masks and stay; the decoder's only head is one, too."""
    found = {}
    for name, traced in networks.items():
        plain, composed = traced.model(), traced.model()
        for model in (plain, composed):
            apply(model.main, RULES)
        found[name] = compose_attention(composed)
        composed.main.verify()
        path = tmp_path / f"{name}.tflite"
        tflite.write(plain, path)
        with Interpreter(path) as opened:
            feeds = {n: traced.inputs[n].reshape(port.shape) for n, port in opened.inputs.items()}
        wanted, said = (run(model, path, feeds) for model in (plain, composed))
        assert psnr(wanted, said) >= 120, name
        assert len(composites(composed)) == len(composites(tflite.read(path))) == found[name]
    assert found["unet"] > 1
    assert (found["text_encoder"], found["vae_decoder"]) == (0, 1)


def _composed(traced: Traced) -> Model:
    model = traced.model()
    apply(model.main, RULES)
    compose_attention(model)
    return model


def test_the_file_is_what_the_gpus_parser_reads(networks: dict[str, Traced], tmp_path: Path) -> None:
    """convert_sdpa.cc: three inputs, a map with a float called scale; heads on the third axis, rank 4."""
    path = tmp_path / "unet.tflite"
    tflite.write(_composed(networks["unet"]), path)
    model = tflite.read(path)
    assert executed_graphs(model) == [model.main]
    shapes = set()
    for op in composites(model):
        queries, keys, values = (tensor.shape for tensor in op.operands)
        assert keys == values
        assert (queries[0], *queries[2:]) == (keys[0], *keys[2:])
        assert op.outputs[0].shape == queries
        assert op.attrs["name"] in (ATTENTION, ATTENTION.encode())
        assert (op.attrs["version"], op.attrs["composite_attributes_format"]) == (1, 0)
        assert flexbuffers.Loads(bytes(bytearray(op.attrs["composite_attributes"]))) == {"scale": 1.0}
        decomposition = model.graphs[op.attrs["decomposition_subgraph_index"]]
        assert [t.shape for t in decomposition.inputs] == [queries, keys, values]
        assert [t.shape for t in decomposition.outputs] == [queries]
        shapes.add((queries, keys))
    assert len(model.graphs) == 1 + len(shapes)
    around = [o for op in composites(model) for t in (*op.operands, *op.outputs) for o, _ in t.uses]
    assert "TRANSPOSE" not in {op.kind for op in around}


def test_rules_say_that_nothing_has_run_it(networks: dict[str, Traced], tmp_path: Path) -> None:
    path = tmp_path / "unet.tflite"
    tflite.write(_composed(networks["unet"]), path)
    found = predict(tflite.read(path), "litert-gpu")
    assert {(f.kind, f.severity, f.code) for f in found} == {("STABLEHLO_COMPOSITE", "unknown", "unproved")}
    assert "no phone has run it" in found[0].sentence
    classic = [f for f in predict(tflite.read(path), "tflite-gpu") if f.severity == "rejected"]
    assert {f.kind for f in classic} == {"STABLEHLO_COMPOSITE"}
    verdict = judge(path)
    assert not verdict.ok
    assert "crashed with SIGSEGV" in str(verdict)


def attention(
    new: Build,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    adj_y: bool = False,
    beta: float = 1.0,
    mask: Any = None,
) -> Tensor:
    scores = new.BATCH_MATMUL(q, k if adj_y else new.TRANSPOSE(k, [0, 1, 3, 2]), adj_y=adj_y)
    scores = scores if mask is None else new.ADD(scores, new.const(mask))
    return new.BATCH_MATMUL(new.SOFTMAX(scores, beta=beta), v)


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(
    heads=st.sampled_from([1, 3]),
    tokens=st.sampled_from([1, 5]),
    keys=st.sampled_from([2, 7]),
    merged=st.booleans(),
    adj_y=st.booleans(),
    back=st.booleans(),
)
def test_any_attention(heads: int, tokens: int, keys: int, merged: bool, adj_y: bool, back: bool) -> None:
    """Heads that stand second already, or behind a transpose, or a split of one; results likewise."""

    def spell(new: Build, x: Tensor, y: Tensor) -> Tensor:
        q = new.TRANSPOSE(x, [0, 2, 1, 3])
        if merged:
            k, v = new.SPLIT(1, new.TRANSPOSE(new.CONCATENATION(y, new.EXP(y), axis=2), [0, 2, 1, 3]), 2)
        else:
            k = new.TRANSPOSE(y, [0, 2, 1, 3])
            v = new.TANH(k)
        result = attention(new, q, k, v, adj_y)
        return new.TRANSPOSE(result, [0, 2, 1, 3]) if back else new.NEG(result)

    batch = 1 if heads == 1 else 2
    shapes = {"x": (batch, tokens, heads, 4), "y": (batch, keys, heads, 4)}
    plain, composed = (Model([build(spell, **shapes)]) for _ in range(2))
    assert compose_attention(composed) == 1
    composed.main.verify()
    feeds = feeds_for(plain.main, scale=1)
    with tempfile.TemporaryDirectory() as folder:
        results = [run(model, Path(folder) / "graph.tflite", feeds) for model in (plain, composed)]
    np.testing.assert_allclose(*results, atol=1e-6)
    (op,) = composites(composed)
    scores = batch * tokens * heads * keys
    assert (
        arithmetic(op)
        == sum(arithmetic(o) for g in composed.graphs[1:] for o in g.ops)
        == scores * (4 * 4 + 4)
    )


@pytest.mark.parametrize(
    "case",
    [
        "mask",
        "beta",
        "narrow values",
        "scores are a result",
        "weights are a result",
        "constant keys",
        "one head of two images",
    ],
)
def test_what_the_composite_cannot_say_stays(case: str) -> None:
    def spell(new: Build, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        keys = new.const(normal(2, 3, 5, 4)) if case == "constant keys" else k
        options = {"mask": {"mask": normal(5, 5)}, "beta": {"beta": 0.5}}.get(case, {})
        result = attention(new, q, keys, v, adj_y=case == "constant keys", **options)
        kinds = {"scores are a result": "BATCH_MATMUL", "weights are a result": "SOFTMAX"}
        more = [o.outputs[0] for o in new.ops if o.kind == kinds.get(case)][:1]
        return (result, *more)

    width = 3 if case == "narrow values" else 4
    heads = 1 if case == "one head of two images" else 3
    graph = build(spell, q=(2, heads, 5, 4), k=(2, heads, 5, 4), v=(2, heads, 5, width))
    before, model = str(graph), Model([graph])
    assert compose_attention(model) == 0
    assert (str(graph), len(model.graphs)) == (before, 1)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(1, 5, 2, 4), (1, 5, 2, 4), (1, 5, 2, 3)], "keys and values must be alike"),
        ([(1, 5, 2, 3), (1, 5, 2, 4), (1, 5, 2, 4)], "keys and values must be alike"),
        ([(1, 5, 2, 4)] * 2, "has 2 inputs; 3 or 4 are supported"),
        ([*[(1, 5, 2, 4)] * 3, (1, 1, 5, 3)], "a mask of another length than its keys"),
    ],
)
def test_a_composite_of_other_shapes_is_refused(shapes: list[tuple[int, ...]], words: str) -> None:
    inputs = [Tensor(f"in{i}", shape) for i, shape in enumerate(shapes)]
    result = Tensor("out", shapes[0])
    attrs = {"name": ATTENTION, "decomposition_subgraph_index": 1}
    graph = build(lambda new, x: new.NEG(x), x=(1, 2))
    graph.inputs, graph.outputs, graph.signatures = inputs, [result], []
    graph.ops = [Op("STABLEHLO_COMPOSITE", inputs, [result], attrs)]
    (found,) = predict(Model([graph, build(lambda new, x: new.NEG(x), x=(1, 2))]), "litert-gpu")
    assert found.severity == "rejected"
    assert words in found.sentence


def test_a_conversion_says_so_in_its_manifest(demo_float: Path, tmp_path: Path) -> None:
    command = ["-o", str(tmp_path / "out"), "--recipe", "float32", "--component", "unet", "--json"]
    result = CliRunner().invoke(convert, [*command, "--attention", "composite"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["configuration"]["attention"] == "composite"
    assert "attention" not in json.loads((demo_float / "manifest.json").read_text())["configuration"]
    with Interpreter(demo_float / "unet.tflite") as plain, Interpreter(tmp_path / "out/unet.tflite") as other:
        generator = np.random.default_rng(4)
        feeds = {n: generator.standard_normal(port.shape, np.float32) for n, port in plain.inputs.items()}
        assert psnr(plain.run(feeds)["noise"], other.run(feeds)["noise"]) >= 120


def test_tensorflow_lites_delegate_and_several_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="tflite-gpu-w8 is for TensorFlow Lite's GPU delegate, which has no"):
        msd.convert(None, tmp_path / "out", recipe="tflite-gpu-w8", attention="composite")
    sizes = (msd.ImageSize(128, 128), msd.ImageSize(64, 128))
    with pytest.raises(BadConfig, match="composite attention and several sizes in one file"):
        msd.convert(None, tmp_path / "out", sizes=sizes, attention="composite")
    assert not (tmp_path / "out").exists()
