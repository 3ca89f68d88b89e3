"""Each shipped recipe on each backend and in each export: the right numbers, or a refusal by name.

The table in docs/recipes.md says the same. A network gets the inputs that the page compares a device's
numbers with; the numbers to reach are those of LiteRT's CPU in float32, with the weights of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from msd.bundle import Bundle
from msd.compress.encoding.recipe import shipped
from msd.conversion.sizes.pick import one_size
from msd.errors import MsdError
from msd.export.android.export import export_android
from msd.export.android.settings import AndroidSettings
from msd.export.app.manifest import describe
from msd.export.web.expected import SEED, expected_inputs
from msd.export.web.export import WebSettings, export_web
from msd.gpu.compile import compile_file
from msd.gpu.program import Program
from msd.gpu.session import Session
from msd.gpu.store import NAME as PROGRAM
from msd.gpu.store import read_program
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.run.runners.engine import Engine
from msd.run.runners.registry import backends
from msd.run.runners.runner import Conditions
from msd.run.runtime.pipeline import Pipeline
from tests.jvm import Jvm, floats
from tests.old_runtime import needs_old_runtime
from tests.recipe_bundles import INT4, NAMES, constants, recipe_bundle
from tests.webgpu_device import device

FLOAT, DYNAMIC = 90.0, 30.0
"""Decibels to the CPU in float32: of float arithmetic, and of integers times inputs rounded to 8 bits."""

FOR_CPU = ["cpu-w8"]
OLD = ["cpu-w8", "float16", "float32"]
CLASSIC = ["tflite-gpu-w8"]

BY_DELEGATE = r"The GPU delegate refuses .*text_encoder\.tflite: .* Convert with --recipe gpu-w8"
BY_OLD = r"tflite-runtime 2\.14 (cannot run|misreads the int4 weights) .*; it runs files of the recipes cpu"
IN_APPS = "is for TensorFlow Lite's delegate, and an app runs LiteRT's; convert with another recipe"

REFUSED = {
    "litert-gpu": (FOR_CPU, BY_DELEGATE),
    "tflite-runtime": ([name for name in NAMES if name not in OLD], BY_OLD),
}
"""The bundles that a backend refuses, and its sentence."""

ANDROID = {**dict.fromkeys(FOR_CPU, BY_DELEGATE), **dict.fromkeys(CLASSIC, IN_APPS)}
WEB = dict.fromkeys(CLASSIC, IN_APPS)
"""The bundles that an export refuses, and its sentence."""

Networks = dict[str, dict[str, Array]]
"""The results of each network of a bundle."""

Known = dict[tuple[str, str, bool], dict[str, Array]]
"""The results of files and programs that bundles share, by SHA-256, backend, whether weights are floats."""


@pytest.fixture(scope="module")
def known() -> Known:
    """What has been computed."""
    return {}


@pytest.fixture(params=NAMES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundle]:
    with one_size(recipe_bundle(tmp_path_factory, request.param)) as picked:
        yield picked


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The name of the bundle."""
    called: str = request.node.callspec.params["bundle"]
    return called


def inputs(bundle: Bundle, component: str) -> dict[str, Array]:
    return expected_inputs(bundle.component(component).inputs, SEED, 258)


def computed(bundle: Bundle, engine: Engine, known: Known) -> Networks:
    """Return what each network computes on its backend; raises the backend's refusal."""

    def run(component: str, at: Engine) -> dict[str, Array]:
        with at.load(bundle.path(component)) as runner:
            return runner.run(inputs(bundle, component))

    found: Networks = {}
    for component, part in bundle.manifest.components.items():
        at = engine.on(part.runs_on)
        key = part.sha256, at.backend.name, at.conditions.float_weights
        if key not in known:
            known[key] = run(component, at)
        found[component] = known[key]
    return found


def require_near(wanted: Networks, found: Networks, least: float) -> None:
    assert wanted.keys() == found.keys()
    for component, outputs in wanted.items():
        for output, array in outputs.items():
            assert array.std() > 1e-3, "numbers that say something"
            distance = psnr(array, found[component][output].reshape(array.shape))
            assert distance >= least, f"{component}: {distance:.1f} dB"


def on_cpu(bundle: Bundle, known: Known) -> Networks:
    return computed(bundle, Engine(backends()["litert-cpu"], Conditions(threads=1)), known)


def test_the_matrix_has_every_recipe_and_every_backend() -> None:
    assert set(shipped()) <= set(NAMES)
    assert {name for name, each in backends().items() if each.open} == {
        *("litert-cpu", "litert-gpu", "tflite-runtime", "webgpu")
    }


