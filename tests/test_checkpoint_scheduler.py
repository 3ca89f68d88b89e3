"""The scheduler that a checkpoint names generates, as in diffusers; what cannot run is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli import msd
from msd.cli.convert import convert
from msd.conversion.sources.diffusers import open_folder
from msd.errors import BadConfig
from msd.graph.parity import psnr
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import (
    BY_CLASS,
    bundle_scheduler,
    ignored_settings,
    make_scheduler,
    name_of_kind,
    require_valid,
)
from msd.train.pytorch.bundle import checkpoint_bundle
from tests import checkpoints, xl_checkpoints
from tests.drawings import nchw, nhwc, noise_given, noise_taken, opened
from tests.late import diffusers
from tests.schedulers import KINDS, diffusers_class, diffusers_scheduler

SCALED = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
BETAS = ("beta_start", "beta_end", "beta_schedule")
KARRAS = SCALED | {"use_karras_sigmas": True}
SDE = {"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++"}
OWN: dict[str, dict[str, Any]] = {
    "unipc": {"_class_name": "UniPCMultistepScheduler", **KARRAS},
    "sde": {**SDE, **KARRAS},
    "order 3": {"_class_name": "DPMSolverMultistepScheduler", **SCALED, "solver_order": 3},
    "heun": {"_class_name": "HeunDiscreteScheduler", **KARRAS},
}


def checkpoint(folder: Path, config: dict[str, Any], named: Any = None) -> Path:
    """Write a checkpoint with this scheduler_config.json; model_index.json says `named`, or the same."""
    checkpoints.write(folder, checkpoints.TINY)
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(config))
    index = json.loads((folder / "model_index.json").read_text())
    index["scheduler"] = ["diffusers", config.get("_class_name")] if named is None else named
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def converted(source: Path, *options: str) -> Result:
    arguments = [str(source), "-o", str(source.parent / "out"), "--recipe", "float32", *options]
    return CliRunner().invoke(convert, arguments)


@pytest.mark.parametrize("name", OWN)
def test_the_checkpoint_s_own_scheduler_generates(name: str, tmp_path: Path) -> None:
    source, start, steps = checkpoint(tmp_path / "sd", OWN[name]), noise(0, (1, 16, 16, 4)), 5
    done = converted(source)
    assert done.exit_code == 0, done.output
    assert not [word for word in ("ddim", "ignored", "warning") if word in done.output.lower()]
    bundle = open_bundle(tmp_path / "out")
    found = Pipeline(bundle).generate("red", steps=steps, latents=start).latents
    theirs, _ = opened(source)
    assert type(theirs.scheduler).__name__ == OWN[name]["_class_name"]
    added = noise_taken(make_scheduler(bundle.manifest.scheduler).table(steps), 0, start.shape)
    with noise_given(type(theirs.scheduler).__module__, added):
        settings = {"num_inference_steps": steps, "guidance_scale": 7.5, "output_type": "latent"}
        wanted = theirs("red", latents=nchw(start), **settings).images
    assert psnr(nhwc(wanted), found) >= 65
    assert np.isfinite(found).all()


@pytest.mark.parametrize("kind", KINDS.values())
def test_what_diffusers_saves_of_each_class_is_valid(kind: str, tmp_path: Path) -> None:
    """With all settings of the class, null among them, as the pipeline's `save_pretrained` writes them."""
    saved = diffusers_class(kind)(**{name: SCALED[name] for name in BETAS})
    config = json.loads(saved.to_json_string())
    require_valid(config)
    assert BY_CLASS[kind] == name_of_kind(make_scheduler(config))


def test_a_checkpoint_saved_with_a_dpm_solver_generates(tmp_path: Path) -> None:
    saved = diffusers.DPMSolverMultistepScheduler(**{name: SCALED[name] for name in BETAS})
    assert json.loads(saved.to_json_string())["variance_type"] is None
    done = converted(checkpoint(tmp_path / "sd", json.loads(saved.to_json_string())), "--dry-run")
    assert done.exit_code == 0, done.output


def test_the_class_in_model_index_counts_as_in_diffusers(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "sd", OWN["unipc"], ["diffusers", "EulerDiscreteScheduler"])
    found = open_folder(source)
    assert found.scheduler == {**OWN["unipc"], "_class_name": "EulerDiscreteScheduler"}
    assert found.remarks == (
        "model_index.json names the scheduler EulerDiscreteScheduler and scheduler/scheduler_config.json"
        " UniPCMultistepScheduler: the first counts, as in diffusers",
    )
    theirs, _ = opened(source)
    assert type(theirs.scheduler).__name__ == "EulerDiscreteScheduler"
    assert name_of_kind(bundle_scheduler(checkpoint_bundle(source)[1])) == "euler+karras"


