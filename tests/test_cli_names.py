"""Names on the command line: near misses, phones, completion, groups of options, recipes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from msd.cli import msd
from msd.compress.encoding.recipe import DEFAULT, find_recipe, shipped
from msd.errors import BadConfig
from msd.graph.prediction.device import find_device
from msd.graph.prediction.phones import phones

NEAR = {
    "genrate": "generate",
    "convert --attention compsite -o x": "composite",
    "convert --recipe gpu-w9 -o x": "gpu-w8",
    "convert --device adreno-74 -o x": "adreno-740",
    "convert --device 'Pixel 8' -o x": "Pixel 9",
    "generate . -p x --scheduler dpm": "dpm2",
    "generate . -p x --backend gpuu": "gpu",
    "generate . -p x --execution pipeline": "pipelined",
    "report . --delegate litert-gp": "litert-gpu",
    "report . --fail-on rejectd": "rejected",
}


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(msd, [str(a) for a in arguments], prog_name="msd")


@pytest.mark.parametrize("words", NEAR)
def test_a_near_miss_names_the_nearest(words: str) -> None:
    parts = re.findall(r"'[^']*'|\S+", words)
    result = run(*(part.strip("'") for part in parts))
    assert result.exit_code in (1, 2)
    assert f"did you mean '{NEAR[words]}'?" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        *(
            "convert -o x --recipe",
            "convert -o x --device",
            "convert -o x --interface",
            "convert -o x --lora",
        ),
        *("convert -o x --embedding", "convert -o x --controlnet", "blocks x --reference x --calibration"),
        "sensitivity --candidate gpu-w8 --target-db 20 -o x.toml --calibration",
    ],
)
def test_an_empty_name_is_wrong_usage(command: str) -> None:
    """As a script passes it whose variable is not set: it is not this folder's."""
    result = run(*command.split(), "")
    option = command.split()[-1]
    assert (result.exit_code, f"value for '{option}': the name is empty" in result.stderr) == (2, True)


def test_what_is_near_nothing_gets_no_guess() -> None:
    for words in ("zzz", "convert --attention zzz -o x", "convert --recipe zzz -o x"):
        assert "did you mean" not in run(*words.split()).stderr


@pytest.mark.parametrize("phone", phones(), ids=lambda phone: phone.name)
def test_a_phone_is_its_gpu(phone: Any) -> None:
    same = (phone.name.upper(), phone.name.replace(" ", "-"), phone.device)
    assert {find_device(name) for name in (phone.name, *same)} == {find_device(phone.name)}
    assert phone.source
    assert phone.gpu


def test_an_unknown_phone_is_refused_with_the_names() -> None:
    with pytest.raises(BadConfig, match=r"no device is called 'Nokia 3310'; there are .*adreno-740.*Pixel 9"):
        find_device("Nokia 3310")


COMPLETED = {
    ("msd", "msd generate x --scheduler e"): {"euler", "euler-a"},
    ("msd", "msd convert --recipe gpu-m"): {"gpu-mixed"},
    ("msd-convert", "msd-convert --device mali"): {"mali-bifrost", "mali-valhall"},
    ("msd-convert", "msd-convert --spelling litert-h"): {"litert-h100"},
    ("msd-convert", "msd-convert --without clip_m"): {"clip_mask"},
    ("delegation-report", "delegation-report --device apple"): {"apple"},
    ("delegation-report", "delegation-report --device pixel"): {"Pixel-9", "Pixel-9-Pro"},
    ("delegation-report", "delegation-report --delegate tf"): {"tflite-gpu"},
    ("delegation-report", "delegation-report --fail-on run,wrong,w"): {"run,wrong,worse"},
    ("msd", "msd kernels x --device apple"): {"apple"},
    ("msd", "msd compare x y --scheduler-b euler-"): {"euler-a"},
    ("msd", "msd sensitivity --candidate gpu-m"): {"gpu-mixed"},
    ("msd", "msd distill x --recover gpu-w8-"): {"gpu-w8-pruned"},
    ("msd", "msd regress d"): {"demo"},
}


@pytest.mark.parametrize(("program", "typed"), COMPLETED)
def test_a_shell_completes_values(program: str, typed: str) -> None:
    entry = {"msd": "msd.cli:msd", "msd-convert": "msd.cli.convert:convert"}
    module, name = entry.get(program, "msd.cli.report:report").split(":")
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    env = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), variable: "bash_complete"}
    script = f"from {module} import {name}; {name}(prog_name={program!r})"
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    env = os.environ | paths | env
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == COMPLETED[program, typed]


@pytest.mark.parametrize("command", ["convert", "generate"])
def test_help_has_three_groups_and_every_option(command: str) -> None:
    printed = run(command, "--help").output
    titles = re.findall(r"^(\w+):$", printed, re.M)
    assert titles[-3:] == ["Basics", "Model", "Expert"]
    found = msd.get_command(None, command)  # type: ignore[arg-type]
    assert found is not None
    for option in found.params:
        if option.param_type_name == "option" and not getattr(option, "hidden", False):
            assert len(re.findall(rf"^  (-\w, )?{re.escape(option.opts[-1])}(?=[\s,/])", printed, re.M)) == 1


def test_the_list_of_recipes_says_when_to_use_each() -> None:
    printed = run("convert", "--recipe", "list").stdout
    assert printed.startswith(f"{DEFAULT} (the default): ")
    assert printed.count("(the default)") == 1
    for name in shipped():
        assert find_recipe(name).use
        assert find_recipe(name).use in printed


def test_images_have_names_of_their_own(bundle_folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    first = run("generate", bundle_folder, "-p", "fox", "-n", "red", "--steps", 3, "--count", 2)
    assert first.exit_code == 0, first.output
    assert {path.name for path in tmp_path.iterdir()} == {"image-0.png", "image-1.png"}
    before = Image.open("image-0.png").tobytes()
    again = run("generate", bundle_folder, "-p", "wolf", "--steps", 1)
    assert again.exit_code == 1
    assert "image-0.png exists" in again.stderr
    assert Image.open("image-0.png").tobytes() == before
    old = run("generate", bundle_folder, "-p", "fox", "--steps", 1, "--images", 3, "--force", "--json")
    assert [json.loads(line)["seed"] for line in old.stdout.splitlines()] == [0, 1, 2]


def test_each_line_has_the_seconds_of_its_own_image(bundle_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    result = run("generate", bundle_folder, "-p", "fox", "--steps", 3, "--count", 3, "-o", out)
    own = [float(text) for text in re.findall(r"seed \d, 3 steps of ddim, ([\d.]+) s$", result.stderr, re.M)]
    whole = re.search(r"^3 images in ([\d.]+) s$", result.stderr, re.M)
    assert len(own) == 3
    assert whole
    assert sum(own) <= float(whole[1])