@pytest.mark.parametrize("called", INT4)
def test_int4_is_in_the_files_of_the_matrix(called: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = recipe_bundle(tmp_path_factory, called)
    assert constants(made.path("unet"))["INT4"] >= 20
    if called == "gpu-w4-unet":
        assert not constants(made.path("vae_decoder"))["INT4"]
    elif called != "gpu-mixed":
        assert all(constants(made.path(each))["INT4"] for each in made.manifest.components)


def test_integers_times_rounded_inputs(bundle: Bundle, known: Known) -> None:
    dynamic = Engine(backends()["litert-cpu"], Conditions(threads=1, float_weights=False))
    require_near(on_cpu(bundle, known), computed(bundle, dynamic, known), DYNAMIC)


@pytest.mark.parametrize("backend", ["litert-gpu", pytest.param("tflite-runtime", marks=needs_old_runtime)])
def test_a_backend_runs_a_bundle_or_refuses_it(backend: str, bundle: Bundle, name: str, known: Known) -> None:
    found = backends()[backend]
    engine = Engine(found, found.prepare(Conditions(threads=1, precision="fp32")))
    refused, sentence = REFUSED[backend]
    if name in refused:
        with pytest.raises(MsdError, match=sentence):
            computed(bundle, engine, known)
    else:
        require_near(on_cpu(bundle, known), computed(bundle, engine, known), FLOAT)


def on_swiftshader(program: Program) -> Session:
    return Session(program, device())


def test_webgpu_runs_a_bundle(bundle: Bundle, known: Known) -> None:
    found: Networks = {}
    for component, part in bundle.manifest.components.items():
        if (key := (part.sha256, "webgpu", True)) not in known:
            with on_swiftshader(compile_file(bundle.path(component), device().gpu)) as session:
                known[key] = session.run(inputs(bundle, component))
        found[component] = known[key]
    require_near(on_cpu(bundle, known), found, FLOAT)


@pytest.mark.parametrize("called", ["gpu-mixed"])
def test_webgpu_generates_an_image_with_int4(called: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In the process of its own that users get."""
    made = recipe_bundle(tmp_path_factory, called)
    wanted, found = (
        Pipeline(made, backend).generate("a red circle", seed=3, steps=1) for backend in ("cpu", "webgpu")
    )
    assert psnr(wanted.latents, found.latents) >= FLOAT
    assert np.array_equal(wanted.pixels, found.pixels)


def test_the_page_s_programs_run_a_bundle_or_it_is_refused(
    bundle: Bundle, name: str, known: Known, tmp_path: Path
) -> None:
    """Its programs for any GPU without float16, on SwiftShader; tests/web runs some in Chromium.

    The same bytes are run once.
    """
    out = tmp_path / "out"
    if name in WEB:
        with pytest.raises(MsdError, match=WEB[name]):
            describe(bundle)
        return
    site = export_web(bundle, out, describe(bundle, steps=(1,)), WebSettings("msd", expected=False))
    found: Networks = {}
    for network in site.networks:
        folder = tmp_path / network.role
        folder.mkdir()
        stored = out / "model" / network.programs["fp32"].program.file
        (folder / PROGRAM).symlink_to(stored)
        for shard in network.programs["fp32"].shards:
            (folder / Path(shard.file).name).symlink_to(out / "model" / shard.file)
        key = _digest(folder), "page", True
        if key not in known:
            with on_swiftshader(read_program(folder)) as session:
                known[key] = session.run(inputs(bundle, network.role))
        found[network.role] = known[key]
    wanted = {role: outputs for role, outputs in on_cpu(bundle, known).items() if role in found}
    assert {"text_encoder", "unet", "vae_decoder"} <= set(wanted)
    require_near(wanted, found, FLOAT)


def _digest(folder: Path) -> str:
    """Return the SHA-256 of the files in a folder."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()


def test_litert_in_the_page_refuses_a_bundle_for_the_cpu(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = recipe_bundle(tmp_path_factory, "cpu-w8")
    with pytest.raises(MsdError, match=BY_DELEGATE):
        export_web(made, tmp_path / "out", describe(made), WebSettings("litert", litert_js=tmp_path))
    assert not (tmp_path / "out").exists()


def test_the_android_library_generates_with_a_bundle_or_it_is_refused(
    bundle: Bundle, name: str, kotlin: Jvm, tmp_path: Path
) -> None:
    """The library on a JVM, and the exported files on LiteRT's CPU."""
    out = tmp_path / "out"
    settings = AndroidSettings("download", steps=(1,), licence="MIT")
    if name in ANDROID:
        with pytest.raises(MsdError, match=ANDROID[name]):
            export_android(bundle, out, settings)
        assert not out.exists()
        return
    export_android(bundle, out, settings)
    engine = Engine(backends()["litert-cpu"], Conditions(threads=1))
    folder = next(out.rglob("sd-manifest.json")).parent
    with ExitStack() as stack:
        opened = {
            role: stack.enter_context(engine.load(next(out.rglob(bundle.component(role).file))))
            for role in ("text_encoder", "unet", "vae_decoder")
        }

        def serve(role: str, given: dict[str, Array]) -> dict[str, Array]:
            part = bundle.component(role)
            shaped = {port.name: given[port.name].reshape(port.shape) for port in part.inputs}
            return opened[role].run(shaped)

        wishes = {"prompt": "a red circle", "negative": "", "seed": 3, "steps": 1}
        image = kotlin.ask("generate served", serve, folder=str(folder), **wishes)
    wanted = Pipeline(bundle, threads=1).generate("a red circle", seed=3, steps=1)
    assert psnr(wanted.latents.ravel(), floats(image["latents"])) >= FLOAT