@pytest.mark.parametrize("named", [[None, None], "UniPCMultistepScheduler", ["diffusers"], {}])
def test_without_a_class_in_model_index_the_scheduler_s_own_counts(named: Any, tmp_path: Path) -> None:
    found = open_folder(checkpoint(tmp_path / "sd", OWN["heun"], named))
    assert (found.scheduler, found.remarks) == (OWN["heun"], ())


def test_what_cannot_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for change, sentence in (
        (
            {"_class_name": "SASolverScheduler"},
            "the scheduler SASolverScheduler is not supported",
        ),
        ({**SDE, "algorithm_type": "sde"}, "algorithm_type 'sde' is not known; known are dpmsolver++"),
    ):
        done = converted(checkpoint(tmp_path / "sd", SCALED | change))
        assert (done.exit_code, sentence in done.stderr, "--scheduler" in done.stderr) == (1, True, True)
        assert not (tmp_path / "out").exists()


def test_settings_that_nothing_reads_are_said_once(tmp_path: Path) -> None:
    config = {"_class_name": "DDIMScheduler", **KARRAS}
    sentence = (
        "use_karras_sigmas is ignored: the scheduler ddim does not read it, in diffusers neither;"
        " --scheduler takes another"
    )
    source = checkpoint(tmp_path / "sd", config)
    assert converted(source).stderr.count(sentence) == 1
    said = json.loads(converted(source, "--force", "--json").stdout)
    assert said["conversion"]["remarks"] == [sentence]
    replaced = converted(source, "--force", "--scheduler", "heun")
    assert (replaced.exit_code, "ignored" in replaced.output) == (0, False)


def limits(name: str, **settings: Any) -> bool:
    """Whether diffusers' class for a scheduler limits clean latents where `thresholding` is true."""
    ends = []
    for thresholding in (False, True):
        config = SCALED | settings | {"thresholding": thresholding, "clip_sample": False}
        theirs, timesteps = diffusers_scheduler(config, 4, name, None)
        random = torch.manual_seed(0)
        latent, output = torch.randn(2, 1, 4, 2, 2, generator=random) * 9
        module = type(theirs).__module__
        with noise_given(module, itertools.repeat(torch.zeros_like(latent))):
            for timestep in timesteps[:2]:
                latent = theirs.step(output, timestep, latent).prev_sample
        ends.append(latent)
    return not torch.equal(*ends)


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in KINDS), ("unipc", {"predict_x0": False, "final_sigmas_type": "sigma_min"})],
)
def test_thresholding_is_refused_where_diffusers_class_reads_it(name: str, settings: dict[str, Any]) -> None:
    config = SCALED | settings | {"_class_name": KINDS[name], "thresholding": True}
    require_valid(config)
    if limits(name, **settings):
        with pytest.raises(BadConfig, match="thresholding is for diffusion on pixels and not supported"):
            make_scheduler(config)
        assert ignored_settings(config) == ()
    else:
        assert make_scheduler(config).table(4) == make_scheduler({**config, "thresholding": False}).table(4)
        assert ignored_settings(config) == ("thresholding",)


def test_a_checkpoint_s_thresholding_is_refused_or_said_to_be_ignored(tmp_path: Path) -> None:
    thresholding = SCALED | {"thresholding": True}
    source = checkpoint(tmp_path / "sd", thresholding | {"_class_name": "EulerDiscreteScheduler"})
    ignored = "thresholding is ignored: the scheduler euler does not read it, in diffusers neither"
    assert converted(source, "--dry-run").stderr.count(ignored) == 1
    source = checkpoint(tmp_path / "other", thresholding | {"_class_name": "DDIMScheduler"})
    refused = converted(source, "--dry-run")
    assert (refused.exit_code, "thresholding is for diffusion on pixels" in refused.stderr) == (1, True)
    assert converted(source, "--dry-run", "--scheduler", "euler").exit_code == 0


def test_the_fault_that_pndm_s_velocities_share_with_diffusers_is_said(tmp_path: Path) -> None:
    """Of the checkpoint's or an option's; noise is added up rightly, and other schedulers have none."""
    said = "the scheduler pndm adds up velocities as if they were noise, as diffusers' does (its issue 14816)"
    velocity = ("--prediction-type", "v_prediction")
    for scheduler, options, count in (
        ("PNDMScheduler", velocity, 1),
        ("DDIMScheduler", (*velocity, "--scheduler", "pndm"), 1),
        ("PNDMScheduler", (), 0),
        ("PNDMScheduler", (*velocity, "--scheduler", "dpm++"), 0),
    ):
        source = checkpoint(tmp_path / "sd", SCALED | {"_class_name": scheduler})
        done = converted(source, "--force", *options)
        assert (done.exit_code, done.stderr.count(said)) == (0, count), done.output


