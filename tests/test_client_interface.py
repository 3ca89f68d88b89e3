"""Interfaces of other programs: each one's calls, as its source makes them, played on the real interpreter.

mobile_app_open: mobile_back_litert/cpp/backend_litert/stable_diffusion_{pipeline,invoker}.cc and
embedding_utils.cc, and the older mobile_back_tflite, which binds by place. litert-torch:
examples/stable_diffusion/pipeline.py, and model.py for the names of arguments.
"""

from __future__ import annotations

import json
import shutil
import struct
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import msd
from msd.bundle import ConvertedFile, open_bundle
from msd.cli.convert import convert
from msd.conversion.client_interface import (
    FOLDER,
    BoundPort,
    NetworkInterface,
    find_interface,
    shipped,
)
from msd.conversion.client_ports import bind
from msd.conversion.time_embeddings import timesteps
from msd.errors import BadBundle
from msd.graph import tflite
from msd.graph.ir import Build, Model, Signature, Tensor
from msd.graph.parity import psnr
from msd.graph.prediction.rules import predict
from msd.measure.judging import judge
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.timestep import embed_timestep
from tests.client_files import OWN, own_file
from tests.harness import build
from tests.reference import Array

GENERATOR = np.random.default_rng(11)
START, END = 49406, 49407


@pytest.fixture(scope="module")
def plain(demo_float: Path) -> Path:
    """The demo with msd's own names."""
    return demo_float


@pytest.fixture(scope="module")
def mlperf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("interface") / "mlperf"
    msd.convert(None, out, recipe="float32", interface="mlperf-mobile")
    return out


@pytest.fixture(scope="module")
def litert_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("interface") / "torch"
    msd.convert(None, out, recipe="float32", batch=2, interface="litert-torch")
    return out


def run_own(folder: Path, component: str, **inputs: Array) -> Array:
    with Interpreter(folder / f"{component}.tflite") as network:
        return next(iter(network.run(inputs).values()))


def details(path: Path) -> Any:
    from ai_edge_litert.interpreter import Interpreter as LiteRt

    loaded = LiteRt(str(path))
    loaded.allocate_tensors()
    return loaded


def by_name(path: Path, output: str, **inputs: Array) -> Array:
    """Call the first signature by names, as CompiledModel does; a name that is missing fails."""
    loaded = details(path)
    (key,) = loaded.get_signature_list()
    runner = loaded.get_signature_runner(key)
    result: Array = runner(**inputs)[output]
    return result


def by_compiled_model(path: Path, output: str, **inputs: Array) -> Array:
    """Call a file as BuildModel and WriteExact do: names give places, inputs are resized, buffers filled."""
    from ai_edge_litert.compiled_model import CompiledModel

    compiled = CompiledModel.from_file(str(path))
    (names,) = compiled.get_signature_list().values()
    places = {name: names["inputs"].index(name) for name in inputs}
    for name, value in inputs.items():
        compiled.resize_input_tensor(places[name], list(value.shape))
    buffers, results = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    for name, value in inputs.items():
        buffers[places[name]].write(value)
    compiled.run_by_index(0, buffers, results)
    size = int(np.prod(details(path).get_output_details()[0]["shape"]))
    result: Array = np.asarray(results[names["outputs"].index(output)].read(size, np.float32))
    return result


def by_place(path: Path, *inputs: Array) -> Array:
    """Write the inputs in the order of the file and read its first output, as the C API's callers do."""
    loaded = details(path)
    ports = loaded.get_input_details()
    assert len(ports) == len(inputs)
    for port, value in zip(ports, inputs, strict=True):
        loaded.set_tensor(port["index"], value)
    loaded.invoke()
    result: Array = loaded.get_tensor(loaded.get_output_details()[0]["index"])
    return result


def table_of(path: Path) -> tuple[list[int], Array]:
    """Return timesteps and embeddings as embedding_utils.cc reads them: both reversed."""
    data = path.read_bytes()
    (count,) = struct.unpack("<I", data[:4])
    steps = struct.unpack(f"<{count}i", data[4 : 4 + 4 * count])
    embeddings = np.frombuffer(data[4 + 4 * count :], "<f4").reshape(count, -1)
    return list(steps[::-1]), embeddings[::-1]


