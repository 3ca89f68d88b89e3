"""Files whose inputs leave sizes open: judged at the sizes that are given, or refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from msd.api import judge, predict
from msd.cli.report import report
from msd.conversion.sizes.fix_shapes import fix_shapes
from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Signature, Tensor
from msd.run.runners.interpreter import Interpreter
from tests.harness import conv


def open_model(folder: Path, name: str = "open.tflite") -> Path:
    """Write a convolution of an image plus another input, whose batch, height and width are open."""
    new = Build()
    x, extra = Tensor("image", (1, 1, 1, 4)), Tensor("extra", (1, 1, 1, 4))
    y = new.ADD(conv(new, x, 4, (3, 3)), extra)
    for tensor in (x, extra, *(t for o in new.ops for t in o.outputs)):
        tensor.shape_signature = (-1, -1, -1, 4)
    graph = Graph([x, extra], [y], new.ops)
    graph.signatures = [Signature("serving_default", {"x": x, "more": extra}, {"y": y})]
    tflite.write(Model([graph]), folder / name)
    return folder / name


def call(*arguments: object) -> Result:
    return CliRunner().invoke(report, ["--no-run", *map(str, arguments)])


BOTH = ("--shape", "x=2,5,7,4", "--shape", "more=2,5,7,4")


def test_open_sizes_are_refused_with_the_remedy(tmp_path: Path) -> None:
    result = call(open_model(tmp_path))
    assert result.exit_code == 1
    words = " ".join(result.output.split())
    assert "leaves sizes open: input x is [-1, -1, -1, 4], input more is [-1, -1, -1, 4]" in words
    assert "such as --shape x=1,1,1,4 --shape more=1,1,1,4" in words


def test_the_api_refuses_them_too(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match="leaves sizes open"):
        predict(open_model(tmp_path))
    with pytest.raises(BadModelFile, match="leaves sizes open"):
        judge(open_model(tmp_path))


def test_given_sizes_are_judged(tmp_path: Path) -> None:
    path = open_model(tmp_path)
    result = call(path, *BOTH)
    assert result.exit_code == 0, result.output
    assert "open.tflite at x=2,5,7,4 more=2,5,7,4" in "".join(result.stdout.split("\n"))
    assert "2 of 2 on GPU" in result.stdout


def test_the_fixed_file_computes_what_the_open_one_does(tmp_path: Path) -> None:
    path, fixed = open_model(tmp_path), tmp_path / "fixed.tflite"
    fix_shapes(path, {"x": (2, 5, 7, 4), "extra": (2, 5, 7, 4)}, fixed)
    graph = tflite.read(fixed).main
    assert all(t.shape_signature is None for t in graph.tensors())
    assert graph.outputs[0].shape == (2, 5, 7, 4)
    graph.verify()
    x = np.random.default_rng(0).normal(size=(2, 5, 7, 4)).astype(np.float32)
    (found,) = Interpreter(fixed).run({"x": x, "more": x}).values()
    from ai_edge_litert.interpreter import Interpreter as LiteRT

    runner = LiteRT(str(path)).get_signature_runner()
    np.testing.assert_allclose(found, runner(x=x, more=x)["y"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--shape", "x=2,5,7,4"), "still leaves sizes open: input more is"),
        ((*BOTH, "--shape", "z=1"), "--shape names z, which is no input of these files"),
        (("--shape", "x=2,5,7,3"), "where -1 is open; [2, 5, 7, 3] does not fit"),
        (("--shape", "x=2,5"), "[2, 5] does not fit"),
        (("--shape", "x=2,0,7,4"), "is no shape of an input; write NAME=1,64,64,4"),
        (("--shape", "x"), "is no shape of an input"),
        (("--shape", "x=2,5,7,4", "--shape", "more=2,6,7,4"), "cannot be run at these sizes"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = call(open_model(tmp_path), *arguments)
    assert result.exit_code in (1, 2)
    assert words in " ".join(f"{result.output} {result.exception}".split())


def test_files_without_that_input_are_judged_as_they_are(tmp_path: Path) -> None:
    new, x = Build(), Tensor("image2", (1, 3, 5, 4))
    tflite.write(Model([Graph([x], [conv(new, x, 4)], new.ops)]), tmp_path / "fixed.tflite")
    result = call(tmp_path / "fixed.tflite", open_model(tmp_path), *BOTH)
    assert result.exit_code == 0, result.output
