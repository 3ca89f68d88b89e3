"""Inputs from a folder are what the network takes, or a sentence says what is wrong with which file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from msd.compress.calibration.inputs import open_folder, read_run
from msd.errors import BadCalibration
from msd.graph.ir.weights import Array
from msd.tensor_spec import TensorSpec

LATENT = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
TOKENS = np.array([[1, 6, 0]], np.int32)
PORTS = {
    "latent": TensorSpec("latent", (1, 2, 3, 4), "float32"),
    "tokens": TensorSpec("tokens", (1, 3), "int32", table_length=7),
}
DECODER = {"latent": PORTS["latent"]}


def save(path: Path, **arrays: Array) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


def test_runs_are_in_the_order_of_names(tmp_path: Path) -> None:
    for name, factor in (("b", 2), ("a", 1)):
        save(tmp_path / f"{name}.npz", latent=LATENT * np.float32(factor), tokens=TOKENS)
    (tmp_path / "notes.txt").write_text("no inputs")
    runs = open_folder(tmp_path, "unet", PORTS)
    assert len(runs) == 2
    for _ in range(2):
        first, second = runs
        np.testing.assert_array_equal(first["latent"] * 2, second["latent"])
        np.testing.assert_array_equal(first["tokens"], TOKENS)


def test_each_network_may_have_its_folder(tmp_path: Path) -> None:
    save(tmp_path / "vae_decoder" / "0.npz", latent=LATENT)
    save(tmp_path / "0.npz", latent=LATENT, tokens=TOKENS)
    assert len(open_folder(tmp_path, "vae_decoder", DECODER)) == 1
    assert len(open_folder(tmp_path, "unet", PORTS)) == 1


def test_latents_alone_are_a_decoders_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "picture.npy", LATENT)
    (run,) = open_folder(tmp_path, "vae_decoder", DECODER)
    np.testing.assert_array_equal(run["latent"], LATENT)
    with pytest.raises(
        BadCalibration, match=r"picture.npy has one array without a name; .* \['latent', 'tokens'\]"
    ):
        open_folder(tmp_path, "unet", PORTS)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCalibration, match=r"has no \.npz files with inputs of the unet"):
        open_folder(tmp_path, "unet", PORTS)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"latent": LATENT}, r"x.npz has the arrays \['latent'\]; the network takes \['latent', 'tokens'\]"),
        (
            {"latent": LATENT[:, :1], "tokens": TOKENS},
            r"latent as float32\[1, 1, 3, 4\]; .* float32\[1, 2, 3, 4\]",
        ),
        ({"latent": LATENT.astype(np.float64), "tokens": TOKENS}, "latent as float64.*takes float32"),
        ({"latent": LATENT * np.float32(np.nan), "tokens": TOKENS}, "latent with NaN or infinite values"),
        ({"latent": LATENT, "tokens": TOKENS + 1}, "tokens from 1 to 7; it indexes a table of 7 rows"),
        ({"latent": LATENT, "tokens": TOKENS - 1}, "tokens from -1 to 5"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_door(
    arrays: dict[str, Array], said: str, tmp_path: Path
) -> None:
    save(tmp_path / "x.npz", **arrays)
    with pytest.raises(BadCalibration, match=said):
        open_folder(tmp_path, "unet", PORTS)


class Attack:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("attacked"),))


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_pickles_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    value = np.array([Attack()], dtype=object)
    if name.endswith("npz"):
        np.savez(tmp_path / name, latent=value)
    else:
        np.save(tmp_path / name, value, allow_pickle=True)
    with pytest.raises(BadCalibration, match=f"{name} is not a file of inputs"):
        read_run(tmp_path / name, DECODER)
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_truncated_files_are_refused(name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", LATENT)
    np.savez(tmp_path / "x.npz", latent=LATENT)
    whole = (tmp_path / name).read_bytes()
    for length in range(0, len(whole), 5):
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(BadCalibration, match=f"{name} is not a file of inputs"):
            read_run(tmp_path / name, DECODER)


def test_damaged_bytes_are_refused_or_read_as_numbers(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npz", latent=LATENT)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xA5]) + whole[place + 1 :])
        with suppress(BadCalibration):
            read_run(path, DECODER)
