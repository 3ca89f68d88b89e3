"""A network's blocks: what they are called, what each loses alone, and what of it the network loses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import find_recipe
from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Array, Weights
from msd.graph.parity import ErrorSum
from msd.measure.blockwise.blocks import blocks, straddled, swapped, weight_bytes
from msd.measure.blockwise.labels import block_of, joined, joined_blocks, label
from msd.measure.blockwise.measure import measure
from tests.harness import build, normal
from tests.on_cpu import run_graph

WIDTH = 48
X = normal(1, 3, 5, WIDTH)
KERNELS = [normal(WIDTH, 1, 1, WIDTH, seed=i) / 7 for i in range(4)]
NAMES = ("blocks.0.conv1", "blocks.0.conv2", "blocks.1.conv1", "blocks.1.conv2")


def conv(new: Build, x: Tensor, kernel: Array, name: str) -> Tensor:
    learnt = Weights(kernel.shape, kernel.dtype, lambda: kernel, name)
    bias = new.const(np.zeros(len(kernel), np.float32))
    made = new.CONV_2D(x, new.const(learnt, f"{name}/kernel"), bias, stride_w=1, stride_h=1)
    made.name = f"made by {name}"
    return made


def two_blocks(kernels: Sequence[Array], names: Sequence[str] = NAMES) -> Graph:
    """x + conv2(tanh(conv1(x))), twice."""

    def spell(new: Build, x: Tensor) -> Tensor:
        for i in (0, 2):
            hidden = new.TANH(conv(new, x, kernels[i], names[i]))
            x = new.ADD(x, conv(new, hidden, kernels[i + 1], names[i + 1]))
            x.name = f"sum {i}"
        return x

    return build(spell, x=X.shape)


def block(x: Array, first: Array, second: Array) -> Array:
    """What one of the two computes."""
    matrices = (k.reshape(len(k), -1).T for k in (first, second))
    hidden = np.tanh(x @ next(matrices))
    return x + hidden @ next(matrices)


def noisy(kernels: Sequence[Array], which: Sequence[int]) -> list[Array]:
    return [k + normal(*k.shape, seed=9) * np.float32(0.01) * (i in which) for i, k in enumerate(kernels)]


def snr(reference: Array, found: Array) -> float:
    return float(10 * np.log10((reference**2).sum() / ((reference - found) ** 2).sum()))


def write(graph: Graph, path: Path) -> Path:
    tflite.write(Model([graph]), path)
    return path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("down_blocks.0.resnets.1.conv1", "down_blocks.0.resnets.1"),
        (
            "mid_block.attentions.0.transformer_blocks.1.attn1.to_out.0",
            "mid_block.attentions.0.transformer_blocks.1",
        ),
        ("up_blocks.2.attentions.0.proj_in", "up_blocks.2.attentions.0"),
        ("decoder.up_blocks.0.upsamplers.0.conv", "decoder.up_blocks.0.upsamplers.0"),
        ("text_model.encoder.layers.11.mlp.fc1", "text_model.encoder.layers.11"),
        ("decoder.conv_in", "decoder.conv_in"),
        ("time_embedding.linear_2", "time_embedding"),
        ("conv_out", "conv_out"),
    ],
)
def test_a_modules_path_names_its_block(path: str, name: str) -> None:
    assert block_of(path) == name


def test_sums_belong_to_the_block_that_made_the_later_part() -> None:
    graph = two_blocks(KERNELS)
    assert [label(graph)[op] for op in graph.ops] == ["blocks.0"] * 4 + ["blocks.1"] * 4


def test_a_sum_that_only_the_next_block_reads_stays_where_it_was_made() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        x = new.ADD(x, conv(new, x, KERNELS[0], "blocks.0.conv"))
        return conv(new, new.TANH(x), KERNELS[1], "conv_out")

    graph = build(spell, x=X.shape)
    assert [label(graph)[op] for op in graph.ops] == ["blocks.0", "blocks.0", "conv_out", "conv_out"]


def test_the_mask_of_attention_is_no_block() -> None:
    """TensorFlow names it after the whole network; numbers as large as learnt ones are another thing."""
    mask = np.triu(np.full((WIDTH, WIDTH), -10000, np.float32), 1)

    def spell(new: Build, x: Tensor, added: Array = mask) -> Tensor:
        scores = new.ADD(conv(new, x, KERNELS[0], NAMES[0]), new.const(added, "text_encoder_1/Const_1"))
        return conv(new, scores, KERNELS[2], NAMES[2])

    graph = build(spell, x=(1, 1, WIDTH, WIDTH))
    assert set(label(graph).values()) == {"blocks.0", "blocks.1"}
    learnt = build(lambda new, x: spell(new, x, normal(WIDTH, WIDTH)), x=(1, 1, WIDTH, WIDTH))
    assert "text_encoder_1" in label(learnt).values()


@pytest.mark.parametrize("names", [["same/a"] * 4, ["constant"] * 4])
def test_without_names_blocks_end_with_residual_additions(names: list[str]) -> None:
    graph = two_blocks(KERNELS, names)
    assert [label(graph)[op] for op in graph.ops] == ["block 1"] * 4 + ["block 2"] * 4


def test_paths_of_other_programs_are_told_apart_where_they_first_differ() -> None:
    graph = two_blocks(KERNELS, [f"model/{name}/conv2d" for name in ("a", "a", "b", "b")])
    assert [label(graph)[op] for op in graph.ops] == ["a"] * 4 + ["b"] * 4


def test_a_graph_that_says_nothing_is_cut_evenly() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        for _ in range(16):
            x = new.TANH(x)
        return x

    graph = build(spell, x=(2, 3))
    assert sorted(set(label(graph).values())) == [f"block {i}" for i in range(1, 9)]
    assert len(blocks(graph, graph)) == 8


def test_the_numbers_are_numpys(tmp_path: Path) -> None:
    other = noisy(KERNELS, (0, 3))
    files = [write(two_blocks(k), tmp_path / f"{i}.tflite") for i, k in enumerate((KERNELS, other))]
    inputs = [X, 2 * normal(*X.shape, seed=5)]
    found = measure(*files, [{"x": x} for x in inputs], final=True)
    x = np.concatenate(inputs)
    y = block(x, *KERNELS[:2])
    z = block(y, *KERNELS[2:])
    first, second = found.blocks
    assert (first.name, second.name, found.runs) == ("blocks.0", "blocks.1", 2)
    assert first.snr_db == pytest.approx(snr(y, block(x, *other[:2])), abs=0.01)
    assert second.snr_db == pytest.approx(snr(z, block(y, *other[2:])), abs=0.01)
    assert first.max_error == pytest.approx(np.abs(y - block(x, *other[:2])).max(), rel=1e-2)
    swaps = [block(block(x, *other[:2]), *KERNELS[2:]), block(y, *other[2:])]
    noise = [((z - swap) ** 2).sum() for swap in swaps]
    for found_block, swap, each in zip(found.blocks, swaps, noise, strict=True):
        assert found_block.final_snr_db == pytest.approx(snr(z, swap), abs=0.01)
        assert found_block.final_share == pytest.approx(each / sum(noise), rel=1e-2)
    whole = block(block(x, *other[:2]), *other[2:])
    assert found.final_snr_db == pytest.approx(snr(z, whole), abs=0.01)
    assert found.worst_first[0].snr_db == min(first.snr_db, second.snr_db)
    assert found.median_db == pytest.approx((first.snr_db + second.snr_db) / 2)


def test_equal_files_have_no_error(tmp_path: Path) -> None:
    path = write(two_blocks(KERNELS), tmp_path / "x.tflite")
    found = measure(path, path, [{"x": X}], final=True)
    assert [b.snr_db for b in found.blocks] == [None, None]
    assert [b.final_share for b in found.blocks] == [0, 0]
    assert found.final_snr_db is None


def test_progress_ends_with_all_blocks(tmp_path: Path) -> None:
    path, told = write(two_blocks(KERNELS), tmp_path / "x.tflite"), list[tuple[str, int, int]]()
    measure(path, path, [{"x": X}], True, on_progress=lambda *each: told.append(each))
    for what in ("blocks alone", "one block compressed"):
        assert [each[1:] for each in told if each[0] == what] == [(0, 2), (1, 2), (2, 2)]


def test_a_block_takes_its_place_in_the_reference() -> None:
    other = noisy(KERNELS, (0, 1, 2, 3))
    reference, compressed = two_blocks(KERNELS), two_blocks(other)
    before = str(reference), str(compressed)
    first, second = (swapped(reference, b, reference.inputs) for b in blocks(reference, compressed))
    for hybrid in (first, second):
        hybrid.verify()
    assert (str(reference), str(compressed)) == before
    reference.verify()
    compressed.verify()
    wanted = block(block(X, *other[:2]), *KERNELS[2:])
    np.testing.assert_allclose(run_graph(first, X)[0], wanted, rtol=1e-4, atol=1e-4)
    wanted = block(block(X, *KERNELS[:2]), *other[2:])
    np.testing.assert_allclose(run_graph(second, X)[0], wanted, rtol=1e-4, atol=1e-4)
    last = blocks(reference, compressed)[1]
    hybrid = swapped(reference, last, [*reference.inputs, *last.values.values()])
    assert [t.name for t in hybrid.inputs] == ["sum 0"]
    assert len(hybrid.ops) == 4


def chain(kernels: Sequence[Array]) -> Graph:
    """Three blocks, one after the other."""

    def spell(new: Build, x: Tensor) -> Tensor:
        for i, kernel in enumerate(kernels):
            x = conv(new, x, kernel, f"blocks.{i}.conv")
        return x

    return build(spell, x=X.shape)


def test_what_a_compressed_block_changes_is_computed_again() -> None:
    other = noisy(KERNELS[:3], (0,))
    reference = chain(KERNELS[:3])
    every = blocks(reference, chain(other))
    known = [*reference.inputs, *(t for b in every for t in b.reference.outputs)]
    hybrid = swapped(reference, every[0], known)
    assert [t.name for t in hybrid.inputs] == ["x"]
    first, second, third = (k.reshape(WIDTH, WIDTH).T for k in other)
    np.testing.assert_allclose(run_graph(hybrid, X)[0], X @ first @ second @ third, rtol=1e-3, atol=1e-3)


def test_where_a_width_was_pruned_two_blocks_are_one(tmp_path: Path) -> None:
    keep = np.arange(0, WIDTH, 2)
    pruned = [KERNELS[0], KERNELS[1][keep], KERNELS[2][..., keep]]
    files = [write(chain(k), tmp_path / f"{i}.tflite") for i, k in enumerate((KERNELS[:3], pruned))]
    found = measure(*files, [{"x": X}], final=True)
    assert [b.name for b in found.blocks] == ["blocks.0", "blocks.2"]
    a, b, c = (k.reshape(WIDTH, WIDTH).T for k in KERNELS[:3])
    wanted, got = X @ a @ b @ c, (X @ a @ b)[..., keep] @ c[keep]
    assert found.blocks[0].snr_db is None
    assert found.blocks[1].snr_db == pytest.approx(snr(wanted, got), abs=0.01)
    assert found.blocks[1].reference_bytes == 2 * 4 * WIDTH**2
    assert found.blocks[1].bytes == 4 * WIDTH**2
    # All candidates of a mix are cut alike: where one is pruned, the others have one block too.
    together = straddled(*(tflite.read(path).main for path in files))
    assert together == {("blocks.1", "blocks.2")}
    for path, lost in ((files[0], None), (files[1], snr(wanted, got))):
        both = measure(files[0], path, [{"x": X}], final=True, together=together)
        assert [b.name for b in both.blocks] == ["blocks.0", "blocks.1 + blocks.2"]
        assert joined_blocks(both.blocks[1].name) == ["blocks.1", "blocks.2"]
        assert both.blocks[1].snr_db == pytest.approx(lost, abs=0.01)
        assert both.blocks[1].final_snr_db == pytest.approx(lost, abs=0.01)
        assert both.blocks[1].reference_bytes == 2 * 4 * WIDTH**2
        assert both.blocks[0].bytes == 4 * WIDTH**2


def test_blocks_are_joined_in_order_and_one_after_the_other() -> None:
    labels = label(chain([KERNELS[0]] * 5))
    names = set(joined(labels, [("blocks.3", "blocks.2"), ("blocks.0", "blocks.3")]).values())
    assert names == {"blocks.0 + blocks.2 + blocks.3", "blocks.1", "blocks.4"}
    assert joined(labels, []) == labels


def test_what_merged_projections_make_tears_no_blocks() -> None:
    """The second block reads half of a projection that is the first's, and neither reads the other's half."""
    kernel = np.concatenate(KERNELS[2:])
    assert straddled(merged(kernel), merged(kernel)) == set()
    assert straddled(merged(kernel), merged(kernel, half=True)) == set()


def merged(kernel: Array, half: bool = False) -> Graph:
    """One projection for two blocks, as rewrites make them, and two blocks that use half of it each.

    `half`: of what either uses, half is pruned.
    """
    step = 2 if half else 1

    def spell(new: Build, x: Tensor) -> Tensor:
        halves = new.SPLIT(3, conv(new, x, kernel[::step], "blocks.0.to_k"), 2)
        a = new.ADD(x, conv(new, new.TANH(halves[0]), KERNELS[0][..., ::step], "blocks.0.out"))
        a.name = "first"
        return new.ADD(a, conv(new, new.TANH(halves[1]), KERNELS[1][..., ::step], "blocks.1.out"))

    return build(spell, x=X.shape)


def test_merged_projections_are_in_each_block_that_uses_them(tmp_path: Path) -> None:
    kernel = np.concatenate(KERNELS[2:])
    noise = np.zeros_like(kernel)
    noise[WIDTH:] = 0.01
    reference, compressed = merged(kernel), merged(kernel + noise)
    every = blocks(reference, compressed)
    assert [b.name for b in every] == ["blocks.0", "blocks.1"]
    assert [len(b.compressed.ops) for b in every] == [5, 5]
    assert weight_bytes([b.reference for b in every]) == [2 * 4 * WIDTH**2] * 2
    found = measure(
        write(reference, tmp_path / "a.tflite"), write(compressed, tmp_path / "b.tflite"), [{"x": X}]
    )
    assert found.blocks[0].snr_db is None or found.blocks[0].snr_db > 120
    assert found.blocks[1].snr_db is not None
    assert found.blocks[1].snr_db < 60


def test_int8_weights_are_weighed_as_bytes() -> None:
    small = two_blocks(KERNELS)
    assert encode(small, find_recipe("gpu-w8"), "unet").stored["INT8"] == 4
    every = blocks(two_blocks(KERNELS), small)
    assert weight_bytes([b.compressed for b in every]) == [2 * WIDTH**2] * 2


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    reference = write(two_blocks(KERNELS), tmp_path / "a.tflite")
    other = write(build(lambda new, x: new.TANH(x), x=(1, 2)), tmp_path / "b.tflite")
    with pytest.raises(BadModelFile, match=r"b.tflite is no version of .*a.tflite: the inputs of one are"):
        measure(reference, other, [{"x": X}])
    with pytest.raises(BadModelFile, match="was given no inputs"):
        measure(reference, reference, [])
    broken = write(two_blocks([KERNELS[0] * np.float32(np.nan), *KERNELS[1:]]), tmp_path / "c.tflite")
    with pytest.raises(BadModelFile, match=r"c.tflite, blocks.0, cannot be compared .* infinite or NaN"):
        measure(reference, broken, [{"x": X}])


def test_errors_add_up() -> None:
    error = ErrorSum()
    error.add(np.array([3.0, 4.0]), np.array([3.0, 4.5]))
    error.add(np.array([[1.0]]), np.array([0.5]))
    assert error.snr == pytest.approx(10 * np.log10(26 / 0.5))
    assert error.largest == 0.5
    assert ErrorSum(1.0).snr == np.inf
    assert ErrorSum(0.0, 1.0).snr == -np.inf
