"""Every form gives the same numbers, whole on the delegates; profiles are read or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import graph_rewrites
import msd
from msd.cli.convert import convert
from msd.compress.calibration.ranges import audit
from msd.errors import BadConfig
from msd.graph import tflite
from msd.graph.parity import psnr
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.registry import find_delegate
from msd.graph.prediction.rules import predict
from msd.graph.rewrite import Ledger, Target, apply
from msd.graph.rewrite.spelling import (
    FOLDER,
    FORMS,
    Spelling,
    find_spelling,
    read_spelling,
    shipped,
    spelling_of,
)
from msd.measure.judging import judge
from msd.run.runners.interpreter import Interpreter
from tests.reference import Array
from tests.test_ablation import from_checkpoint
from tests.traced import Traced

RULES = graph_rewrites.load()
OTHERS = [(construct, form) for construct, forms in FORMS.items() for form in forms[1:]]
LEAST = {"gelu: builtin": 65.0}
"""Decibels to the standard spelling, where less than 100: the exact GELU is not its tanh form."""

CLASSIC_IS_WRONG = {("attention_key", "adj_y")}
"""Forms that TensorFlow Lite's delegate computes wrong."""


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Traced]:
    return dict(from_checkpoint(tmp_path_factory.mktemp("spellings")))


class Standard:
    """A network in the standard spelling: what its rewrites did, its file and its output, found out once."""

    def __init__(self, traced: Traced, path: Path) -> None:
        self.ledger, self.path = written(traced, path, Spelling()), path
        self.output = output(traced, path)
        assert objections(path, "litert-gpu") == []
        self.on_classic = objections(path, "tflite-gpu")


@pytest.fixture(scope="module")
def standard(
    networks: dict[str, Traced], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Standard]:
    """`standard(name)`: a network in the standard spelling."""
    folder = tmp_path_factory.mktemp("standard")
    return cache(lambda name: Standard(networks[name], folder / f"{name}.tflite"))


def written(traced: Traced, path: Path, spelling: Spelling) -> Ledger:
    return traced.write(path, RULES, Target(spelling=spelling))


def output(traced: Traced, path: Path) -> Array:
    with Interpreter(path) as network:
        fed = {name: traced.inputs[name].reshape(port.shape) for name, port in network.inputs.items()}
        (found,) = network.run(fed).values()
    return found


def objections(path: Path, delegate: str) -> list[tuple[str, str]]:
    """Return the kind of each operator that a delegate rejects or computes wrong, with the rule."""
    return [(f.kind, f.code) for f in predict(tflite.read(path), delegate) if f.severity != "note"]