def tokens_of(words: list[int]) -> Array:
    return np.array([[START, *words, *[END] * (76 - len(words))]], np.int32)


def test_mlperfs_prompts_by_names_and_by_places(plain: Path, mlperf: Path) -> None:
    """The positions are read: in another order, they give something else."""
    rate = [END % 500, *range(3, 9)]
    tokens = np.where(tokens_of(rate) > 516, 1, tokens_of(rate)).astype(np.int32)
    positions = np.arange(77, dtype=np.int32)[None]
    encoder = mlperf / "text_encoder.tflite"
    context = by_name(encoder, "layer_normalization_72", tokens=tokens, positions=positions)
    assert psnr(run_own(plain, "text_encoder", tokens=tokens), context) >= 110
    np.testing.assert_array_equal(by_place(encoder, tokens, positions), context)
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        called = apart.submit(
            by_compiled_model, encoder, "layer_normalization_72", tokens=tokens, positions=positions
        )
        compiled = called.result().reshape(context.shape)
    np.testing.assert_allclose(compiled, context, atol=1e-4)
    swapped = by_name(encoder, "layer_normalization_72", tokens=tokens, positions=positions[:, ::-1].copy())
    assert psnr(context, swapped) < 60


def test_mlperfs_loop_with_its_table_of_embeddings(plain: Path, mlperf: Path) -> None:
    """Two steps of it and the decoder, against msd's own networks, which embed the timestep themselves."""
    unet, context = mlperf / "unet.tflite", GENERATOR.standard_normal((1, 77, 128), np.float32)
    steps, embeddings = table_of(mlperf / "timestep_embeddings_data.bin.ts")
    assert steps == [
        0,
        53,
        105,
        158,
        210,
        263,
        315,
        368,
        421,
        473,
        526,
        578,
        631,
        684,
        736,
        789,
        841,
        894,
        946,
        999,
    ]
    latent = GENERATOR.standard_normal((1, 16, 16, 4), np.float32)
    for index in (19, 4):
        waves = embed_timestep(steps[index], 64)[None]
        expected = run_own(plain, "unet", latent=latent, context=context, timestep_embedding=waves)
        feed = {"latent": latent, "context": context, "timestep_embedding": embeddings[index][None].copy()}
        noise = by_name(unet, "padded_conv2d_83", **feed)
        assert psnr(expected, noise) >= 100
        np.testing.assert_array_equal(by_place(unet, *feed.values()), noise)
        latent = latent - 0.1 * noise
    image = by_name(mlperf / "vae_decoder.tflite", "padded_conv2d_37", input_1=latent)
    assert psnr(run_own(plain, "vae_decoder", latent=latent), image) >= 110


def call_torch(path: Path, *arguments: Array, signature_name: str) -> Array:
    """litert_torch.model: arguments are args_0 …, all of them; one result is output_0."""
    loaded = details(path)
    assert list(loaded.get_signature_list()) == [signature_name]
    assert len(loaded.get_signature_list()[signature_name]["inputs"]) == len(arguments)
    outputs = loaded.get_signature_runner(signature_name)(**{f"args_{i}": a for i, a in enumerate(arguments)})
    assert list(outputs) == ["output_0"]
    result: Array = outputs["output_0"]
    return result


