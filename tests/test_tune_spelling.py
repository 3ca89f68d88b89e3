"""The search for a spelling, with made-up costs; the script, by bytes and on this machine's delegate."""

from __future__ import annotations

import tomllib
from math import prod
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from msd.graph.rewrite.spelling import FORMS, Spelling, read_spelling
from scripts.lab.spelling_search import Search, SpellingTrial
from scripts.lab.tune_spelling import main
from tests import checkpoints

CHOSEN = ["--only", "layer_norm", "--only", "gelu", "--only", "attention_key"]
COSTS = st.fixed_dictionaries(
    {
        form: st.sampled_from([0.8, 0.9, 0.99, 1.0, 1.004, 1.2])
        for forms in FORMS.values()
        for form in forms[1:]
    }
)


def costing(costs: dict[str, float], failing: str = ""):  # type: ignore[no-untyped-def]
    def cost(spelling: Spelling) -> float:
        return prod(costs.get(form, 1.0) for _, form in spelling.forms)

    def compare(one: Spelling, other: Spelling) -> SpellingTrial:
        if failing and any(form == failing for _, form in one.forms):
            return SpellingTrial(one, other, None, failure="it is rejected")
        return SpellingTrial(one, other, cost(one) / cost(other))

    return cost, compare


@given(COSTS)
def test_forms_that_do_not_touch_each_other_are_all_found(costs: dict[str, float]) -> None:
    cost, compare = costing(costs)
    search = Search(compare, 0.9999)
    best = search.run()
    least = prod(min(1.0, *(costs[form] for form in forms[1:])) for forms in FORMS.values())
    assert cost(best) == pytest.approx(least)
    assert all(c.ratio is not None for c in search.tried)


def test_two_forms_that_only_help_together() -> None:
    def compare(one: Spelling, other: Spelling) -> SpellingTrial:
        def cost(spelling: Spelling) -> float:
            pair = spelling["layer_norm"] == "plain", spelling["gelu"] == "builtin"
            return 0.5 if all(pair) else 1.0

        return SpellingTrial(one, other, cost(one) / cost(other))

    best = Search(compare, 0.995).run()
    assert (best["layer_norm"], best["gelu"]) == ("plain", "builtin")


def test_what_cannot_run_is_not_kept_and_says_why() -> None:
    _, compare = costing({"plain": 0.1, "adj_y": 0.5}, failing="plain")
    search = Search(compare, 0.995)
    assert search.run().forms == (("attention_key", "adj_y"),)
    assert {c.failure for c in search.tried} == {None, "it is rejected"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune") / "source"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


def run(checkpoint: Path, output: Path, *options: str) -> dict[str, object]:
    result = CliRunner().invoke(main, [str(checkpoint), "-o", str(output), *options])
    assert result.exit_code == 0, result.output
    return tomllib.loads(output.read_text("utf-8"))


@pytest.mark.parametrize("delegate", ["litert-gpu", "tflite-gpu"])
def test_a_profile_by_bytes(delegate: str, checkpoint: Path, tmp_path: Path) -> None:
    profile = run(checkpoint, tmp_path / "found.toml", "--by", "bytes", "--delegate", delegate, *CHOSEN)
    spelling = read_spelling(tmp_path / "found.toml")
    assert (spelling["layer_norm"], spelling["gelu"]) == ("plain", "clipped_slope")
    assert (spelling["attention_key"] == "adj_y") == (delegate == "litert-gpu")
    measured = profile["measured"]
    assert isinstance(measured, dict)
    assert measured["ratio"] < 0.95
    failures = {c.get("failure", "") for c in measured["tried"]}
    assert any("adj_y" in failure for failure in failures) == (delegate == "tflite-gpu")


def test_a_profile_by_time(checkpoint: Path, tmp_path: Path) -> None:
    """Each form ran and came near; which is the fastest on a CPU that acts as a GPU is left open."""
    profile = run(
        checkpoint, tmp_path / "found.toml", "--turns", "3", "--only", "layer_norm=plain", "--only", "gelu"
    )
    read_spelling(tmp_path / "found.toml")
    measured = profile["measured"]
    assert isinstance(measured, dict)
    alone = [c for c in measured["tried"][:3] if not c["against"]]
    assert [c["change"] for c in alone] == [
        {"layer_norm": "plain"},
        {"gelu": "clipped_slope"},
        {"gelu": "builtin"},
    ]
    assert all(c["decibels"] > 60 and c["ratio"] > 0 for c in measured["tried"])


def test_only_litert_runs_here(checkpoint: Path, tmp_path: Path) -> None:
    command = [str(checkpoint), "-o", str(tmp_path / "x.toml"), "--delegate", "tflite-gpu"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "only litert-gpu runs on this machine" in result.output


@pytest.mark.parametrize("only", ["colour", "gelu=fast", "gelu=clipped"])
def test_a_form_that_does_not_exist_is_refused(only: str, checkpoint: Path, tmp_path: Path) -> None:
    command = [str(checkpoint), "-o", str(tmp_path / "x.toml"), "--by", "bytes", "--only", only]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert f"--only {only} is neither a construct nor one of its other forms" in result.output
