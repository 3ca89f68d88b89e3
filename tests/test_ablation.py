"""Any one rewrite may be switched off: the numbers stay, and what is then not delegated is named.

The graphs are a checkpoint's three, and parts of keras-cv's, where rewrites fire that those three do not
need. The device is one of small textures, so that convolutions are serialised here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import graph_rewrites
from msd.cli.report import report
from msd.conversion.sources.binding import bind
from msd.conversion.sources.diffusers import open_folder
from msd.graph.parity import psnr
from msd.graph.prediction.device import Device
from msd.graph.rewrite import Ledger, Target
from msd.measure.judging import judge
from msd.models.structure_cache import structure_of
from msd.run.runners.interpreter import Interpreter
from tests import checkpoints, keras_cv_networks
from tests.reference import Array, draw, timestep_embedding
from tests.stable_diffusion import COMPONENTS, networks_of
from tests.traced import Traced, trace_random

SMALL = checkpoints.vary(checkpoints.TINY, text_encoder={"num_hidden_layers": 2})
TARGET = Target(Device("small", image2d_width=64, image2d_height=64))
RULES = {r.name: r for r in graph_rewrites.load() if r.name != "clip_gelu"}
"""All but the one that changes numbers on purpose: that one is off here anyway."""

LEAST = 100.0
"""Decibels; float32 rounding in another order gives 125 to 145."""

REJECTED = {
    "lower_group_norm": {"ADD", "MEAN", "MUL", "RESHAPE", "RSQRT", "SQUARED_DIFFERENCE"},
    "resize_upsample": {"RESHAPE", "TILE"},
    "use_embedding_lookup": {"GATHER"},
    "fold_transpose": {"TRANSPOSE"},
    "fold_reshape": {"RESHAPE"},
}
"""Kinds of operation that the delegate rejects, at least, when a rewrite is switched off."""

MISCOMPUTED = {"align_ranks"}
"""Without these the delegate takes everything and computes something else, which only the numbers tell."""


@dataclass
class Subject:
    """A graph to switch rewrites off in."""

    name: str
    traced: Traced
    folder: Path

    @cached_property
    def whole(self) -> tuple[Ledger, Array]:
        """What all rewrites do, and the output then."""
        return self.without(None)

    def without(self, name: str | None) -> tuple[Ledger, Array]:
        """Write `path` without one rewrite; returns what the others did, and its output on the CPU."""
        ledger = self.traced.write(self.path, [r for n, r in RULES.items() if n != name], TARGET)
        with Interpreter(self.path) as network:
            inputs = self.traced.inputs
            fed = {name: inputs[name].reshape(port.shape) for name, port in network.inputs.items()}
            (output,) = network.run(fed).values()
        return ledger, output

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.tflite"


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    """Return the graphs, those of fewest operations first."""
    folder = tmp_path_factory.mktemp("subjects")
    from_keras_cv = {
        "keras_cv text": keras_cv_networks.text_encoder(layers=1, narrower=8),
        "keras_cv block": keras_cv_networks.transformer_block(),
        "keras_cv decoder": keras_cv_networks.decoder(narrower=4, one_in=7),
    }
    others = ((name, trace_random(n, keras_cv_networks.VOCABULARY)) for name, n in from_keras_cv.items())
    made = [Subject(name, traced, folder) for name, traced in (*from_checkpoint(folder), *others)]
    return sorted(made, key=lambda subject: subject.whole[0].after)


def from_checkpoint(folder: Path) -> Iterator[tuple[str, Traced]]:
    modules = checkpoints.write(folder / "source", SMALL)
    source = open_folder(folder / "source")
    every = networks_of(source, 16, 8)
    for name in COMPONENTS:
        structure = structure_of(every[name])
        inputs = draw(every[name].inputs, source.configs["text_encoder"].vocabulary, np.random.default_rng(1))
        if "timestep" in inputs:
            inputs["timestep_embedding"] = timestep_embedding(modules, inputs["timestep"])
        yield name, Traced(structure, bind(name, structure.variables, source.weights[name]).weights, inputs)


@pytest.mark.parametrize("name", RULES)
def test_numbers_stay_and_rejections_are_named(name: str, subjects: list[Subject]) -> None:
    fired = [subject for subject in subjects if subject.whole[0].entries[name].fired]
    for subject in fired:
        ledger, found = subject.without(name)
        assert name not in ledger.entries
        assert psnr(subject.whole[1], found) >= LEAST, subject.name
    for subject in fired[:1]:
        verdict = judge(subject.path)
        assert verdict.failure is None
        assert verdict.fully_delegated or verdict.rejected, verdict.objections
        assert verdict.ok or not verdict.fully_delegated or verdict.psnr < verdict.threshold_db, (
            verdict.objections
        )
        assert {r.kind for r in verdict.rejected} >= REJECTED.get(name, set())
        assert name not in MISCOMPUTED or (verdict.fully_delegated and not verdict.ok)


def test_rewrites_whose_loss_is_listed_do_fire(subjects: list[Subject]) -> None:
    for name in {*REJECTED, *MISCOMPUTED}:
        assert any(subject.whole[0].entries[name].fired for subject in subjects), name


def test_the_report_names_what_is_rejected(subjects: list[Subject]) -> None:
    (encoder,) = (subject for subject in subjects if subject.name == "text_encoder")
    encoder.without("use_embedding_lookup")
    result = CliRunner().invoke(report, [str(encoder.path)])
    assert result.exit_code == 3
    assert "1 of 84 operations stays on the CPU" in result.stdout
    assert "GATHER  1 of 1  Only support 1D indices (#0)" in result.stdout
