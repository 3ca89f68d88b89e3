"""Programs of a bundle for a page: shards that both precisions share, limits, and expected outputs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from msd.errors import DelegateFailed
from msd.export.web import programs
from msd.export.web.expected import expected_inputs
from msd.export.web.manifest import WebFile
from msd.export.web.programs import compile_for_page, limits, write_programs
from msd.files import schema
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.matrix_tile import ENABLE
from msd.gpu.program import ComputePipeline, Place, Program, ProgramStep
from msd.gpu.session import Session
from msd.gpu.store import StoredProgram, read_program
from msd.graph import tflite
from msd.graph.ir import Model
from msd.run.runtime.noise import posterior_noise
from tests.harness import build
from tests.web.networks import ROLES, NetworkSite, tiny_bundle, write_site
from tests.webgpu_device import device

MATRIX_KIND = "fp16-16x16x16"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> NetworkSite:
    return write_site(tmp_path_factory.mktemp("site"), tiny_bundle(tmp_path_factory))


def check(file: WebFile, folder: Path) -> bytes:
    """Return the content of a file that is what its record says."""
    content = (folder / file.file).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
    return content


@pytest.mark.parametrize("role", ROLES)
def test_all_that_is_written_is_what_the_records_say(role: str, site: NetworkSite) -> None:
    model, network = site.folder / "model", site.networks[role]
    assert list(network.programs) == ["fp16", "fp32", "fp16-discrete", "fp32-discrete", MATRIX_KIND]
    for kind, program in network.programs.items():
        stored = schema.read(StoredProgram, json.loads(check(program.program, model)), "program")
        assert stored.half == kind.startswith("fp16")
        assert program.program.file == f"programs/{role}.{kind}.json"
        assert [f"weights/{shard.file}" for shard in stored.shards] == [f.file for f in program.shards]
        assert [shard.sha256 for shard in stored.shards] == [f.sha256 for f in program.shards]
        assert program.memory == sum(stored.buffers)
        assert program.limits == {}
        uses_matrices = any(ENABLE in pipeline.wgsl for pipeline in stored.pipelines)
        assert uses_matrices == (kind == MATRIX_KIND) == (program.matrix is not None)
        for shard in program.shards:
            assert shard.file == f"weights/{shard.sha256[:32]}.bin"
            check(shard, model)


@pytest.mark.parametrize("role", ROLES)
def test_all_programs_have_the_same_weights(role: str, site: NetworkSite) -> None:
    found = site.networks[role].programs
    assert {program.shards for program in found.values()} == {found["fp16"].shards}
    assert found["fp16"].program != found["fp32"].program


def test_no_weights_are_larger_than_in_the_file(site: NetworkSite) -> None:
    """Winograd's transforms of filters would be eight times as large."""
    for role in ROLES:
        shards = site.networks[role].programs["fp16"].shards
        assert sum(shard.bytes for shard in shards) <= 1.2 * site.bundle.component(role).bytes


def test_a_program_of_the_page_runs_here_too(site: NetworkSite, tmp_path: Path) -> None:
    model, network = site.folder / "model", site.networks["unet"]
    (tmp_path / "program.json").write_bytes(check(network.programs["fp32"].program, model))
    for shard in network.programs["fp32"].shards:
        (tmp_path / Path(shard.file).name).write_bytes(check(shard, model))
    inputs = expected_inputs(site.bundle.component("unet").inputs, 0, 10)
    with Session(read_program(tmp_path), device()) as session:
        ((name, result),) = session.run(inputs).items()
    wanted = np.frombuffer(check(network.expected.outputs[name], model), "<f4").reshape(result.shape)
    np.testing.assert_allclose(result, wanted, atol=2e-4 * float(np.abs(wanted).max()))


def test_inputs_that_a_page_can_make_too(site: NetworkSite) -> None:
    ports = site.bundle.component("unet").inputs
    made = expected_inputs(ports, 5, 10)
    for number, port in enumerate(ports):
        np.testing.assert_array_equal(made[port.name], posterior_noise(5, port.shape, number))
    (tokens,) = expected_inputs(site.bundle.component("text_encoder").inputs, 5, 10).values()
    assert tokens.dtype == np.int32
    assert tokens.reshape(-1)[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    (ended,) = expected_inputs(site.bundle.component("text_encoder").inputs, 5, 10, 300).values()
    assert ended.reshape(-1)[-3:].tolist() == [*tokens.reshape(-1)[-3:-1].tolist(), 300]
    assert site.networks["text_encoder"].expected.tokens == 517, "the rows of the table"


def test_only_limits_beyond_the_defaults_are_listed() -> None:
    """The binding that is a uniform counts for no storage binding."""
    pipeline = ComputePipeline("k", "", ("storage", "uniform"))
    places = (Place(0, 0, Gpu.binding_bytes + 16), Place(1, 0, Gpu.binding_bytes + 32))
    step = ProgramStep(
        pipeline=0, places=places, groups=(1, 1, 1), flops=0, arithmetic=0, bytes=0, operation=""
    )
    program = Program(
        buffers=(Gpu.buffer_bytes + 48, 16),
        params=b"",
        constants=(),
        pipelines=(pipeline,),
        steps=(step,),
        inputs={},
        outputs={},
        least_arena=0,
    )
    assert limits(program) == {
        "maxBufferSize": Gpu.buffer_bytes + 48,
        "maxStorageBufferBindingSize": Gpu.binding_bytes + 16,
    }


def test_larger_bindings_are_used_only_where_they_must_be(
    site: NetworkSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site.bundle.path("vae_decoder")
    largest = max(place.bytes for step in compile_for_page(path, Gpu()).steps for place in step.places)
    half = 1 << (largest - 1).bit_length() - 1
    assert half < largest
    monkeypatch.setattr(programs, "BINDINGS", (half // 2, half, 2 * half, 4 * half))
    bound = [place.bytes for step in compile_for_page(path, Gpu()).steps for place in step.places]
    assert half < max(bound) <= 2 * half
    monkeypatch.setattr(programs, "BINDINGS", (half // 2, half))
    with pytest.raises(DelegateFailed, match=f"this GPU binds at most {half}"):
        compile_for_page(path, Gpu())


def test_a_file_that_has_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "floor.tflite"
    tflite.write(Model([build(lambda new, x: new.NEG(new.FLOOR(x)), x=(2, 3))]), path)
    with pytest.raises(DelegateFailed, match=r"FLOOR, operator 0 .* has no kernel for WebGPU"):
        write_programs(path, "unet", tmp_path)
