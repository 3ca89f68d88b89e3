"""The reader on files that are damaged, hostile or newer than it: one kind of error, at once, or a model."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Model, Tensor
from tests import varied_models
from tests.edited_models import packed
from tests.on_cpu import graph, normal

VICTIMS = ["blockwise", "composite", "dictionary", "lstm_int8", "rare_fields", "sparse", "two_signatures"]


def survives(content: bytes) -> bool:
    """Whether the content is read; every constant is then there to be loaded."""
    try:
        model = tflite.parse(content)
    except BadModelFile:
        return False
    for made in model.graphs:
        for tensor in made.tensors():
            assert tensor.data is None or tensor.data.load().shape == tensor.data.shape
    return True


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {name: varied_models.model(name) for name in VICTIMS}


@pytest.mark.timeout(120)
@settings(max_examples=300)
@given(data=st.data(), name=st.sampled_from(VICTIMS))
def test_flipped_bytes(files: dict[str, bytes], data: st.DataObject, name: str) -> None:
    content = bytearray(files[name])
    flips = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(flips, min_size=1, max_size=8)):
        content[at] = value
    survives(bytes(content))


@pytest.mark.parametrize("word", [0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x10000, 0])
def test_absurd_lengths_and_offsets_everywhere(word: int) -> None:
    """Each four bytes of a file in turn are an absurd length, offset or index."""
    content = varied_models.model("to_scalar")
    refused = sum(
        not survives(content[:at] + struct.pack("<I", word) + content[at + 4 :])
        for at in range(0, len(content) - 3, 4)
    )
    assert refused > 10


@pytest.mark.parametrize("name", ["to_scalar", "two_signatures"])
def test_truncations_of_converted_files(name: str) -> None:
    content = varied_models.model(name)
    whole = [length for length in range(0, len(content), 5) if survives(content[:length])]
    assert len(whole) < len(content) / 100


@cache
def ours() -> bytes:
    """A file of ours with two constants, the last of them at its end."""
    new = Build()
    x = Tensor("x", (1, 8))
    model = Model([graph(new, [x], [new.FULLY_CONNECTED(x, normal(6, 8), normal(6))])], metadata={"m": b"m"})
    with tempfile.TemporaryDirectory() as folder:
        tflite.write(model, Path(folder) / "ours.tflite")
        return (Path(folder) / "ours.tflite").read_bytes()


def test_no_truncation_of_ours_passes_unnoticed() -> None:
    content = ours()
    end = content.index(normal(6).tobytes()) + 24
    assert survives(content)
    assert not any(survives(content[:length]) for length in range(end))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; a .tflite file was expected"),
        (b"TFL3", "is not a .tflite file: bytes 4 to 8 are not 'TFL3'"),
        (b"PK\x03\x04 some archive", "is not a .tflite file"),
        (b"\x18\x00\x00\x00TFL3", "cannot be read: it ends after 8 bytes, before data that it refers to"),
        (b"\x18\x00\x00\x00TFL3" + bytes(64), "cannot be read: it holds no subgraph"),
    ],
)
def test_what_is_not_a_model(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(BadModelFile, match=rf"model\.tflite {message}"):
        tflite.read(path)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match=r"none\.tflite cannot be read \(No such file or directory\)"):
        tflite.read(tmp_path / "none.tflite")
    with pytest.raises(BadModelFile, match=r"cannot be read \(Is a directory\)"):
        tflite.read(tmp_path)


Edit = Callable[[Any], None]


def setting(what: str, value: Any) -> Edit:
    """Return an edit that sets a field, named by its path from the model."""

    def edit(model: Any) -> None:
        *way, last = what.split(".")
        for step in way:
            model = model[int(step)] if step.isdigit() else getattr(model, step)
        setattr(model, last, value)

    return edit


OP, TENSOR, GRAPH = "subgraphs.0.operators.0", "subgraphs.0.tensors.1", "subgraphs.0"


def beyond_the_end(model: Any) -> None:
    for buffer in model.buffers:
        if buffer.data is not None and len(buffer.data) == 24:
            buffer.data, buffer.offset, buffer.size = None, 4096, 24


def unknown_details(model: Any) -> None:
    quantization = schema.QuantizationParametersT()
    quantization.details, quantization.detailsType = schema.CustomQuantizationT(), 9
    model.subgraphs[0].tensors[0].quantization = quantization


NEWER = "newer than the schema known here"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (setting("operatorCodes.0.builtinCode", 999), f"it uses builtin operator 999, {NEWER}"),
        (setting(f"{TENSOR}.type", 99), f"it uses tensor type 99, {NEWER}"),
        (
            setting(f"{OP}.builtinOptions.fusedActivationFunction", 77),
            f"fused_activation_function 77, {NEWER}",
        ),
        (setting(f"{OP}.builtinOptionsType", 250), f"it uses operator options 250, {NEWER}"),
        (setting(f"{OP}.builtinOptions2Type", 251), f"it uses operator options 251, {NEWER}"),
        (unknown_details, f"it uses quantization details 9, {NEWER}"),
        (setting(f"{OP}.opcodeIndex", 5), "list index out of range"),
        (setting(f"{OP}.inputs", [0, 40]), "tensor 40 does not exist; there are 4"),
        (setting(f"{OP}.inputs", [0, -2]), "tensor -2 does not exist"),
        (setting(f"{OP}.outputs", [-1]), "tensor -1 does not exist"),
        (setting(f"{OP}.intermediates", [4]), "tensor 4 does not exist"),
        (setting(f"{GRAPH}.inputs", [-1]), "tensor -1 does not exist"),
        (setting(f"{GRAPH}.outputs", [9]), "tensor 9 does not exist"),
        (setting(f"{TENSOR}.buffer", 50), "buffer 50 does not exist"),
        (setting(f"{TENSOR}.shape", [6, 9]), r"constant .* \(6, 9\) holds 192 bytes instead of 216"),
        (setting(f"{TENSOR}.shape", [-6, -8]), r"constant .* \(-6, -8\) holds 192 bytes"),
        (setting(f"{TENSOR}.shape", [1 << 30, 1 << 30, 1 << 30]), "holds 192 bytes instead of"),
        (setting(f"{TENSOR}.name", b"\xff\xfe"), "'utf-8' codec"),
        (setting(f"{OP}.largeCustomOptionsOffset", 1 << 40), "bytes 1099511627776 to .* lie past its end"),
        (beyond_the_end, "bytes 4096 to 4120 lie past its end"),
        (setting("subgraphs", []), "it holds no subgraph"),
        (setting("version", 1), "it is of version 1 of the schema; runtimes load version 3"),
    ],
)
def test_what_a_file_may_not_say(edit: Edit, message: str) -> None:
    model = schema.ModelT.InitFromPackedBuf(ours(), 0)
    edit(model)
    with pytest.raises(BadModelFile, match=f"the model cannot be read: .*{message}"):
        tflite.parse(packed(model))


@pytest.mark.parametrize(
    "table", ["Model", "SubGraph", "Tensor", "Operator", "FullyConnectedOptions", "Buffer"]
)
def test_a_field_from_the_future_is_refused(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds would be lost; and it may change what all the rest means."""
    model = schema.ModelT.InitFromPackedBuf(ours(), 0)

    def end(builder: Any) -> Any:
        builder.PrependInt32Slot(59, 7, 0)
        return builder.EndObject()

    with monkeypatch.context() as patch:
        patch.setattr(schema, f"{table}Start", lambda builder: builder.StartObject(60))
        patch.setattr(schema, f"{table}End", end)
        content = packed(model)
    with pytest.raises(BadModelFile, match=f"its table {table} has a field newer than the schema known here"):
        tflite.parse(content)


