"""Noise, schedules, sinusoids and pixels of the Kotlin sources, run on a JVM, against msd.run.runtime's."""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app.manifest import (
    NAME,
    Schedule,
    describe,
    dump_manifest,
    load_manifest,
    write_manifest,
)
from msd.run.runtime.image import pixels
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import SCHEDULERS
from msd.run.runtime.step import StepTable
from msd.run.runtime.timestep import embed_timestep
from tests.app_bundles import STEPS, write_app, write_bundle
from tests.jvm import Jvm, floats, sent
from tests.schedulers import steps_of_any_numbers

V_PREDICTION = {
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
}


@pytest.mark.parametrize(
    ("seed", "step"), [(0, 0), (1, 0), (42, 1), (2**31, 7), (2**32, 0), (2**32 + 5, 20), (2**63 - 1, 3)]
)
@pytest.mark.parametrize("shape", [(1, 4, 6, 4), (1, 3, 5, 1), (1, 64, 64, 4)])
def test_noise_is_numpy_s_to_the_bit(seed: int, step: int, shape: tuple[int, ...], kotlin: Jvm) -> None:
    size = int(np.prod(shape))
    assert (
        floats(kotlin.ask("noise", seed=seed, size=size, step=step)).tobytes()
        == noise(seed, shape, step).tobytes()
    )


def test_eight_million_numbers_are_numpy_s_to_the_bit(kotlin: Jvm) -> None:
    """About two thousand of them from the tail, where a logarithm's last bit counts."""
    for seed in (3, 123456789):
        ours = noise(seed, (4_000_000,))
        assert (
            kotlin.ask("noise hash", seed=seed, size=ours.size, step=0)
            == hashlib.sha256(ours.tobytes()).hexdigest()
        )
        assert np.abs(ours).max() > 4.5
        assert 500 < np.count_nonzero(np.abs(ours) > 3.6541528853610088) < 2000


def test_the_logarithm_of_the_tail_is_the_c_library_s(kotlin: Jvm) -> None:
    library = ctypes.CDLL("libm.so.6")
    library.log1pf.restype, library.log1pf.argtypes = ctypes.c_float, [ctypes.c_float]
    chosen = np.random.default_rng(0).integers(0, 2**24, 100_000)
    x = -(np.concatenate([chosen, np.arange(2000), 2**24 - 1 - np.arange(2000)]) / 2**24).astype(np.float32)
    wanted = np.array([library.log1pf(float(value)) for value in x], np.float32)
    assert floats(kotlin.ask("log1p", values=sent(x))).tobytes() == wanted.tobytes()


def untempered(word: int) -> int:
    """Return the word of a Mersenne Twister's state that comes out as `word`."""
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    shifted = whole = word
    for _ in range(5):
        shifted = word ^ ((shifted << 7) & 0x9D2C5680)
    for _ in range(3):
        whole = shifted ^ (whole >> 11 if _ else shifted >> 11)
    return whole & 0xFFFFFFFF


def normal_of(*drawn: int) -> np.ndarray:
    """Return the first two normal numbers that NumPy makes of these 32-bit draws."""
    twister = np.random.MT19937(0)
    state = twister.state
    key = [untempered(word) for word in (*drawn, *[5 << 9 | 200] * (624 - len(drawn)))]
    state["state"] = {"key": np.array(key, np.uint32), "pos": 0}
    twister.state = state
    return np.random.Generator(twister).standard_normal(2, np.float32)


def test_every_layer_of_the_ziggurat_is_numpy_s(kotlin: Jvm) -> None:
    """The largest distance inside a layer is taken as it is; the next one asks for more bits."""
    tables = kotlin.ask("ziggurat")
    width, inside, density = floats(tables[0]), tables[1], floats(tables[2])
    second = normal_of(5 << 9 | 200)[0]
    for layer in range(256):
        if inside[layer]:
            drawn = (inside[layer] - 1) << 9 | layer
            taken = np.float32(inside[layer] - 1) * width[layer]
            assert normal_of(drawn).tolist() == [taken, second], layer
        if layer and inside[layer] < 2**23:
            lowest = normal_of(inside[layer] << 9 | layer, 2**32 - 1, 7 << 9 | 200)
            assert lowest[0] != np.float32(inside[layer]) * width[layer] or lowest[1] != second
    assert (density[0], len(density), density[255] < 0.0013) == (1.0, 256, True)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("config", [{}, V_PREDICTION, {"prediction_type": "sample"}, {"solver_order": 3}])
