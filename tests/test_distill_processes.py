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
from tests.checkpoints import write
from tests.test_distill import SMALL, TRAINING, checkpoint, observer, settings, weights

__all__ = ["checkpoint", "settings"]


RUN = """
import os
import sys
import graph_rewrites
from pathlib import Path
from tests.test_distill import observer
from msd.train.distill.distill import distill
from msd.train.distill.settings import *


def run(folder, out, state, prompts, updates, goal=Goal(ScaleRange(3, 3), 10)):
    training = Training(updates=int(updates), batch=2, rate=1e-3, warmup=1)
    distill(Path(folder), Path(out), DistillationSettings(
        data=TeacherData(Path(prompts), 6, seed=3), goal=goal, state=Path(state), training=training,
        save_every=3, rules=graph_rewrites.load(),
    ), observer())
"""
EACH_LINE = f"""{RUN}
import accelerate
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextModel

for _ in sys.stdin:
    if not (child := os.fork()):
        run(*sys.argv[1:])
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Runs in a new process for each line of its input, and says which that is and how it ended.

It begins with everything imported, which takes longer than what it does.
"""
ROOT = Path(__file__).parent.parent


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been_killed(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    whole = replace(settings, training=replace(TRAINING, updates=14), save_every=3)
    distill(checkpoint, tmp_path / "whole", whole, observer())
    state = tmp_path / "killed.state"
    arguments = [checkpoint, tmp_path / "killed", state, settings.data.prompts, "14"]
    command = [sys.executable, "-c", EACH_LINE, *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as runs:
        for stage, update in (("guidance", 3), ("guidance", 9), ("steps-10", 6)):
            process = begun(runs)
            while not [*state.glob(f"{stage}-*/update-{update:08}")] and is_there(process):
                time.sleep(0.01)
            os.kill(process, signal.SIGKILL)
            assert said(runs) == signal.SIGKILL
            assert not (tmp_path / "killed").exists()
        begun(runs)
        assert said(runs) == 0
    assert weights(tmp_path / "killed").keys() == weights(tmp_path / "whole").keys()
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(tmp_path / "killed")[name]), name


def begun(runs: subprocess.Popen[str]) -> int:
    """Begin a run; return its process."""
    assert runs.stdin is not None
    print(file=runs.stdin, flush=True)
    return said(runs)


def said(runs: subprocess.Popen[str]) -> int:
    """Return the next number that is printed."""
    assert runs.stdout is not None
    return int(runs.stdout.readline())


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


GOALS = {
    "fewer steps": "Goal(ScaleRange(3, 3), 10)",
    "latent consistency": "Goal(ScaleRange(3, 3), 4, lcm=True)",
    "recovery": "Goal(recover='gpu-w8')",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a teacher, and what two processes made of it for each of the goals, one after another."""
    folder = tmp_path_factory.mktemp("shared")
    write(folder / "teacher", SMALL)
    (folder / "prompts.txt").write_text("red\nnearly red\nreed\n", "utf-8")
    script = folder / "run.py"
    goals = ", ".join(f"{name!r}: {goal}" for name, goal in GOALS.items())
    script.write_text(
        f"{RUN}\n"
        "from accelerate import PartialState as Here\n"
        "folder = Path(sys.argv[1])\n"
        f"for name, goal in {{{goals}}}.items():\n"
        "    place = folder / name\n"
        "    run(folder / 'teacher', place / 'student', place / 'state', folder / 'prompts.txt', 3, goal)\n"
        "    (place / f'process {Here().process_index} of {Here().num_processes}').touch()\n"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    command = [*launch, str(script), str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.parametrize("goal", GOALS)
def test_two_processes_share_a_batch(shared: Path, goal: str) -> None:
    place = shared / goal
    assert {path.name for path in place.glob("process *")} == {"process 0 of 2", "process 1 of 2"}
    assert weights(place / "student").keys() == weights(shared / "teacher").keys()
