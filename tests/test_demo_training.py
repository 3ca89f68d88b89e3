import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import parse
from msd.models.demo.scenes import draw
from scripts.lab.demo_training import data
from scripts.lab.demo_training.autoencoding import normalised
from scripts.lab.demo_training.loop import OutOfTime, TrainingRun, load, save, train
from scripts.lab.demo_training.recipe import FULL, SMOKE, Stage

ROOT = Path(__file__).parent.parent
STAGE = Stage(steps=40, batch=4, rate=0.1, warmup=3, average=0.9)


def fitted(folder, stop_at=math.inf):
    """Return the weights after fitting a line on batches drawn anew in each step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    run = TrainingRun(folder, "cpu", stop_at, lambda line: None)

    def loss(step):
        x = torch.randn(STAGE.batch, 3, generator=run.generator(5, step))
        return ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()

    train("line", model, loss, STAGE, run)
    return model.weight.detach().numpy().copy()


def test_a_stopped_run_goes_on_to_exactly_the_same_weights(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = fitted(tmp_path / "whole")
    stops = 0
    while True:
        try:
            parts = fitted(tmp_path / "parts", stop_at=time.monotonic())
            break
        except OutOfTime:
            stops += 1
    assert stops == STAGE.steps - 1
    assert np.array_equal(whole, parts)
    assert np.abs(whole - 1).max() < 0.5


def test_a_loss_that_is_not_a_number_stops_the_run(tmp_path):
    model = torch.nn.Linear(1, 1)
    run = TrainingRun(tmp_path, "cpu", math.inf, lambda line: None)
    with pytest.raises(ArithmeticError, match="line's loss is not a number at step 1"):
        train("line", model, lambda step: model.weight.sum() * math.nan, STAGE, run)


def test_a_state_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "state.pt"
    assert load(path, "cpu") is None
    save({"step": 3}, path)
    with pytest.raises(Exception, match=r"pickle|local object"):  # Python 3.13 names the object instead
        save({"step": lambda: 4}, path)
    assert load(path, "cpu") == {"step": 3}


def test_rates_warm_up_then_fall_and_the_anneal_falls_faster():
    stage = Stage(steps=100, batch=1, rate=1.0, warmup=10, average=0.9, slow_until=80, slow_steps=200)
    rates = [stage.rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == pytest.approx(1)
    assert rates[79] == pytest.approx(0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * 69 / 190)))
    assert rates[80] < rates[79] / 5
    assert rates[99] < 0.012


def test_training_scenes_are_none_of_the_held_back_and_captions_are_true_of_them():
    described = data.describe(SMOKE)
    assert {scene.split for scene in described.scenes} == {"train"}
    for scene, texts in zip(described.scenes, described.captions, strict=True):
        assert len(texts) == SMOKE.captions_per_scene
        assert all(parse(text).items() <= vars(scene).items() for text in texts)


def test_pictures_are_drawn_in_order():
    chosen = data.describe(SMOKE).scenes[:3]
    assert np.array_equal(data.pictures(chosen), [draw(scene, i) for i, scene in enumerate(chosen)])


def test_pictures_are_normalised_to_plus_minus_one():
    picture = torch.tensor([0, 255, 51], dtype=torch.uint8).expand(1, 2, 4, 3)
    seen = normalised(picture)
    assert seen.shape == (1, 3, 2, 4)
    assert torch.allclose(seen[0, :, 1, 2], torch.tensor([-1.0, 1.0, -0.6]))


def test_the_recipe_is_the_one_in_the_training_record():
    record = json.loads((CHECKPOINT / "training.json").read_text())
    assert record["recipe"] == asdict(FULL)


def smoke(folder, *more):
    command = [
        sys.executable,
        "scripts/lab/train_demo.py",
        "--smoke",
        "--state",
        folder / "state",
        "--out",
        folder / "out",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *more], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_script_stops_when_told_and_goes_on_to_a_whole_checkpoint(tmp_path):
    stopped = smoke(tmp_path, "--stop-after", "0")
    assert (stopped.returncode, (tmp_path / "out").exists()) == (75, False)
    assert "autoencoder stopped at step 1 of 2; run the same command again" in stopped.stderr
    finished = smoke(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert "autoencoder: step 1/2" not in finished.stderr
    written, expected = (
        {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
        for folder in (tmp_path / "out", CHECKPOINT)
    )
    assert written == expected - {"README.md"}
    for name in ("unet/diffusion_pytorch_model", "vae/diffusion_pytorch_model", "text_encoder/model"):
        with (
            safe_open(tmp_path / "out" / f"{name}.safetensors", "np") as made,
            safe_open(CHECKPOINT / f"{name}.safetensors", "np") as known,
        ):
            shapes = [
                {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
                for file in (made, known)
            ]
        assert shapes[0] == shapes[1]