def test_every_table_and_trajectory_is_the_runtime_s(
    scheduler: str, config: dict[str, Any], kotlin: Jvm, tmp_path: Path
) -> None:
    if scheduler == "pndm":
        config = {key: value for key, value in config.items() if value != "sample"} | {"skip_prk_steps": True}
    folder = write_app(tmp_path / "app", scheduler, scheduler=config)
    tables = kotlin.ask("schedules", folder=str(folder))
    chosen = Pipeline(open_bundle(folder), scheduler=scheduler).scheduler
    assert sorted(map(int, tables)) == [*STEPS]
    for count in STEPS:
        table = chosen.table(count)
        assert np.float32(table.start) == np.float32(tables[str(count)]["start"])
        for step, found in zip(table.steps, tables[str(count)]["steps"], strict=True):
            clip = np.inf if step.clip is None else step.clip
            numbers = [step.latent, step.output, step.clean, step.clean_latent, step.clean_output, clip,
                       step.saved, step.noise, step.kept_latent, step.kept_output, step.scale,
                       step.signal, step.sigma, *step.history, *step.save]  # fmt: skip
            assert found["timestep"] == step.timestep
            assert floats(found["numbers"]).tolist() == np.array(numbers, np.float32).tolist()
    latents = noise(5, (1, 4, 6, 4)) * np.float32(chosen.table(20).start)
    require_trajectory(kotlin, folder, 20, chosen.table(20), latents)


def require_trajectory(kotlin: Jvm, folder: Path, count: int, table: StepTable, latents: np.ndarray) -> None:
    """Require that the schedule of `count` steps makes what the table makes, to the bit."""
    random = np.random.default_rng(1)
    outputs = random.normal(size=(len(table.steps), *latents.shape)).astype(np.float32)
    found = kotlin.ask(
        "trajectory", folder=str(folder), steps=count, latents=sent(latents), outputs=sent(outputs)
    )
    memory = None
    for i, (step, output) in enumerate(zip(table.steps, outputs, strict=True), 1):
        latents, memory = step.apply(latents, output, memory, noise(7, latents.shape, i))
    assert floats(found).tobytes() == latents.tobytes()


def test_the_runge_kutta_steps_of_pndm_are_the_runtime_s(kotlin: Jvm, tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "app", scheduler={"_class_name": "PNDMScheduler"})
    bundle = open_bundle(folder)
    write_manifest(describe(bundle, (5,)), bundle, folder)
    table = Pipeline(bundle).scheduler.table(5)
    assert len(table.steps) == len(kotlin.ask("schedules", folder=str(folder))["5"]["steps"]) == 14
    require_trajectory(kotlin, folder, 5, table, noise(5, (1, 4, 6, 4)))


def test_steps_of_any_numbers_are_the_runtime_s(kotlin: Jvm, plain_app: Path, tmp_path: Path) -> None:
    table = steps_of_any_numbers()
    said = replace(load_manifest(plain_app / NAME), schedules=(Schedule.of(5, table),))
    (tmp_path / NAME).write_text(dump_manifest(said))
    latents = np.random.default_rng(4).normal(size=(3, 7)).astype(np.float32)
    require_trajectory(kotlin, tmp_path, 5, table, latents)


@pytest.mark.parametrize("guidance", [False, True])
def test_sinusoids_are_the_runtime_s(guidance: bool, kotlin: Jvm, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", embeddings={"timestep_embedding": 21, "guidance_embedding": 320})
    width, of = (320, "guidance") if guidance else (21, "timestep")
    for t in (0.0, 1.0, 37.25, 500.0, 999.0, *([6500.0, 12250.0] if guidance else [])):
        found = floats(kotlin.ask("sinusoids", folder=str(folder), of=of, width=width, t=t))
        np.testing.assert_allclose(found, embed_timestep(t, width, False, 1.0), rtol=0, atol=2e-7)


def test_pixels_are_rounded_and_cut_as_the_runtime_s(kotlin: Jvm) -> None:
    halves = (np.arange(0, 256) + 0.5) / 255 * 2 - 1
    image = np.float32([*halves, -7, 7, -1, 1, 0, *np.random.default_rng(0).normal(size=999)])
    image = image[: len(image) // 3 * 3]
    found = np.array(kotlin.ask("pixels", image=sent(image)), np.int64) & 0xFFFFFFFF
    assert (found >> 24 == 255).all()
    assert (
        np.stack([found >> 16 & 255, found >> 8 & 255, found & 255], 1).ravel().tolist()
        == pixels(image).tolist()
    )
