"""Files of every kind, read and written again: the same content, the same outputs, in old runtimes too."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from msd.graph import tflite
from msd.graph.ir import Model
from tests import edited_models, portraits, varied_models
from tests.on_cpu import load, run, run_old

Array = np.ndarray[Any, Any]

NAMES = sorted(varied_models.MODELS)


def rewritten(content: bytes, path: Path, **options: Any) -> Model:
    """Write what the file holds to `path` and read it back."""
    tflite.write(tflite.parse(content), path, **options)
    return tflite.read(path)


@cache
def feeds(name: str, path: Path) -> tuple[Array, ...]:
    """Return an input of its type and shape for each input of the file."""
    rng = np.random.default_rng(0)
    made: list[Array] = []
    for detail in load(path).get_input_details():
        shape, dtype = detail["shape"], np.dtype(detail["dtype"])
        if dtype.kind == "f":
            made.append(rng.standard_normal(shape).astype(dtype))
        elif dtype.kind == "i":
            made.append(rng.integers(0, 4, shape).astype(dtype))
        else:
            made.append(np.array([b"cat", b"owl", b"", b"fox"], object))
    return tuple(made)


@pytest.fixture
def original(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "original.tflite"
    path.write_bytes(varied_models.model(request.param))
    return path


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_everything_in_a_file_survives(name: str, far: bool, tmp_path: Path) -> None:
    """By our own reading, and by the schema's, with constants inside the flatbuffer and outside."""
    content, path = varied_models.model(name), tmp_path / "again.tflite"
    again = rewritten(content, path, largest_flatbuffer=0 if far else 1 << 31)
    assert portraits.of_model(again) == portraits.of_model(tflite.parse(content))
    if not far:
        assert portraits.of_file(path.read_bytes()) == portraits.of_file(content)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("original", sorted({*NAMES} - {"flex"}), indirect=True)
def test_outputs_stay_the_same(original: Path, far: bool, tmp_path: Path) -> None:
    """All but those of TensorFlow's own operators, which no runtime here has."""
    inputs = feeds(original.name, original)
    wanted = run(original, *inputs)
    rewritten(original.read_bytes(), tmp_path / "again.tflite", largest_flatbuffer=0 if far else 1 << 31)
    got = run(tmp_path / "again.tflite", *inputs)
    assert len(got) == len(wanted)
    assert all(map(np.array_equal, got, wanted))
    assert all(w.size for w in wanted)


NOT_IN_2_14 = {"composite", "blockwise", "blockwise_symmetric", "dense_int4", "flex", "sparse", "table_int8"}
"""Made of what that release lacks (int4, per-row tables …) or gets wrong as converted (sparse weights)."""


@pytest.mark.parametrize(
    ("original", "far"),
    [*((name, False) for name in NAMES if name not in NOT_IN_2_14), ("conv_int8", True), ("lstm", True)],
    indirect=["original"],
)
def test_the_runtime_of_2023_runs_what_is_written(original: Path, far: bool, tmp_path: Path) -> None:
    """tflite-runtime 2.14 finds constants outside the flatbuffer too."""
    inputs = feeds(original.name, original)
    rewritten(original.read_bytes(), tmp_path / "again.tflite", largest_flatbuffer=0 if far else 1 << 31)
    wanted, got = run(original, *inputs), run_old(tmp_path / "again.tflite", *inputs)
    for w, g in zip(wanted, got, strict=True):
        assert np.abs(w.astype(np.float64) - g).max() <= 1e-5 * np.abs(w.astype(np.float64)).max()


@pytest.mark.parametrize("name", NAMES)
def test_a_rewritten_file_is_hardly_larger_and_rewrites_to_itself(name: str, tmp_path: Path) -> None:
    content = varied_models.model(name)
    first, second = tmp_path / "first.tflite", tmp_path / "second.tflite"
    rewritten(rewritten_bytes(content, first), second)
    assert first.read_bytes() == second.read_bytes()
    buffers = len(schema.ModelT.InitFromPackedBuf(content, 0).buffers)
    assert first.stat().st_size <= len(content) + 64 + 16 * buffers


def rewritten_bytes(content: bytes, path: Path) -> bytes:
    rewritten(content, path)
    return path.read_bytes()


