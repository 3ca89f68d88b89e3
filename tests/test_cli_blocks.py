"""`msd blocks` on the demo checkpoint, and what it refuses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from msd.cli import blocks as cli
from msd.cli.blocks import blocks
from msd.files import schema
from msd.measure.blockwise import compare
from msd.measure.blockwise.plot import _draw
from msd.measure.blockwise.result import FORMAT, BlockError, BlockReport, ComponentErrors, finite
from tests.recipe_bundles import recipe_bundle
from tests.stable_diffusion import COMPONENTS

FAST = ("--steps", "2", "--kept-steps", "1")


@pytest.fixture(scope="session")
def bundles(demo_float: Path, demo_int8: Path) -> dict[str, Path]:
    return {"float32": demo_float, "int8": demo_int8}


def call(bundle: Path, *arguments: object) -> Result:
    return CliRunner().invoke(blocks, [str(bundle), *map(str, arguments)])


def test_int8_blocks_of_the_demo(bundles: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("two red circles over a striped blue background\n")
    options = (*FAST, "--calibration", tmp_path / "prompts.txt", "--json", "--fail-below", 35)
    result = call(bundles["int8"], "--reference", bundles["float32"], *options)
    assert result.exit_code == 0, result.output
    (tmp_path / "report.json").write_text(result.stdout)
    report: BlockReport = schema.load(BlockReport, tmp_path / "report.json", FORMAT, "a report on blocks")
    assert tuple(report.components) == COMPONENTS
    assert {name: part.runs for name, part in report.components.items()} == {
        "text_encoder": 2,
        "unet": 2,
        "vae_decoder": 1,
    }
    for part in report.components.values():
        assert part.median_db >= 35
        assert 35 < finite(part.worst_first[0].snr_db) < part.median_db < math.inf
        for block in part.blocks:
            least = 1.9 if "float16" in block.stored else 3.5
            assert least < block.reference_bytes / block.bytes < 4.5 or block.name == "embeddings"
            assert set(block.stored) <= {"int8 min-max", "float16"}
    names = [b.name for b in report.components["unet"].blocks]
    assert {"conv_in", "time_embedding", "mid_block.resnets.0", "conv_out"} < set(names)
    assert "down_blocks.0.attentions.0.transformer_blocks.0" in names
    assert len(names) == len(set(names)) == 63


@pytest.mark.parametrize("option", ["--steps=2", "--kept-steps=1", "--guidance=3", "--seed=1"])
def test_a_folder_of_inputs_leaves_options_without_use(
    option: str, bundles: dict[str, Path], tmp_path: Path
) -> None:
    given = ("--reference", bundles["float32"], "--calibration", tmp_path, option)
    result = call(bundles["int8"], *given)
    assert result.exit_code == 2
    assert f"{option.partition('=')[0]} does nothing with --calibration {tmp_path}, a folder" in result.stderr


def test_there_is_nothing_to_replace_without_a_plot(bundles: dict[str, Path]) -> None:
    result = call(bundles["int8"], "--reference", bundles["float32"], "--force")
    assert (result.exit_code, "--force does nothing without --plot" in result.stderr) == (2, True)


def test_the_table_names_the_worst_and_shares_add_up(bundles: dict[str, Path], tmp_path: Path) -> None:
    plot = tmp_path / "blocks.svg"
    only = ("--component", "text_encoder", *FAST, "--final")
    result = call(bundles["int8"], "--reference", bundles["float32"], *only, "--plot", plot)
    assert result.exit_code == 0, result.output
    assert "dB in embeddings" in result.stdout
    assert "share" in result.stdout
    first = plot.read_bytes()
    assert b"encoder.layers.2" in first
    again = call(bundles["int8"], "--reference", bundles["float32"], *only, "--plot", plot)
    assert again.exit_code == 1
    assert "--force replaces it" in again.stderr
    again = call(
        bundles["int8"], "--reference", bundles["float32"], *only, "--plot", plot, "--force", "--json"
    )
    assert again.exit_code == 0
    assert plot.read_bytes() == first
    (part,) = json.loads(again.stdout)["components"].values()
    assert sum(b["final_share"] for b in part["blocks"]) == pytest.approx(1)
    assert part["final_snr_db"] < min(b["final_snr_db"] for b in part["blocks"])


def test_an_exact_block_is_named_so_in_the_plot_and_no_column_is_empty() -> None:
    errors = (BlockError("conv_in", 1, 1, 1, None, 0.0), BlockError("conv_out", 1, 1, 1, 40.0, 0.1))
    part = ComponentErrors(runs=1, blocks=errors)
    heads = [str(column.header) for column in cli._table("unet", part).columns]
    assert heads == ["block", "weights, kB", "before, kB", "SNR, dB", "max error", "stored"]
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    _draw(axis, part)
    assert [(text.get_text(), text.xy[1]) for text in axis.texts] == [("exact", 0)]


def test_a_low_median_fails_the_check(bundles: dict[str, Path]) -> None:
    only = ("--component", "text_encoder", *FAST)
    result = call(bundles["int8"], "--reference", bundles["float32"], *only, "--fail-below", 70)
    assert result.exit_code == 3
    assert "calibrated with 4 captions of the demo, 1 of 2 steps, guidance 7.5, seed 0" in result.stdout
    assert "text_encoder, 8 inputs" in result.stdout
    assert "text_encoder: the median of" in result.stderr


@pytest.mark.parametrize(("least", "code"), [(0, 3), (-5, 0)])
def test_a_median_below_zero_is_below_zero(
    least: int, code: int, bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    block = BlockError("b", 1, 1, 1, snr_db=-4.0, max_error=1.0)
    report = BlockReport("", "a", "", "b", "", "", {"unet": ComponentErrors(1, (block,))})
    monkeypatch.setattr(compare, "compare", lambda *given: report)
    options = ("--reference", bundles["float32"], "--component", "unet", "--fail-below", least)
    result = call(bundles["int8"], *options)
    assert result.exit_code == code, result.output
    assert ("unet: the median of -4.0 dB is below 0 dB" in result.stderr) is (code == 3)


def test_a_folder_of_latents_calibrates_the_decoder(bundles: dict[str, Path], tmp_path: Path) -> None:
    latents = np.random.default_rng(0).standard_normal((3, 1, 16, 16, 4), np.float32)
    for i, latent in enumerate(latents):
        np.save(tmp_path / f"{i}.npy", latent)
    only = ("--component", "vae_decoder", "--calibration", tmp_path, "--json")
    result = call(bundles["int8"], "--reference", bundles["float32"], *only)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["components"]["vae_decoder"]["runs"] == 3
    np.save(tmp_path / "3.npy", latents[0][:, :8])
    result = call(bundles["int8"], "--reference", bundles["float32"], *only)
    assert result.exit_code == 1
    assert (
        "3.npy has latent as float32[1, 8, 16, 4]; the network takes float32[1, 16, 16, 4]" in result.stderr
    )


def test_prompts_calibrate(bundles: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("a red circle over a white background\n")
    only = ("--component", "text_encoder", *FAST, "--guidance", "1")
    result = call(
        bundles["int8"], "--reference", bundles["float32"], *only, "--calibration", tmp_path / "prompts.txt"
    )
    assert result.exit_code == 0, result.output
    assert "calibrated with prompts.txt, 1 of 2 steps, guidance 1, seed 0" in result.stdout
    assert "text_encoder, 1 input" in result.stdout


def test_other_checkpoints_are_refused(bundles: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in bundles["int8"].iterdir():
        (other / path.name).symlink_to(path)
    text = (other / "manifest.json").read_text()
    manifest = json.loads(text)
    name = next(iter(manifest["source"]["files"]))
    (other / "manifest.json").unlink()
    changed = text.replace(manifest["source"]["files"][name]["sha256"], "0" * 64)
    (other / "manifest.json").write_text(changed)
    result = call(other, "--reference", bundles["float32"])
    assert result.exit_code == 1
    assert f"were not converted from one checkpoint: {name} is another file" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--plot", "x.jpg"), 2, "x.jpg is not a name for a plot; it should end in .png or .svg"),
        (("--calibration", "missing.txt"), 1, "missing.txt cannot be read as UTF-8 text"),
    ],
)
def test_refusals(arguments: tuple[str, ...], code: int, said: str, bundles: dict[str, Path]) -> None:
    result = call(bundles["int8"], "--reference", bundles["float32"], *arguments)
    assert result.exit_code == code
    assert said in result.stderr


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("blocks-help.txt", CliRunner().invoke(blocks, ["--help"], prog_name="msd blocks").output)


def test_a_reference_of_integers_is_refused(bundles: dict[str, Path]) -> None:
    """It would show no error where both are rounded alike: a median of infinitely many dB."""
    result = call(bundles["int8"], "--reference", bundles["int8"], *FAST)
    assert result.exit_code == 1
    words = r"text_encoder\.tflite cannot be the reference: it stores .* as int8; give .* --recipe float32"
    assert re.search(words, " ".join(result.output.split())), result.output


def test_a_text_encoder_that_one_bundle_has_in_two_files_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    split, whole = (recipe_bundle(tmp_path_factory, recipe).folder for recipe in ("tflite-gpu-w8", "float32"))
    result = call(split, "--reference", whole, *FAST)
    assert result.exit_code == 1
    assert f"{split} alone has the text encoder in two files" in result.stderr


def test_blocks_without_an_error_are_exact(bundles: dict[str, Path]) -> None:
    only = ("--component", "text_encoder", *FAST, "--final")
    result = call(bundles["float32"], "--reference", bundles["float32"], *only)
    assert result.exit_code == 0, result.output
    assert "text_encoder: block SNR median exact, worst exact in" in result.output
    assert "inf" not in result.output


def stopped(
    done: str, bundles: dict[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch, *more: object
) -> str:
    """Return what Ctrl-C leaves on stderr, once the activity of the text encoder is `done`."""

    @contextmanager
    def progress() -> Iterator[Callable[[str, str, int, int], None]]:
        def on_progress(component: str, what: str, number: int, total: int) -> None:
            if (component, f"{what} {number}") == ("text_encoder", done):
                raise KeyboardInterrupt

        yield on_progress

    monkeypatch.setattr(cli, "component_progress", progress)
    monkeypatch.setenv("COLUMNS", "150")
    options = ("--reference", bundles["float32"], *FAST, "--plot", folder / "blocks.svg")
    result = call(bundles["int8"], *options, "--json", "--component", "text_encoder", *more)
    assert (result.exit_code, result.stdout, [*folder.iterdir()]) == (130, "", [])
    return result.stderr


def test_ctrl_c_loses_no_block(
    bundles: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = stopped("blocks alone 2", bundles, tmp_path, monkeypatch)
    table, _, rest = said.partition("stopped: ")
    assert len(re.findall(r"^│ [a-z]", table, re.MULTILINE)) == 2
    assert "nothing is written" in rest


def test_ctrl_c_loses_no_share_of_the_error(
    bundles: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = stopped("one block compressed 2", bundles, tmp_path, monkeypatch, "--final")
    shares = [float(share) for share in re.findall(r"([0-9.]+)% │", said.partition("stopped: ")[0])]
    assert len(shares) == 2
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_nothing_is_said_of_blocks_of_which_none_is_measured(
    bundles: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "stopped" not in stopped("blocks alone 0", bundles, tmp_path, monkeypatch)