@pytest.fixture(autouse=True)
def large_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks have images of more than four places."""
    monkeypatch.setattr("graph_rewrites.lower_normalization.LARGE", 4)


@pytest.mark.parametrize(("construct", "form"), OTHERS)
def test_each_form_gives_the_same_numbers_whole(
    construct: str,
    form: str,
    networks: dict[str, Traced],
    standard: Callable[[str], Standard],
    tmp_path: Path,
) -> None:
    changed = 0
    for name, traced in networks.items():
        path = tmp_path / f"{name}.tflite"
        changed += standard(name).ledger != written(traced, path, spelling_of("", {construct: form}))
        if path.read_bytes() == standard(name).path.read_bytes():
            continue
        distance = psnr(standard(name).output, output(traced, path))
        assert distance >= LEAST.get(f"{construct}: {form}", 100.0), name
        assert objections(path, "litert-gpu") == []
        on_classic = objections(path, "tflite-gpu")
        assert on_classic == standard(name).on_classic or (construct, form) in CLASSIC_IS_WRONG
    assert changed, "no network has what the form is of"


@pytest.mark.parametrize("name", [n for n in shipped() if n != "standard"])
def test_shipped_profiles_on_the_real_delegate(
    name: str, networks: dict[str, Traced], tmp_path: Path
) -> None:
    for network, traced in networks.items():
        path = tmp_path / f"{network}.tflite"
        written(traced, path, find_spelling(name))
        assert judge(path).ok, network


@pytest.mark.parametrize("forms", [dict(OTHERS), dict(OTHERS[::-1])], ids=["last forms", "first forms"])
def test_all_forms_at_once_on_the_real_delegate(
    forms: dict[str, str], networks: dict[str, Traced], tmp_path: Path
) -> None:
    traced, path = networks["unet"], tmp_path / "unet.tflite"
    written(traced, path, spelling_of("", forms))
    verdict = judge(path)
    assert verdict.ok, verdict.objections


@pytest.mark.parametrize("name", shipped())
def test_shipped_profiles_hold_in_float16(name: str, networks: dict[str, Traced], tmp_path: Path) -> None:
    for network, traced in networks.items():
        path = tmp_path / f"{network}.tflite"
        written(traced, path, find_spelling(name))
        with Interpreter(path) as opened:
            fed = {n: traced.inputs[n].reshape(port.shape) for n, port in opened.inputs.items()}
        assert [r.tensor for r in audit(path, [fed]) if r.overflows] == [], network


@pytest.mark.parametrize("delegate", ["litert", "tflite"])
def test_the_profile_of_fewest_bytes_has_fewer_dispatches(delegate: str, networks: dict[str, Traced]) -> None:
    counts = []
    for name in ("standard", f"{delegate}-fewest-bytes"):
        model = networks["unet"].model()
        apply(model.main, RULES, Target(spelling=find_spelling(name)))
        counts.append(len(fused(model.main, find_delegate(f"{delegate}-gpu"))))
    assert counts[1] < 0.95 * counts[0]


def test_shipped_profiles_name_every_construct_and_what_they_are_for() -> None:
    assert shipped()[-2:] == ["standard", "tflite-fewest-bytes"]
    for name in shipped():
        text = (FOLDER / f"{name}.toml").read_text("utf-8")
        assert all(f"\n{construct} = " in text for construct in FORMS), name
        assert text.count("description = ") == 1
    assert find_spelling("standard") == Spelling("standard")


def test_missing_constructs_are_standard(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[forms]\nlayer_norm = "plain"\n')
    spelling = find_spelling(str(tmp_path / "mine.toml"))
    assert spelling == Spelling("mine", (("layer_norm", "plain"),))
    assert (spelling["layer_norm"], spelling["gelu"]) == ("plain", "clipped")
    assert spelling.with_forms({"layer_norm": "scaled"}).forms == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forms = 3", r"needs a table \[forms\]"),
        ("", r"needs a table \[forms\]"),
        ("[forms]\ngelu = 1", r"needs a table \[forms\]"),
        ('[forms]\ngelu = "fast"', "gelu is 'fast'; choose from clipped, clipped_slope, builtin"),
        ('[forms]\ncolour = "red"', "no construct is called 'colour'; there are group_mean"),
        ('speed = 1\n[forms]\ngelu = "clipped"', r"has no use for \['speed'\]; known keys are"),
        ("[forms", "is not a spelling: "),
    ],
)
def test_a_profile_with_a_mistake_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(BadConfig, match=rf"wrong\.toml.*{message}"):
        read_spelling(tmp_path / "wrong.toml")


def test_a_spelling_that_does_not_exist_is_refused_with_the_names(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"no spelling is called 'fast'; there are .*standard.*toml"):
        find_spelling("fast")
    with pytest.raises(BadConfig, match=r"missing\.toml is not a spelling"):
        find_spelling(str(tmp_path / "missing.toml"))


def test_a_conversion_has_its_spelling_and_says_so(demo_float: Path, tmp_path: Path) -> None:
    """A second conversion with another spelling reuses nothing."""
    out = tmp_path / "out"
    command = ["-o", str(out), "--recipe", "float32", "--component", "text_encoder", "--json"]
    runner = CliRunner()
    plain = runner.invoke(convert, command)
    assert plain.exit_code == 0, plain.output
    assert "spelling" not in json.loads(plain.stdout)["configuration"]
    whole = (out / "text_encoder.tflite").read_bytes()
    assert whole == (demo_float / "text_encoder.tflite").read_bytes()
    spelled = runner.invoke(convert, [*command, "--spelling", "litert-fewest-bytes", "--force"])
    assert spelled.exit_code == 0, spelled.output
    assert json.loads(spelled.stdout)["configuration"]["spelling"] == "litert-fewest-bytes"
    assert (out / "text_encoder.tflite").read_bytes() != whole


def test_a_spelling_that_the_recipes_delegate_computes_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="adj_y"):
        msd.convert(None, tmp_path / "out", recipe="tflite-gpu-w8", spelling="litert-fewest-bytes")
    assert not (tmp_path / "out").exists()


def test_numbers_of_the_demo_with_fewest_bytes(demo_float: Path, tmp_path: Path) -> None:
    bundle = msd.convert(
        None, tmp_path / "out", recipe="float32", components=["unet"], spelling="litert-fewest-bytes"
    )
    path = bundle.folder / "unet.tflite"
    with Interpreter(demo_float / "unet.tflite") as standard, Interpreter(path) as other:
        generator = np.random.default_rng(4)
        inputs = {
            name: generator.standard_normal(port.shape, np.float32) for name, port in other.inputs.items()
        }
        pairs = zip(standard.run(inputs).values(), other.run(inputs).values(), strict=True)
        assert all(psnr(want, found) >= 100 for want, found in pairs)
