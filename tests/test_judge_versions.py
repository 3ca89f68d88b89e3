"""What releases of LiteRT say of whole networks: verdicts by real logs, and by the installed delegate."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from msd.errors import DelegateFailed
from msd.run.runners.child import ChildLost, ChildRefused
from msd.run.runners.runner import Conditions
from msd.run.runners.wheels.environment import find_litert
from scripts.lab.judge_versions import ACCEPTED, COMPILED, LOST, REFUSED, ask, main, told
from tests import tiny_models

LOGS = Path(__file__).parent / "recorded"
STOPPED = ChildLost("its process was stopped at 8.00 GB of memory (allowed: 8.00 GB)")


@pytest.mark.parametrize(
    ("log", "operations", "ending", "verdict"),
    [
        ("whole", 3, None, COMPILED),
        ("whole", 3, STOPPED, ACCEPTED),
        ("whole", 3, ChildLost("its process crashed with SIGSEGV"), LOST),
        ("whole", 4, None, LOST),
        ("litert-2.1.2", 3, None, COMPILED),
        ("litert-2.1.2", 3, STOPPED, ACCEPTED),
        ("cut_off", 6, None, REFUSED),
        ("refused", 4, ChildRefused("Failed to compile model"), REFUSED),
    ],
)
def test_a_log_and_an_ending_make_a_verdict(
    log: str, operations: int, ending: DelegateFailed | None, verdict: str
) -> None:
    assert told((LOGS / f"{log}.log").read_text("utf-8"), operations, ending)["verdict"] == verdict


def test_a_process_that_is_stopped_before_the_delegate_spoke_is_lost() -> None:
    lines = (LOGS / "whole.log").read_text("utf-8").splitlines()
    before = [line for line in lines if "Replacing" not in line and "Initializing" not in line]
    assert told("\n".join(before), 3, STOPPED)["verdict"] == LOST


def test_the_installed_delegate_is_asked(tmp_path: Path) -> None:
    litert, conditions = find_litert(sys.prefix), Conditions(precision="fp32", seconds=60.0)
    answer = ask(tiny_models.save("whole", tmp_path), 3, litert, conditions)
    assert (answer["verdict"], answer["replaced"]) == (COMPILED, ((3, 3, 1),))
    answer = ask(tiny_models.save("cut_off", tmp_path), 6, litert, conditions)
    assert (answer["verdict"], [kind for kind, _ in answer["rejected"]]) == (REFUSED, ["GATHER_ND"])


def test_the_script_writes_what_each_release_says_of_a_network(tmp_path: Path) -> None:
    output = tmp_path / "answers.json"
    output.write_text('{"commands": ["earlier"], "networks": {"sd15/unet": {}}}', "utf-8")
    done = CliRunner().invoke(main, ["sd15/text_encoder", "--litert", sys.prefix, "-o", str(output)])
    assert done.exit_code == 0, done.output
    figures = json.loads(output.read_text("utf-8"))
    assert (figures["commands"][0], len(figures["commands"])) == ("earlier", 2)
    assert list(figures["networks"]) == ["sd15/unet", "sd15/text_encoder"]
    row = figures["networks"]["sd15/text_encoder"]
    answer = row["releases"][version("ai-edge-litert")]
    assert (row["recipe"], answer["verdict"]) == ("gpu-w8", COMPILED)
    assert answer["replaced"] == [[row["operations"], row["operations"], 1]]
