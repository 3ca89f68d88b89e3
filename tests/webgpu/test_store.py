"""Programs in folders: what is written is read, and damage is found before anything runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.errors import BadBundle
from msd.files import schema
from msd.gpu import store
from msd.gpu.assemble import Named, assemble
from msd.gpu.kernels.pointwise import Strided, compute
from msd.gpu.program import Program
from msd.gpu.session import Session
from msd.gpu.store import NAME, read_program, store_program
from msd.gpu.value import Value
from tests.webgpu_device import constant, device

NUMBERS = np.arange(1000, dtype=np.float32)


def write(program: Program, folder: Path) -> None:
    (folder / NAME).write_text(schema.dump(store_program(program, folder, half=False)), "utf-8")


def product() -> Program:
    x, y = Value("x", "f32", 1000), Value("y", "f32", 1000)
    operands = [Strided(x, (1,)), Strided(constant("c", NUMBERS), (1,))]
    dispatches = compute("$a * $b", operands, Strided(y, (1,)), (1000,), device().gpu)
    named = [Named(value, (10, 100), "float32") for value in (x, y)]
    return assemble(dispatches, {"x": named[0]}, {"y": named[1]}, device().gpu)


@pytest.mark.parametrize("shard", [64 << 20, 1024])
def test_a_program_that_is_read_again_computes_the_same(
    shard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SHARD_BYTES", shard)
    write(product(), tmp_path)
    assert len(list(tmp_path.glob("*.bin"))) == -(-4000 // shard)
    x = np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100)
    with Session(read_program(tmp_path), device()) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], x * NUMBERS.reshape(10, 100))


def test_a_program_that_is_loaded_again_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(product(), tmp_path)
    x = np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100)
    with Session(read_program(tmp_path), device()) as session:
        first = session.run({"x": x})["y"]
    monkeypatch.setattr(device().wgpu, "create_compute_pipeline", None)
    with Session(read_program(tmp_path), device()) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], first)


def test_activations_in_several_buffers_compute_the_same(tmp_path: Path) -> None:
    """x, its square and the sum of both live together, and no buffer has room for two of them."""
    gpu = replace(device().gpu, buffer_bytes=4096)
    x, square, y = (Value(name, "f32", 1000) for name in ("x", "square", "y"))
    strided = {value: Strided(value, (1,)) for value in (x, square, y)}
    factor = Strided(constant("c", NUMBERS), (1,))
    dispatches = [
        *compute("$a * $b", [strided[x], factor], strided[square], (1000,), gpu),
        *compute("$a + $b", [strided[square], strided[x]], strided[y], (1000,), gpu),
    ]
    named = [Named(value, (1000,), "float32") for value in (x, y)]
    program = assemble(dispatches, {"x": named[0]}, {"y": named[1]}, gpu)
    assert len(program.buffers) == 5
    write(program, tmp_path)
    x_values = np.linspace(-1, 1, 1000, dtype=np.float32)
    with Session(read_program(tmp_path), device()) as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run({"x": x_values})["y"], x_values * NUMBERS + x_values)


def test_a_flipped_bit_in_a_shard_is_refused(tmp_path: Path) -> None:
    write(product(), tmp_path)
    shard = next(tmp_path.glob("*.bin"))
    content = bytearray(shard.read_bytes())
    content[77] ^= 1
    shard.write_bytes(content)
    with pytest.raises(BadBundle, match="is damaged: its SHA-256 is not the one"):
        Session(read_program(tmp_path), device())


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write(product(), tmp_path)
    shard = next(tmp_path.glob("*.bin"))
    shard.unlink()
    with pytest.raises(BadBundle, match=rf"{shard.name} cannot be read"):
        Session(read_program(tmp_path), device())


def _far(value: dict[str, Any]) -> None:
    value["steps"][0]["places"][0]["offset"] = 1 << 40


def _stray(value: dict[str, Any]) -> None:
    value["steps"][0]["pipeline"] = 9


def _escape(value: dict[str, Any]) -> None:
    value["shards"][0]["file"] = "../weights.bin"


def _text(value: dict[str, Any]) -> None:
    value["params"] = "¶"


def _new(value: dict[str, Any]) -> None:
    value["format"] = 99


def _mistyped(value: dict[str, Any]) -> None:
    value["buffers"] = "many"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_far, "a binding lies outside its buffer, or names none"),
        (_stray, "a binding lies outside its buffer, or names none"),
        (_escape, "a binding lies outside its buffer, or names none"),
        (_text, "has parameters that are not base64"),
        (_new, "has format 99"),
        (_mistyped, "is not a program"),
    ],
)
def test_a_damaged_description_is_refused(damage: Any, message: str, tmp_path: Path) -> None:
    write(product(), tmp_path)
    value = json.loads((tmp_path / NAME).read_text())
    damage(value)
    (tmp_path / NAME).write_text(json.dumps(value))
    with pytest.raises(BadBundle, match=message):
        read_program(tmp_path)


def test_a_folder_without_a_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"program\.json cannot be read"):
        read_program(tmp_path)
