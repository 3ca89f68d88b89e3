"""Findings of an attack on what reads files, by number: these took minutes, gigabytes or a traceback."""

from __future__ import annotations

import json
import re
import struct
from functools import partial
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from msd.compress.encoding.recipe import read_recipe
from msd.conversion.sources import safetensors
from msd.errors import BadBundle, BadCheckpoint, BadConfig, BadModelFile
from msd.files import bounded
from msd.graph import tflite
from msd.graph.prediction.device import read_device
from msd.graph.tflite import unpack
from msd.measure.regress.suite import read_suite
from msd.run.runtime.scheduler import open_scheduler
from msd.run.runtime.tokenizer import open_tokenizer
from tests.clip_files import write_tokenizer
from tests.edited_models import packed

# 5: .tflite files that unpack to far more than they are


def _model(**fields: Any) -> Any:
    model = schema.ModelT()
    model.version, model.buffers, model.operatorCodes = 3, [schema.BufferT()], []
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []
    model.subgraphs = [graph]
    for name, value in fields.items():
        setattr(model, name, value)
    return model


def _listing_one_again(times: int) -> bytes:
    """Return a model that lists one piece of metadata `times` times."""
    builder = flatbuffers.Builder()
    name = builder.CreateString("m" * 100)
    schema.MetadataStart(builder)
    schema.MetadataAddName(builder, name)
    metadata = schema.MetadataEnd(builder)
    schema.ModelStartMetadataVector(builder, times)
    for _ in range(times):
        builder.PrependUOffsetTRelative(metadata)
    listed = builder.EndVector()
    return _finished(builder, schema.ModelAddMetadata, listed)


def _sharing_a_shape(times: int) -> bytes:
    """Return a model of `times` RESHAPEs with the same options, a shape of 10,000 axes."""
    builder = flatbuffers.Builder()
    shape = builder.CreateNumpyVector(np.ones(10_000, np.int32))
    schema.ReshapeOptionsStart(builder)
    schema.ReshapeOptionsAddNewShape(builder, shape)
    options = schema.ReshapeOptionsEnd(builder)
    operators = []
    for _ in range(times):
        schema.OperatorStart(builder)
        schema.OperatorAddBuiltinOptionsType(builder, schema.BuiltinOptions.ReshapeOptions)
        schema.OperatorAddBuiltinOptions(builder, options)
        operators.append(schema.OperatorEnd(builder))
    schema.SubGraphStartOperatorsVector(builder, times)
    for operator in operators:
        builder.PrependUOffsetTRelative(operator)
    listed = builder.EndVector()
    schema.SubGraphStart(builder)
    schema.SubGraphAddOperators(builder, listed)
    graph = schema.SubGraphEnd(builder)
    schema.ModelStartSubgraphsVector(builder, 1)
    builder.PrependUOffsetTRelative(graph)
    return _finished(builder, schema.ModelAddSubgraphs, builder.EndVector())


