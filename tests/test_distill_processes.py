"""Distillations that are killed, and those of two processes: on a CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from msd.train.distill.distill import distill
from msd.train.distill.settings import DistillationSettings
from tests.test_distill import TRAINING, checkpoint, observer, settings, weights

__all__ = ["checkpoint", "settings"]


SCRIPT = """
import sys
import graph_rewrites
from pathlib import Path
from tests.test_distill import observer
from msd.train.distill.distill import distill
from msd.train.distill.settings import *
folder, out, state, prompts, updates = sys.argv[1:]
training = Training(updates=int(updates), batch=2, rate=1e-3, warmup=1)
goal = Goal(ScaleRange(3, 3), 10)
distill(Path(folder), Path(out), DistillationSettings(
    data=TeacherData(Path(prompts), 6, seed=3), goal=goal, state=Path(state), training=training, save_every=3,
    rules=graph_rewrites.load(),
), observer())
"""


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been_killed(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    whole = replace(settings, training=replace(TRAINING, updates=14), save_every=3)
    distill(checkpoint, tmp_path / "whole", whole, observer())
    state = tmp_path / "killed.state"
    arguments = [checkpoint, tmp_path / "killed", state, settings.data.prompts, "14"]
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    for stage, update in (("guidance", 3), ("guidance", 9), ("steps-10", 6)):
        process = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
        while not [*state.glob(f"{stage}-*/update-{update:08}")] and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "killed").exists()
    assert subprocess.run(command, cwd=Path(__file__).parent.parent).returncode == 0
    assert weights(tmp_path / "killed").keys() == weights(tmp_path / "whole").keys()
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(tmp_path / "killed")[name]), name


@pytest.mark.parametrize(
    "goal",
    ["Goal(ScaleRange(3, 3), 10)", "Goal(ScaleRange(3, 3), 4, lcm=True)", "Goal(recover='gpu-w8')"],
    ids=["fewer steps", "latent consistency", "recovery"],
)
def test_two_processes_share_a_batch(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings, goal: str
) -> None:
    arguments = [checkpoint, tmp_path / "student", tmp_path / "shared", settings.data.prompts, "3"]
    script = tmp_path / "run.py"
    script.write_text(
        SCRIPT.replace("Goal(ScaleRange(3, 3), 10)", goal)
        + "from accelerate import PartialState as Here\n"
        + "(Path(out).parent / f'process {Here().process_index} of {Here().num_processes}').touch()\n"
    )
    root = Path(__file__).parent.parent
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    command = [*launch, str(script), *map(str, arguments)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {path.name for path in tmp_path.glob("process *")} == {"process 0 of 2", "process 1 of 2"}
    assert weights(tmp_path / "student").keys() == weights(checkpoint).keys()
