"""A graph cut into pieces computes what it did, and the real delegate judges each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from msd.cli.report import report
from msd.graph import tflite
from msd.graph.ir import Build, Model, Tensor
from msd.graph.ir.split import split_graph
from msd.measure.judging.pieces import judge_pieces
from msd.measure.judging.verdict import combined
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from tests.harness import build, normal


@pytest.fixture(scope="module")
def decoder(demo_int8: Path) -> Path:
    return demo_int8 / "vae_decoder.tflite"


def in_pieces(path: Path, count: int, folder: Path) -> tuple[int, dict[str, np.ndarray]]:
    """Run the pieces of a file one after the other; returns how many there were and all that they made."""
    with Interpreter(path, float_weights=True) as network:
        known = dict(random_inputs(network.inputs.values()))
    model = tflite.read(path)
    known = {t.name: known[name] for name, t in model.main.signatures[0].inputs.items()}
    pieces = split_graph(model.main, count)
    for piece in pieces:
        tflite.write(Model([piece]), folder / "piece.tflite")
        with Interpreter(folder / "piece.tflite", float_weights=True) as network:
            known |= network.run({t.name: known[t.name] for t in piece.inputs})
    return len(pieces), known


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_pieces_compute_what_the_whole_does(count: int, decoder: Path, tmp_path: Path) -> None:
    found, made = in_pieces(decoder, count, tmp_path)
    assert found == count
    with Interpreter(decoder, float_weights=True) as network:
        (wanted,) = network.run(random_inputs(network.inputs.values())).values()
    last = tflite.read(decoder).main.outputs[0].name
    np.testing.assert_allclose(made[last], wanted, rtol=1e-4, atol=1e-5)


def test_constants_are_shared_out(decoder: Path, tmp_path: Path) -> None:
    sizes = []
    for piece in split_graph(tflite.read(decoder).main, 4):
        tflite.write(Model([piece]), tmp_path / "piece.tflite")
        sizes.append((tmp_path / "piece.tflite").stat().st_size)
    assert max(sizes) < 0.5 * sum(sizes)
    assert sum(sizes) < 1.2 * decoder.stat().st_size


@given(st.integers(1, 12))
def test_every_operation_is_in_one_piece(count: int) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        y = new.TANH(x)
        for _ in range(3):
            y = new.ADD(new.MUL(y, new.const(normal(5))), x)
        return y

    graph = build(spell, x=(2, 5))
    pieces = split_graph(graph, count)
    assert [op for piece in pieces for op in piece.ops] == graph.ops
    assert 1 <= len(pieces) <= count
    made = set(graph.inputs)
    for piece in pieces:
        assert set(piece.inputs) <= made
        made |= set(piece.outputs)
    assert set(graph.outputs) <= made


def test_variables_cannot_be_cut() -> None:
    graph = build(lambda new, x: new.TANH(x), x=(2, 5))
    graph.inputs[0].is_variable = True
    with pytest.raises(ValueError, match="variables"):
        split_graph(graph, 2)


def test_the_delegate_judges_each(decoder: Path) -> None:
    verdicts = list(judge_pieces(decoder, 3))
    assert len(verdicts) == 3
    assert all(v.ok for v in verdicts), [v.objections for v in verdicts]
    both = combined(verdicts)
    assert both.delegated == both.operations == len(tflite.read(decoder).main.ops)
    assert [piece.file for piece in both.pieces] == [str(v.file) for v in verdicts]
    assert both.psnr_db == min(v.psnr for v in verdicts)


def test_the_command_shows_each(decoder: Path) -> None:
    result = CliRunner().invoke(report, [str(decoder), "--pieces", "2"])
    assert result.exit_code == 0, result.output
    assert "vae_decoder.1-of-2.tflite" in result.stdout
    assert "vae_decoder.2-of-2.tflite" in result.stdout
