"""How often a page runs a network to measure it; a stand-in tells how long its runs took."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.node import evaluate

SCRIPT = """
import { judgeNetworks } from './msd/verdict.js';
const [{ milliseconds, repeats, cancelled }] = input;
const signal = { aborted: false };
const run = async () => ({});
const time = async (_, count) => {
  signal.aborted = cancelled;
  return new Array(count).fill(milliseconds);
};
const open = async () => ({ facts: {}, run, time, close: () => {} });
const app = { files: [{ role: 'unet', title: 'U-Net', sha256: '', inputs: [] }] };
const web = { networks: [{ role: 'unet', operations: 1 }] };
const verdict = judgeNetworks({ web, app, gpu: {}, open, repeats, signal });
console.log(JSON.stringify(await verdict.then(
  ({ networks }) => networks.map(({ runs_ms }) => runs_ms),
  ({ code }) => code,
)));
"""


def judged(**given: Any) -> Any:
    """Return the milliseconds of the runs of each network, or the code of the error."""
    return evaluate(SCRIPT, {"repeats": 5, "cancelled": False, **given})


@pytest.mark.parametrize(("milliseconds", "runs"), [(40, 5), (999, 5), (1700, 3), (5000, 1), (60_000, 1)])
def test_no_run_begins_after_five_seconds_of_runs(milliseconds: float, runs: int) -> None:
    assert judged(milliseconds=milliseconds) == [[milliseconds] * runs]


def test_ten_runs_are_measured_unless_another_number_is_wanted() -> None:
    assert judged(milliseconds=1, repeats=None) == [[1] * 10]


def test_it_is_cancelled_between_two_runs() -> None:
    assert judged(milliseconds=1, cancelled=True) == "cancelled"
