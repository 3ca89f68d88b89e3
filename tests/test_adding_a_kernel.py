"""The listings in docs/adding-a-kernel.md work as they stand."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from msd.gpu.gpu import Gpu
from tests.source_tree import ROOT

LISTINGS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-kernel.md").read_text("utf-8"), re.S)
NAME = "msd.gpu.kernels.negate"


@pytest.fixture
def negate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's kernel, as if it were in the package."""
    path = tmp_path / "negate.py"
    path.write_text(LISTINGS[0])
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, NAME, module)
    return module


@pytest.mark.usefixtures("negate")
def test_the_kernel_of_the_page_computes() -> None:
    names = {"numbers": np.array([1.5, -2, 0, 3e20, -7], np.float32)}
    exec(LISTINGS[1], names)
    np.testing.assert_array_equal(names["found"], -names["numbers"])


def test_its_text_for_half_precision_differs_in_types_alone(negate: ModuleType) -> None:
    from msd.gpu.value import Value

    texts = {}
    for element, gpu in (("f32", Gpu()), ("f16", Gpu(half=True))):
        x, y = Value("x", element, 5), Value("y", element, 5)
        (dispatch,) = negate.negate(x, y, gpu)
        texts[element] = dispatch.kernel.wgsl
    assert texts["f16"].replace("enable f16;\n", "").replace("f16", "f32") == texts["f32"]