def test_what_makes_images_with_it_says_so_too(tmp_path: Path) -> None:
    """Once, whatever the number of images; networks that predict noise have no such fault."""
    said = "the scheduler pndm adds up velocities as if they were noise"
    source, bundle = checkpoint(tmp_path / "sd", SCALED), tmp_path / "out"
    (tmp_path / "prompts.txt").write_text("a fox\n")
    (tmp_path / "suite.toml").write_text(
        'scheduler = "pndm"\nsteps = 4\n[thresholds]\npsnr_least = 40\n[[picture]]\nname = "a"\n'
        'prompt = "a fox"\n'
    )
    images = ("-p", "a fox", "-o", tmp_path / "{seed}.png", "--force", "--count", 2)
    chosen = ("--steps", 4, "--scheduler", "pndm")
    of_b = ("--prompts", tmp_path / "prompts.txt", "--steps-a", 4, "--steps-b", 4, "--scheduler-b", "pndm")
    for prediction, count in (("v_prediction", 1), ("epsilon", 0)):
        assert converted(source, "--force", "--prediction-type", prediction).exit_code == 0
        for command in (
            ("generate", bundle, *images, *chosen),
            ("compare", bundle, bundle, *of_b),
            ("regress", tmp_path / "suite.toml", bundle, "--update"),
            ("export-files", bundle, "-o", tmp_path / "app", "--force", *chosen),
        ):
            done = CliRunner().invoke(msd, [*map(str, command)])
            assert (done.exit_code, done.stderr.count(said)) == (0, count), (command, done.output)


@pytest.mark.parametrize("change", [{"steps_offset": 0}, {"clip_sample": True, "clip_sample_range": 0.8}])
def test_only_stable_diffusion_s_own_pipeline_replaces_settings(
    change: dict[str, Any], tmp_path: Path
) -> None:
    """XL's clips where the configuration says so, and "leading" timesteps start where it says.

    Where nearly all is noise, what is clipped is a small difference divided by a small number.
    """
    start = np.random.default_rng(1).standard_normal((1, 8, 12, 4), np.float32)
    theirs = xl_checkpoints.write(tmp_path / "xl")
    theirs.scheduler = diffusers.DDIMScheduler(**SCALED | {"clip_sample": False} | change)
    theirs.save_pretrained(tmp_path / "xl")
    assert converted(tmp_path / "xl").exit_code == 0
    ours = {"steps": 4, "guidance": 2.0, "latents": start}
    found = Pipeline(open_bundle(tmp_path / "out")).generate("a red dog!", **ours).latents
    settings = {"num_inference_steps": 4, "guidance_scale": 2.0, "output_type": "latent"}
    wanted = theirs("a red dog!", latents=nchw(start), height=16, width=24, **settings).images
    assert psnr(nhwc(wanted), found) >= 45


def test_what_diffusers_saves_of_every_scheduler_generates(tmp_path: Path) -> None:
    """With the default of each setting, of which minus infinity is one; converted again, it is the same."""
    source = checkpoint(tmp_path / "sd", SCALED | {"_class_name": "DDIMScheduler"})
    manifest = tmp_path / "out" / "manifest.json"
    for name, kind in KINDS.items():
        theirs = diffusers_class(kind).from_config(SCALED | {"skip_prk_steps": True})
        theirs.save_pretrained(source / "scheduler")
        index = json.loads((source / "model_index.json").read_text())
        (source / "model_index.json").write_text(json.dumps({**index, "scheduler": ["diffusers", kind]}))
        assert converted(source, "--force").exit_code == 0
        written = manifest.stat().st_mtime_ns
        assert converted(source).exit_code == 0
        assert manifest.stat().st_mtime_ns == written, name
        found = bundle_scheduler(open_bundle(tmp_path / "out")).table(4)
        assert found == make_scheduler(dict(theirs.config), name).table(4), name


def test_a_bundle_with_an_infinity_of_diffusers_opens(tmp_path: Path) -> None:
    """Conversions before wrote it as diffusers does, and its manifest has the largest number."""
    source = checkpoint(tmp_path / "sd", {"_class_name": "DPMSolverMultistepScheduler", **SCALED})
    assert converted(source).exit_code == 0
    for path, place, limit in (
        ("scheduler/scheduler_config.json", (), "-Infinity"),
        ("manifest.json", ("scheduler",), "-1.7976931348623157e+308"),
    ):
        contents = json.loads((tmp_path / "out" / path).read_text())
        (contents[place[0]] if place else contents)["lambda_min_clipped"] = float(limit)
        (tmp_path / "out" / path).write_text(json.dumps(contents))
        assert limit in (tmp_path / "out" / path).read_text()
    assert bundle_scheduler(open_bundle(tmp_path / "out")).table(4) == make_scheduler(SCALED, "dpm++").table(
        4
    )
