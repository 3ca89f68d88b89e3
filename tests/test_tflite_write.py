"""The writer: one constant in memory at a time, aligned, the same bytes each time, whole or not at all."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import BITS, Line, Recipe, find_recipe
from msd.errors import OutputUnwritable
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Signature, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.tflite.write import PER_ELEMENT
from msd.run.runners.interpreter import Interpreter
from tests import varied_models
from tests.on_cpu import graph, normal, run, run_old
from tests.tiny_disk import tiny_disk

Array = np.ndarray[Any, Any]

WIDTH, LAYERS = 512, 6


class Alone:
    """Makes arrays, and fails if an earlier one is still held when the next is asked for."""

    def __init__(self) -> None:
        self.made: list[weakref.ref[Array]] = []

    def weights(self, *shape: int) -> Weights:
        seed = len(self.made)

        def load() -> Array:
            assert not any(ref() is not None for ref in self.made), "an earlier constant is still in memory"
            array = normal(*shape, seed=seed)
            self.made.append(weakref.ref(array))
            return array

        return Weights(shape, np.dtype("float32"), load, "one of many")


class AtMost:
    """Makes arrays, and counts how many are held at once; fails beyond `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit, self.most, self.lock = limit, 0, Lock()
        self.made: list[weakref.ref[Array]] = []

    def weights(self, *shape: int) -> Weights:
        def load() -> Array:
            array = normal(*shape)
            with self.lock:
                self.made.append(weakref.ref(array))
                held = sum(ref() is not None for ref in self.made)
                self.most = max(self.most, held)
            assert held <= self.limit
            return array

        return Weights(shape, np.dtype("float32"), load, "one of many")


def layers(weights: Callable[..., Weights]) -> Model:
    """LAYERS pointwise convolutions of one megabyte each, one after the other."""
    new = Build()
    x = Tensor("x", (1, 1, 1, WIDTH))
    y: Tensor = x
    for n in range(LAYERS):
        filters = new.const(weights(WIDTH, 1, 1, WIDTH), f"w{n}")
        y = new.CONV_2D(y, filters, np.full(WIDTH, n, np.float32), stride_h=1, stride_w=1)
    return Model([graph(new, [x], [y])])


STORED = (Line("float32"), Line("float16"), Line("int8"), Line("int4"), Line("int4", algorithm="mse"))


@pytest.mark.parametrize("line", STORED, ids=lambda line: f"{line.store} {line.algorithm}")
def test_one_thread_has_one_constant_in_memory_at_a_time(line: Line, tmp_path: Path) -> None:
    alone, each = Alone(), 4 * WIDTH * WIDTH
    model = layers(alone.weights)
    encode(model.main, Recipe("mine", (line,)), "unet")
    assert not alone.made, "weights were loaded before writing"
    tracemalloc.start()
    tflite.write(model, tmp_path / "model.tflite", threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(alone.made) == LAYERS
    assert peak < 3 * each + 1e6, f"{peak} bytes for constants of {each}"
    assert (tmp_path / "model.tflite").stat().st_size > LAYERS * each / (8 if line.store == "int4" else 4)


@pytest.mark.parametrize("line", STORED, ids=lambda line: f"{line.store} {line.algorithm}")
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_make_the_same_bytes_within_the_room_for_constants(
    line: Line, threads: int, tmp_path: Path
) -> None:
    """Two filters have room, with all biases."""
    room = int(2 * WIDTH * WIDTH * (PER_ELEMENT + BITS[line.store] / 8)) + 2 * PER_ELEMENT * LAYERS * WIDTH
    held = AtMost(2)
    model = layers(held.weights)
    encode(model.main, Recipe("mine", (line,)), "unet")
    tflite.write(model, tmp_path / "threads", threads=threads, room=room)
    tflite.write(model, tmp_path / "one", threads=1)
    assert (tmp_path / "threads").read_bytes() == (tmp_path / "one").read_bytes()


def test_reading_takes_no_memory_for_constants(tmp_path: Path) -> None:
    tflite.write(layers(Alone().weights), tmp_path / "model.tflite", threads=1)
    tracemalloc.start()
    model = tflite.read(tmp_path / "model.tflite")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e5
    assert np.array_equal(model.main.ops[0].operands[1].weights.load(), normal(WIDTH, 1, 1, WIDTH))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("name", ["lstm_int8", "integers", "unusual_types", "two_signatures", "to_scalar"])
def test_constants_begin_at_multiples_of_16(name: str, far: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    tflite.write(tflite.parse(varied_models.model(name)), path, largest_flatbuffer=0 if far else 1 << 31)
    content = path.read_bytes()
    buffers = [schema.Model.GetRootAs(content, 0).Buffers(i) for i in range(1, len_of_buffers(content))]
    starts = [b.Offset() or b._tab.Vector(b._tab.Offset(4)) for b in buffers if b.DataLength() or b.Size()]
    assert starts
    assert all(start % 16 == 0 for start in starts)
    assert any(b.Offset() for b in buffers) == far


def len_of_buffers(content: bytes) -> int:
    return int(schema.Model.GetRootAs(content, 0).BuffersLength())


def test_metadata_stays_where_it_is_looked_for(tmp_path: Path) -> None:
    """Inside the flatbuffer even where constants lie outside, and before them: its offset has 32 bits."""
    path = tmp_path / "model.tflite"
    tflite.write(tflite.parse(varied_models.model("integers")), path, largest_flatbuffer=0)
    content = path.read_bytes()
    raw = schema.ModelT.InitFromPackedBuf(content, 0)
    version = next(m for m in raw.metadata if m.name == b"min_runtime_version")
    stored = bytes(raw.buffers[version.buffer].data)
    assert stored.startswith(b"1.")
    assert content.index(stored) < min(b.offset for b in raw.buffers if b.offset)


@pytest.mark.parametrize("total", [0, 1])
def test_the_limit_decides_where_constants_lie(total: int, tmp_path: Path) -> None:
    """Exactly as many bytes as allowed stay inside."""
    new = Build()
    x = Tensor("x", (5,))
    model = Model([graph(new, [x], [new.ADD(new.MUL(x, normal(5)), np.array([3], np.float32))])])
    tflite.write(model, tmp_path / "model.tflite", largest_flatbuffer=24 - total)
    raw = schema.ModelT.InitFromPackedBuf((tmp_path / "model.tflite").read_bytes(), 0)
    assert [b.size for b in raw.buffers] == ([0, 20, 4] if total else [0, 0, 0])


def test_the_same_model_makes_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for name in ("first", "second"):
        model = layers(Alone().weights)
        encode(model.main, find_recipe("gpu-w8"), "unet")
        tflite.write(model, tmp_path / name, threads=1)
        tflite.write(model, tmp_path / f"{name} again", threads=1)
        files += [(tmp_path / name).read_bytes(), (tmp_path / f"{name} again").read_bytes()]
    assert len(set(files)) == 1


def test_a_constant_of_two_graphs_is_stored_once(tmp_path: Path) -> None:
    weights, graphs = Weights.of(normal(64, 64)), []
    for n in range(2):
        new = Build()
        x = Tensor("x", (1 + n, 64))
        y = new.FULLY_CONNECTED(x, new.const(weights), None)
        graphs.append(graph(new, [x], [y]))
        graphs[-1].signatures = [Signature(f"f{n}", {"x": x}, {"y": y})]
    tflite.write(Model(graphs), tmp_path / "model.tflite")
    assert (tmp_path / "model.tflite").stat().st_size < 64 * 64 * 4 + 2048


def test_small_constants_that_are_equal_lie_in_one_place(tmp_path: Path) -> None:
    new = Build()
    x = Tensor("x", (60, 70))
    y = new.ADD(new.ADD(x, new.const(normal(60, 70))), new.const(normal(60, 70)))
    z = new.RESHAPE(new.SUB(y, new.const(normal(60, 70) + 1)), new.const([60, 70]))
    tflite.write(Model([graph(new, [x], [z])]), tmp_path / "model.tflite")
    assert 2 * 60 * 70 * 4 < (tmp_path / "model.tflite").stat().st_size < 2 * 60 * 70 * 4 + 4096
    values = np.ones((60, 70), np.float32)
    (found,) = Interpreter(tmp_path / "model.tflite").run({"x": values}).values()
    np.testing.assert_allclose(found, values + normal(60, 70) - 1, rtol=1e-5, atol=1e-5)


def test_an_empty_constant_stays_a_constant(tmp_path: Path) -> None:
    """A RESHAPE whose shape is not constant would be dynamic, and no delegate would take it."""
    new = Build()
    x = Tensor("x", (1, 1))
    model = Model([graph(new, [x], [new.RESHAPE(x, np.zeros(0, np.int32))])])
    for limit in (0, 1 << 31):
        tflite.write(model, tmp_path / "model.tflite", largest_flatbuffer=limit)
        wanted = tflite.read(tmp_path / "model.tflite").main.ops[0].operands[1]
        assert wanted.values().tolist() == []


def test_progress_counts_the_bytes_of_constants(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    tflite.write(
        layers(Alone().weights),
        tmp_path / "model",
        on_bytes=lambda *told_now: told.append(told_now),
        threads=1,
    )
    assert len(told) == 2 * LAYERS
    assert told == sorted(told)
    assert told[-1] == (LAYERS * 4 * (WIDTH * WIDTH + WIDTH),) * 2


def failing(*shape: int) -> Weights:
    def load() -> Array:
        raise FileNotFoundError(2, "No such file or directory", "shard-2.safetensors")

    return Weights(shape, np.dtype("float32"), load, "a lost shard")


def lying(*shape: int) -> Weights:
    return Weights(shape, np.dtype("float32"), lambda: np.zeros(7, np.float32), "a liar")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (failing, FileNotFoundError, "shard-2"),
        (lying, AssertionError, "a liar has 28 bytes instead of 1048576"),
    ],
)
def test_a_failure_on_the_way_leaves_nothing_behind(
    weights: Callable[..., Weights], error: type[Exception], message: str, there: bool, tmp_path: Path
) -> None:
    path = tmp_path / "model.tflite"
    if there:
        path.write_bytes(b"before")
    with pytest.raises(error, match=message):
        tflite.write(layers(weights), path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.tflite"] * there
    assert not there or path.read_bytes() == b"before"


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk") as folder:
        path = folder / "model.tflite"
        path.write_bytes(b"before")
        with pytest.raises(OutputUnwritable, match=r"no space left to write .*model\.tflite"):
            tflite.write(layers(Alone().weights), path, threads=1)
        assert [p.name for p in folder.iterdir()] == ["model.tflite"]
        assert path.read_bytes() == b"before"


def test_a_model_may_be_written_over_the_file_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(varied_models.model("two_signatures"))
    model = tflite.read(path)
    tflite.write(model, path)
    tflite.write(model, path)
    assert [g.name for g in tflite.read(path).graphs] == [g.name for g in model.graphs]


ROWS, TABLES = 1 << 17, 5


def large_table(number: int) -> Weights:
    """Half a gigabyte: row r of table t holds 1000·t + r."""

    def load() -> Array:
        values = np.arange(ROWS, dtype=np.float32) + 1000 * number
        return np.repeat(values, 1024).reshape(ROWS, 1024)

    return Weights((ROWS, 1024), np.dtype("float32"), load, f"table {number}")


@pytest.mark.slow
def test_a_file_past_2_gb(tmp_path: Path) -> None:
    """Five tables of half a gigabyte: constants lie outside the flatbuffer, and both runtimes find them."""
    new = Build()
    ids = Tensor("ids", (3,), "INT32")
    rows = [new.EMBEDDING_LOOKUP(ids, new.const(large_table(n))) for n in range(TABLES)]
    path = tmp_path / "large.tflite"
    try:
        tflite.write(Model([graph(new, [ids], rows)]), path)
        assert path.stat().st_size > 2.5 * 2**30
        wanted = np.array([0, 17, ROWS - 1], np.int32)
        for outputs in (run(path, wanted), run_old(path, wanted)):
            for n, got in enumerate(outputs):
                assert np.array_equal(got, np.repeat(wanted + 1000 * n, 1024).reshape(3, 1024))
        tables = [op.operands[1].weights.load() for op in tflite.read(path).main.ops]
        assert [float(t[-1, -1]) for t in tables] == [ROWS - 1 + 1000 * n for n in range(TABLES)]
    finally:
        path.unlink(missing_ok=True)


def test_tensors_that_only_a_signature_names_are_written(tmp_path: Path) -> None:
    """Odd, but files may have them; reading and writing does not judge."""
    new = Build()
    x, stray = Tensor("x", (2,)), Tensor("stray", (3,))
    made = Graph([x], [new.NEG(x)], new.ops)
    made.signatures = [Signature("f", {"x": x, "stray": stray}, {"y": made.outputs[0]})]
    tflite.write(Model([made]), tmp_path / "model.tflite")
    again = tflite.read(tmp_path / "model.tflite").main.signatures[0]
    assert [(k, t.name, t.shape) for k, t in again.inputs.items()] == [
        ("x", "x", (2,)),
        ("stray", "stray", (3,)),
    ]