def _finished(builder: Any, add: Any, vector: int) -> bytes:
    schema.ModelStart(builder)
    add(builder, vector)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    "content", [_listing_one_again(1000), _sharing_a_shape(10)], ids=["listed", "shared"]
)
def test_5_a_table_that_is_listed_again_and_again(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = unpack._Room.take

    def counted(self: Any, bytes: int, tables: int = 0, numbers: int = 0) -> None:
        taken.append(bytes)
        take(self, bytes, tables, numbers)

    monkeypatch.setattr(unpack._Room, "take", counted)
    with pytest.raises(BadModelFile, match="again and again"):
        tflite.parse(content)
    assert sum(taken[:-1]) <= 2 * len(content)


@pytest.mark.parametrize(
    ("bound", "most", "message"),
    [
        ("MOST_TABLES", 10, "more tables than 10 and one for each 64"),
        ("MOST_NUMBERS", 5, "more than 5 numbers"),
    ],
)
def test_5_tables_and_numbers_are_counted(
    bound: str, most: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = packed(_model(metadataBuffer=[0] * 20, metadata=[schema.MetadataT() for _ in range(20)]))
    assert len(tflite.parse(content).rest["metadataBuffer"]) == 20
    monkeypatch.setattr(unpack, bound, most)
    if bound == "MOST_NUMBERS":
        monkeypatch.setattr(unpack, "_Room", partial(unpack._Room, numbers=most))
    with pytest.raises(BadModelFile, match=message):
        tflite.parse(content)


def test_5_a_buffer_of_metadata_is_read_once() -> None:
    buffer = schema.BufferT()
    buffer.data = np.arange(200, dtype=np.uint8)
    content = packed(_model(metadataBuffer=[1] * 50, buffers=[schema.BufferT(), buffer]))
    found = tflite.parse(content).rest["metadataBuffer"]
    assert len({id(each) for each in found}) == 1


def test_5_a_tensor_of_many_axes() -> None:
    tensor = schema.TensorT()
    tensor.name, tensor.shape = "t", np.full(40, 2**31 - 1, np.int32)
    model = _model()
    model.subgraphs[0].tensors = [tensor]
    with pytest.raises(BadModelFile, match="40 axes"):
        tflite.parse(packed(model))


# 6: safetensors headers


def _safetensors(path: Path, header: str) -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    return path


def test_6_dimensions_of_thousands_of_digits(tmp_path: Path) -> None:
    entry = f'{{"a":{{"dtype":"F32","shape":[{"9" * 4000},{"9" * 4000}],"data_offsets":[0,0]}}}}'
    with pytest.raises(BadCheckpoint, match="more than 1000 digits"):
        safetensors.read_contents(_safetensors(tmp_path / "x.safetensors", entry))


def test_6_more_axes_than_any_tensor(tmp_path: Path) -> None:
    entry = f'{{"a":{{"dtype":"F32","shape":{[2**60] * 2500},"data_offsets":[0,0]}}}}'
    with pytest.raises(BadCheckpoint, match="2500 axes"):
        safetensors.read_contents(_safetensors(tmp_path / "x.safetensors", entry))


def test_6_a_name_twice_is_found_in_one_pass(tmp_path: Path) -> None:
    keys = ",".join(f'"k{i}":0' for i in range(150_000))
    with pytest.raises(BadCheckpoint, match="names k149999 twice"):
        safetensors.read_contents(_safetensors(tmp_path / "x.safetensors", f'{{{keys},"k149999":0}}'))


def test_6_more_tensors_than_any_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors, "MOST_TENSORS", 2)
    keys = ",".join(f'"k{i}":0' for i in range(3))
    with pytest.raises(BadCheckpoint, match="3 tensors, and at most 2"):
        safetensors.read_contents(_safetensors(tmp_path / "x.safetensors", f"{{{keys}}}"))


# 9: tokenizer files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.json", '{"a": "1"}'),
        ("vocab.json", '{"a": -1}'),
        ("vocab.json", '{"a": true}'),
        ("vocab.json", '{"a": 4294967296}'),
        ("vocab.json", '{"\\ud800": 1}'),
        ("tokenizer_config.json", '{"model_max_length": "77"}'),
        ("tokenizer_config.json", '{"model_max_length": null}'),
        ("tokenizer_config.json", '{"model_max_length": 2}'),
        ("tokenizer_config.json", '{"pad_token": 3}'),
        ("tokenizer_config.json", '{"pad_token": {"content": 3}}'),
        ("tokenizer_config.json", '{"pad_token": {"content": "!", "normalized": 1}}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": []}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": "!"}}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"3": null}}'),
        ("tokenizer.json", '{"added_tokens": [{"content": "!"}]}'),
        ("tokenizer.json", '{"added_tokens": [3]}'),
        ("special_tokens_map.json", '{"eos_token": ["x"]}'),
        ("added_tokens.json", '{"x": "1"}'),
        ("added_tokens.json", '["x"]'),
    ],
)
def test_9_tokenizer_files_of_wrong_types(name: str, content: str, tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    if name in ("tokenizer.json", "special_tokens_map.json"):
        (folder / "tokenizer_config.json").unlink(missing_ok=True)
    (folder / name).write_text(content)
    with pytest.raises(BadBundle, match=re.escape(str(folder))):
        open_tokenizer(folder)


@pytest.mark.parametrize(
    ("count", "length", "message"),
    [
        (2001, 1, "adds 2001 tokens, and at most 2000 are read"),
        (101, 1000, "of 101000 letters, and at most 100000"),
    ],
)
def test_9_special_tokens_are_bounded(count: int, length: int, message: str, tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    added = {str(40_000 + i): {"content": f"{i:x}".ljust(length, "z")} for i in range(count)}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    with pytest.raises(BadBundle, match=message):
        open_tokenizer(folder)


@pytest.mark.parametrize("model", ["[]", '{"type": "BPE"}', '{"type": "BPE", "vocab": {}, "merges": [3]}'])
def test_9_a_whole_tokenizer_of_wrong_types(model: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(f'{{"model": {model}}}')
    with pytest.raises(BadBundle, match=r"tokenizer\.json"):
        open_tokenizer(tmp_path)


def test_9_a_length_without_limit_is_that_of_a_prompt(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, {"model_max_length": 10**30})
    assert open_tokenizer(folder).length == 77


# 10, 11, 12, 20: JSON and TOML


@pytest.mark.parametrize("read", [read_recipe, read_device, read_suite])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000, "nested more than 64 deep"),
        ("a = " + "{a=" * 5000, "nested more than 64 deep"),
        ("a = " + "1" * 5000, "more than 1000 digits"),
        ("a = 0x" + "f" * 900, "its a is an integer of 3600 bits"),
        ("a" + ".a" * 5000 + " = 1", "more than 32 parts"),
        ("a = [" + "1," * 40, "Invalid"),
        ("#" * bounded.TOML_BYTES + "#", f"longer than {bounded.TOML_BYTES} bytes"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_10_toml_without_bounds(read: Any, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(BadConfig, match=message):
        read(path)


def test_10_strings_and_comments_count_for_nothing() -> None:
    dots, digits = "." * 100, "1" * 2000
    text = (
        f'a = "{dots}{digits}[[["\nb = \'\'\'\n{dots}\'\'\'\n# don\'t {dots} {digits}\nc = """x""{dots}"""\n'
    )
    assert set(bounded.parse_toml(text)) == {"a", "b", "c"}
    assert bounded.parse_json(json.dumps({"a": "[" * 5000 + digits + '\\"'}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 70 + "]" * 70, "nested more than 64 deep"),
        ('{"a": {"b": [0, NaN]}}', "NaN"),
        ('{"a": {"b": [0, "\\ud800"]}}', "its a.b.1 is text that is not Unicode"),
        ('{"a": {"\\ud800": 0}}', "a key of a is text that is not Unicode"),
        (f'{{"a": {10**400}}}', "its a is an integer of 1329 bits, and at most 128 are read"),
    ],
)
def test_11_12_20_json_without_bounds(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bounded.parse_json(text)


def test_12_more_values_than_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "VALUES", 10)
    assert bounded.parse_json("[1, 2, 3]") == [1, 2, 3]
    with pytest.raises(ValueError, match="more than 10 values"):
        bounded.parse_json(json.dumps([0] * 11))


@pytest.mark.parametrize(
    "change",
    [
        {"beta_start": "0.1"},
        {"beta_start": 10**30},
        {"beta_end": 1.5},
        {"num_train_timesteps": 10**9},
        {"num_train_timesteps": 1},
        {"num_train_timesteps": True},
        {"trained_betas": [0.1, "x"]},
        {"trained_betas": [0.1, 0.2]},
        {"prediction_type": ["epsilon"]},
        {"thresholding": "no"},
        {"clip_sample_range": float("inf")},
        {"beta_start": 1e-30, "beta_end": 1e-30},
    ],
)
def test_12_20_a_scheduler_of_wrong_types(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "scheduler_config.json").write_text(json.dumps({"_class_name": "DDIMScheduler", **change}))
    with pytest.raises(BadConfig, match=r"scheduler_config\.json|no signal"):
        open_scheduler(tmp_path).table(4)
