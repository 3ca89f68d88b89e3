"""A decoder whose activations float16 does not hold: found by one image, and scaled."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

import msd
from msd.bundle import Bundle, open_bundle
from msd.cli import msd as umbrella
from msd.compress.calibration.ranges import audit
from msd.conversion import job
from msd.errors import NotFinite
from msd.graph import tflite
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.judging import judge
from msd.models.networks import Network
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.finite import require_picture
from tests import xl_checkpoints
from tests.half import in_half, overflowed

LATENT = np.random.default_rng(1).standard_normal((1, 8, 12, 4), np.float32)
LOUD = r"decoder\.(mid_block\.attentions\.0\.to_out|up_blocks\.[01]\.resnets\.[01]\.conv[12])\."
"""Layers on the stream and within blocks, at both resolutions."""


def changed(folder: Path, pattern: str, factor: float) -> Path:
    """Multiply the decoder's tensors whose names match by `factor`; returns the folder."""
    path = folder / "vae/diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    save_file({n: t * factor if re.match(pattern, n) else t for n, t in tensors.items()}, path)
    return folder


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loud") / "checkpoint"
    xl_checkpoints.write(folder)
    return changed(folder, LOUD, 4e4)


@pytest.fixture(scope="module")
def bundles(loud: Path) -> dict[str, Bundle]:
    made = {"scaled": (), "plain": ("scale_activations",)}
    for name, without in made.items():
        msd.convert(loud, loud.parent / name, components=["vae_decoder"], without=without)
    return {name: open_bundle(loud.parent / name) for name in made}


def image(bundle: Bundle) -> Array:
    with Interpreter(bundle.path("vae_decoder"), float_weights=True) as network:
        return network.run({"latent": LATENT})["image"]


def test_the_conversion_finds_and_says_it(bundles: dict[str, Bundle]) -> None:
    (said,) = bundles["scaled"].manifest.conversion.remarks
    assert re.match(r"vae_decoder computes numbers up to \S+e\+0[5-9] on an image, and float16 ends at", said)
    assert said.endswith("sums of layers are scaled by powers of two, which normalisation undoes exactly")
    assert bundles["plain"].manifest.conversion.remarks == ()


def test_no_two_networks_are_traced_at_once(
    loud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder is measured beside what is prepared, and TensorFlow is not for two threads to import."""
    seen, tracing = list[bool](), threading.Lock()

    def trace(network: Network, on_trace: Callable[[], None]) -> Structure:
        seen.append(tracing.acquire(blocking=False))
        time.sleep(0.1)
        if seen[-1]:
            tracing.release()
        return structure_of(network, on_trace)

    monkeypatch.setattr(job, "structure_of", trace)
    msd.convert(loud, tmp_path / "out", components=["vae_decoder"])
    assert seen == [True] * 3


def test_the_image_stays_to_the_last_bit(bundles: dict[str, Bundle]) -> None:
    np.testing.assert_allclose(image(bundles["scaled"]), image(bundles["plain"]), atol=2e-6)


def test_the_audit_finds_it_before_and_nothing_afterwards(bundles: dict[str, Bundle]) -> None:
    found = {n: audit(b.path("vae_decoder"), [{"latent": LATENT}]) for n, b in bundles.items()}
    assert {"ADD", "CONV_2D"} <= {each.kind for each in found["plain"] if each.overflows}
    assert {each.cure for each in found["plain"] if each.kind == "ADD"} >= {"scale_activations"}
    assert [each.tensor for each in found["scaled"] if each.overflows] == []


def test_float16_draws_the_image_instead_of_none(loud: Path) -> None:
    graphs = {}
    for name, without in (("scaled", ()), ("plain", ("scale_activations",))):
        folder = loud.parent / f"half-{name}"
        msd.convert(loud, folder, components=["vae_decoder"], recipe="float32", without=without)
        graphs[name] = tflite.read(folder / "vae_decoder.tflite").main
        with Interpreter(folder / "vae_decoder.tflite") as network:
            wanted = network.run({"latent": LATENT})["image"]
    found = {name: in_half(graph, {"latent": LATENT}) for name, graph in graphs.items()}
    assert not np.isfinite(found["plain"][graphs["plain"].outputs[0]]).all()
    assert overflowed(found["scaled"]) == []
    assert psnr(wanted, found["scaled"][graphs["scaled"].outputs[0]].astype(np.float32)) >= 45


def test_the_delegate_takes_the_scaled_decoder_whole(bundles: dict[str, Bundle]) -> None:
    verdict = judge(bundles["scaled"].path("vae_decoder"), precision="fp16", inputs={"latent": LATENT})
    assert verdict.fully_delegated
    assert verdict.psnr >= 45, verdict.objections


def test_a_quiet_decoder_keeps_its_bytes(tmp_path: Path) -> None:
    xl_checkpoints.write(tmp_path / "checkpoint")
    for name, without in (("one", ()), ("other", ("scale_activations",))):
        msd.convert(tmp_path / "checkpoint", tmp_path / name, components=["vae_decoder"], without=without)
    one, other = ((tmp_path / name / "vae_decoder.tflite").read_bytes() for name in ("one", "other"))
    assert one == other


TILES = {"height": 32, "width": 48, "vae_tile": 16}
"""Tiles smaller than the image that is measured."""


@pytest.mark.parametrize("settings", [{}, TILES])
def test_a_checkpoint_without_an_encoder_is_measured_on_latents(
    loud: Path, tmp_path: Path, settings: dict[str, int]
) -> None:
    for path in loud.iterdir():
        if path.name != "vae":
            (tmp_path / path.name).symlink_to(path)
    tensors = load_file(loud / "vae/diffusion_pytorch_model.safetensors")
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae/config.json").write_bytes((loud / "vae/config.json").read_bytes())
    save_file(
        {n: t for n, t in tensors.items() if n.startswith(("decoder", "post_quant"))},
        tmp_path / "vae/diffusion_pytorch_model.safetensors",
    )
    made = msd.convert(tmp_path, tmp_path / "out", components=["vae_decoder"], **settings)
    assert "scaled by powers of two" in " ".join(made.manifest.conversion.remarks)


def test_an_image_of_one_colour_is_a_failure(tmp_path: Path) -> None:
    """As a decoder draws whose normalisation divides by infinity."""
    xl_checkpoints.write(tmp_path / "checkpoint")
    changed(tmp_path / "checkpoint", r"decoder\.conv_norm_out\.weight", 0.0)
    msd.convert(tmp_path / "checkpoint", tmp_path / "out")
    words = ["generate", tmp_path / "out", "-p", "a dog", "--steps", "1", "-o", tmp_path / "a.png"]
    done = CliRunner().invoke(umbrella, [*map(str, words)])
    assert done.exit_code == 1, done.output
    assert "the image of the VAE decoder is one colour throughout, so no image was made" in done.stderr
    assert not (tmp_path / "a.png").exists()


def test_one_colour_counts_without_the_edges() -> None:
    flat = np.full((32, 40, 3), 0.25, np.float32)
    flat[:3], flat[:, -2:] = 0.5, 0.5
    with pytest.raises(NotFinite, match="one colour"):
        require_picture(flat, "the image")
    flat[16, 20, 1] = 0.26
    assert require_picture(flat, "the image") is flat
    with pytest.raises(NotFinite, match="NaN or infinite"):
        require_picture(flat * np.inf, "the image")