def test_a_field_of_the_future_that_is_not_set_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    model = schema.ModelT.InitFromPackedBuf(ours(), 0)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "TensorStart", lambda builder: builder.StartObject(60))
        content = packed(model)
    assert survives(content)


@pytest.mark.timeout(120)
def test_a_small_file_cannot_unfold_to_a_large_one() -> None:
    """3000 times the same subgraph of 3000 times the same tensor: nine million, in 24 kB."""
    builder = flatbuffers.Builder(1 << 16)
    tensor = schema.TensorT().Pack(builder)
    tensors = repeated(builder, tensor, schema.SubGraphStartTensorsVector)
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    subgraphs = repeated(builder, schema.SubGraphEnd(builder), schema.ModelStartSubgraphsVector)
    schema.ModelStart(builder)
    schema.ModelAddSubgraphs(builder, subgraphs)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    content = bytes(builder.Output())
    assert len(content) < 25_000
    with pytest.raises(BadModelFile, match="its tables refer to the same places again and again"):
        tflite.parse(content)


def repeated(builder: Any, item: int, start: Callable[[Any, int], Any]) -> Any:
    start(builder, 3000)
    for _ in range(3000):
        builder.PrependUOffsetTRelative(item)
    return builder.EndVector()


def test_files_from_before_the_wide_operator_code(tmp_path: Path) -> None:
    """Old ones have the one-byte code only."""
    model = schema.ModelT.InitFromPackedBuf(ours(), 0)
    model.operatorCodes[0].builtinCode = 0
    assert tflite.parse(packed(model)).main.ops[0].kind == "FULLY_CONNECTED"


def test_an_empty_vector_is_no_constant() -> None:
    """Some writers give every tensor a buffer of no bytes."""
    model = schema.ModelT.InitFromPackedBuf(ours(), 0)
    model.subgraphs[0].tensors[0].buffer = len(model.buffers)
    model.buffers.append(schema.BufferT())
    model.buffers[-1].data = np.zeros(0, np.uint8)
    assert tflite.parse(packed(model)).main.inputs[0].data is None