def test_graphs_share_what_they_shared() -> None:
    model = tflite.parse(varied_models.model("two_signatures"))
    filters = [op.operands[1].data for g in model.graphs for op in g.ops if op.kind == "CONV_2D"]
    assert len(filters) == 2
    assert filters[0] is filters[1]


def test_the_first_signature_stays_the_first(tmp_path: Path) -> None:
    """It is the one that runs where a caller names none, whichever graph is first."""
    edited = schema.ModelT.InitFromPackedBuf(varied_models.model("two_signatures"), 0)
    edited.signatureDefs.reverse()
    rewritten(edited_models.packed(edited), tmp_path / "again.tflite")
    again = schema.ModelT.InitFromPackedBuf((tmp_path / "again.tflite").read_bytes(), 0)
    assert [(s.signatureKey, s.subgraphIndex) for s in again.signatureDefs] == [(b"wide", 1), (b"narrow", 0)]


def test_what_was_read_is_what_the_converter_was_told() -> None:
    """A few facts by hand, so that a portrait of nothing would not do."""
    model = tflite.parse(varied_models.model("two_signatures"))
    assert {s.key: (g, [*s.inputs], [*s.outputs]) for g in model.graphs for s in g.signatures} == {
        "narrow": (model.graphs[0], ["x"], ["y"]),
        "wide": (model.graphs[1], ["t", "x"], ["t", "z"]),
    }
    assert [*model.metadata] == ["min_runtime_version", "CONVERSION_METADATA"]
    conv = next(op for op in model.graphs[1].ops if op.kind == "CONV_2D")
    assert (conv.attrs["padding"], conv.attrs["stride_h"]) == ("VALID", 2)
    lstm = tflite.parse(varied_models.model("lstm_int8")).main.ops[1]
    assert len(lstm.rest["intermediates"]) == 5
    assert lstm.inputs.count(None) == 9
    assert [t.is_variable for t in lstm.operands if t.data is None and t.producer is None] == [
        True,
        True,
    ]
    per_channel = tflite.parse(varied_models.model("integers")).main.ops[1].operands[1].quant
    assert per_channel is not None
    assert (per_channel.scale.shape, per_channel.zero_point.tolist(), per_channel.axis) == ((8,), [0] * 8, 0)
    dynamic = tflite.parse(varied_models.model("dynamic")).main.inputs[0]
    assert (dynamic.shape, dynamic.shape_signature) == ((1, 6), (-1, 6))
    assert tflite.parse(varied_models.model("spectrogram")).main.ops[0].kind == "CUSTOM:AudioSpectrogram"
    assert tflite.parse(varied_models.model("flex")).main.ops[-1].kind == "CUSTOM:FlexErf"
    blocks = tflite.parse(varied_models.model("blockwise")).main.ops[0].operands[1]
    assert blocks.quant is not None
    assert {f: t.name for f, t in blocks.quant.rest["blockwise"].items()} == {
        "scales": "scales",
        "zeroPoints": "zeros",
    }


@pytest.mark.parametrize("name", sorted({*NAMES} - {"composite"}))
def test_what_converters_write_is_well_formed(name: str) -> None:
    """Their shapes are the ones inferred; the composite's decomposition here keeps its caller's outputs."""
    for graph in tflite.parse(varied_models.model(name)).graphs:
        graph.verify()


def test_options_behind_the_flatbuffer_are_brought_inside(tmp_path: Path) -> None:
    """Large custom options lie past the end, at a place that moves when the file is rewritten."""
    edited = schema.ModelT.InitFromPackedBuf(varied_models.model("spectrogram"), 0)
    op = edited.subgraphs[0].operators[0]
    options = bytes(op.customOptions)
    op.customOptions = None
    op.largeCustomOptionsOffset = op.largeCustomOptionsSize = 1 << 20
    op.largeCustomOptionsOffset, op.largeCustomOptionsSize = len(edited_models.packed(edited)), len(options)
    content = edited_models.packed(edited) + options
    rewritten(content, tmp_path / "again.tflite")
    portrait = portraits.of_file((tmp_path / "again.tflite").read_bytes())
    assert portrait == portraits.of_file(varied_models.model("spectrogram"))