def test_litert_torchs_pipeline(plain: Path, litert_torch: Path) -> None:
    """One step of it: both prompts in one run, the embedding for both, channels first."""
    clip, diffusion, decoder = (
        litert_torch / f"{name}.tflite" for name in ("text_encoder", "unet", "vae_decoder")
    )
    prompts = [GENERATOR.integers(2, 500, (1, 77)).astype(np.int32) for _ in range(2)]
    contexts = [call_torch(clip, prompt, signature_name="encode") for prompt in prompts]
    for prompt, context in zip(prompts, contexts, strict=True):
        assert psnr(run_own(plain, "text_encoder", tokens=prompt), context) >= 110
    both = np.concatenate(contexts, axis=0)
    latents = GENERATOR.standard_normal((1, 4, 16, 16), np.float32)
    embedding = embed_timestep(961, 64)[None]
    output = call_torch(diffusion, latents.repeat(2, axis=0), both, embedding, signature_name="diffusion")
    own = latents.transpose(0, 2, 3, 1).copy()
    for row, context in zip(np.split(output, 2, axis=0), contexts, strict=True):
        expected = run_own(plain, "unet", latent=own, context=context, timestep_embedding=embedding)
        assert psnr(expected, row.transpose(0, 2, 3, 1)) >= 100
    image = call_torch(decoder, latents, signature_name="decode")
    assert image.shape == (1, 3, 128, 128)
    assert psnr(run_own(plain, "vae_decoder", latent=own), image.transpose(0, 2, 3, 1)) >= 110


def port_names(file: ConvertedFile) -> tuple[list[str], list[str]]:
    return [p.name for p in file.inputs], [p.name for p in file.outputs]


def test_the_manifest_says_so_and_msds_own_commands_refuse(mlperf: Path, tmp_path: Path) -> None:
    bundle = open_bundle(mlperf, verify=True)
    assert bundle.manifest.configuration.interface == "mlperf-mobile"
    assert bundle.manifest.calls == ()
    unet = bundle.manifest.components["unet"]
    assert port_names(unet) == (["latent", "context", "timestep_embedding"], ["padded_conv2d_83"])
    rooms = [remark for remark in bundle.manifest.conversion.remarks if "has room of" in remark]
    assert "unet has latent of [1, 16, 16, 4], for which the program has room of [1, 64, 64, 4]" in rooms
    assert [r.fired for r in bundle.manifest.ledger["unet"].rules if r.rule == "bind_interface"] == [1]
    sentence = "has the interface mlperf-mobile, another program's; convert without --interface"
    with pytest.raises(BadBundle, match=sentence):
        msd.generate(mlperf, "a cat", steps=1)
    from msd.cli import msd as command

    for name in ("export-android", "export-web", "export-files"):
        result = CliRunner().invoke(command, [name, str(mlperf), "-o", str(tmp_path / name)])
        assert result.exit_code == 1
        assert sentence in " ".join(result.output.split())
        assert not (tmp_path / name).exists()


def test_its_networks_are_timed_and_no_image(mlperf: Path, tmp_path: Path) -> None:
    """What is measured of them is written, and that no image is generated is said."""
    from msd.cli import msd as command

    effort = ("--repeats", "1", "--warmups", "0", "--min-seconds", "0.01", "--max-seconds", "0.1")
    output = tmp_path / "bench.json"
    result = CliRunner().invoke(command, ["bench", str(mlperf), *effort, "-o", str(output)])
    assert result.exit_code == 0, result.output
    said = f"no image is generated: {mlperf} has the interface mlperf-mobile, another program's"
    assert said in " ".join(result.stderr.split())
    (bundle,) = json.loads(output.read_text())["bundles"]
    measured = {each["component"] for each in bundle["measurements"]}
    assert (measured, bundle["wholes"]) == ({"text_encoder", "unet", "vae_decoder"}, [])


def test_a_gpu_takes_such_files_whole(mlperf: Path, litert_torch: Path) -> None:
    for path in (*mlperf.glob("*.tflite"), *litert_torch.glob("*.tflite")):
        found = [f for f in predict(tflite.read(path), "litert-gpu") if f.severity != "note"]
        assert found == [], path
    assert judge(mlperf / "text_encoder.tflite").ok


def test_a_users_own_file(plain: Path, tmp_path: Path) -> None:
    arguments = ["-o", str(tmp_path / "out"), "--recipe", "float32"]
    arguments += ["--component", "vae_decoder", "--interface", str(own_file(tmp_path)), "--json"]
    result = CliRunner().invoke(convert, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["configuration"]["interface"] == "mine"
    latent = GENERATOR.standard_normal((1, 16, 16, 4), np.float32)
    image = by_name(tmp_path / "out/vae_decoder.tflite", "rgb", z=latent.transpose(0, 3, 1, 2).copy())
    assert psnr(run_own(plain, "vae_decoder", latent=latent), image) >= 110
    (tmp_path / "mine.toml").write_text(OWN.replace('"rgb"', '"bgr"'), "utf-8")
    assert CliRunner().invoke(convert, arguments).exit_code == 1, "other names make other files"


def test_msds_own_files_are_sensible() -> None:
    assert shipped() == ["litert-torch", "mlperf-mobile"]
    for name in shipped():
        interface = find_interface(name)
        assert interface.source.startswith("https://")
        assert (FOLDER / f"{name}.toml").read_text("utf-8").count("#") >= 2, "the client's files are named"
    assert timesteps(1).tolist() == [0]
    assert timesteps(3).tolist() == [999, 500, 0]


def test_its_table_goes_with_the_interface(mlperf: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out", "timestep_embeddings_data.bin.ts"
    shutil.copytree(mlperf, out)
    (out / "notes.txt").write_text("mine")
    msd.convert(None, out, recipe="float32", interface="mlperf-mobile", force=True)
    assert (out / table).read_bytes() == (mlperf / table).read_bytes()
    msd.convert(None, out, recipe="float32", interface="mlperf-mobile")
    assert (out / table).is_file(), "it stays with a U-Net that stays"
    msd.convert(None, out, recipe="float32", force=True)
    assert not (out / table).exists()
    assert (out / "notes.txt").read_text() == "mine"


def test_what_the_interface_leaves_keeps_msds_names(plain: Path, tmp_path: Path) -> None:
    msd.convert(None, tmp_path / "out", recipe="float32", interface=own_file(tmp_path))
    manifest = open_bundle(tmp_path / "out").manifest
    assert port_names(manifest.components["unet"]) == port_names(
        open_bundle(plain).manifest.components["unet"]
    )
    assert any(
        "mine does not bind text_encoder and unet, which keep msd's names" in remark
        for remark in manifest.conversion.remarks
    )


def test_channels_first_of_an_image_that_is_wider_than_high(tmp_path: Path) -> None:
    """Rows that serve a batch of two, and axes in their order, on the real interpreter."""

    def spell(new: Build, image: Tensor, row: Tensor) -> Tensor:
        return new.MUL(image, new.RESHAPE(row, [2, 1, 1, 5]))

    graph = build(spell, image=(2, 3, 4, 5), row=(2, 5))
    own = dict(zip(("image", "row"), graph.inputs, strict=True))
    graph.signatures = [Signature("own", own, {"result": graph.outputs[0]})]
    wanted = NetworkInterface(
        inputs=(BoundPort("b", "row", rows=1), BoundPort("a", "image", layout="NCHW")),
        outputs=(BoundPort("y", "result", layout="NCHW", shape=(2, 5, 3, 4)),),
        signature="theirs",
    )
    assert bind(graph, "net", wanted).misfits == ()
    tflite.write(Model([graph]), tmp_path / "net.tflite")
    image, row = (GENERATOR.standard_normal(shape, np.float32) for shape in ((2, 5, 3, 4), (1, 5)))
    result = by_name(tmp_path / "net.tflite", "y", a=image, b=row)
    np.testing.assert_allclose(result, image * row[:, :, None, None], rtol=1e-6)
    np.testing.assert_array_equal(by_place(tmp_path / "net.tflite", row, image), result)


def test_binding_changes_nothing_else(plain: Path) -> None:
    """What is only renamed keeps its operators."""
    model = tflite.read(plain / "unet.tflite")
    before = [op.kind for op in model.main.ops]
    wanted = find_interface("mlperf-mobile").networks["vae_decoder"]
    decoder = tflite.read(plain / "vae_decoder.tflite").main
    kinds = [op.kind for op in decoder.ops]
    assert bind(decoder, "vae_decoder", wanted).layers is None
    assert [op.kind for op in decoder.ops] == kinds
    bound = bind(model.main, "unet", find_interface("mlperf-mobile").networks["unet"])
    assert bound.layers is not None
    assert [op.kind for op in bound.layers.ops].count("CONV_2D") == 2
    assert len(model.main.ops) == len(before) - len(bound.layers.ops) + 1
