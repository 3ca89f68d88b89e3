"""What both runtimes of the page compute beside the GPU: float16 by hand, and LiteRT's log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msd.run.runners.native_log import parse
from tests.web.node import evaluate

RECORDED = sorted((Path(__file__).parents[1] / "recorded").glob("*.log"))


def test_every_float16_becomes_the_number_that_numpy_says() -> None:
    script = """
    const { fromHalf } = await import('./msd/half.js');
    const all = fromHalf(Uint16Array.from({ length: 65536 }, (_, bits) => bits));
    console.log(JSON.stringify([...new Uint32Array(all.buffer)]));
    """
    found = np.asarray(evaluate(script), np.uint32).view(np.float32)
    np.testing.assert_array_equal(
        found, np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    )


def test_numbers_are_rounded_as_numpy_rounds_them() -> None:
    """Ties, their neighbours, and both sides of every threshold: zero, subnormal, normal, infinite."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = ((halves[:-1] + halves[1:]) / 2).astype(np.float32)
    edges = np.float32([0, 2**-25, 2**-24, 2**-14, 65504, 65519.99, 65520, 65536, 3e38, np.inf])
    chance = np.random.default_rng(0).integers(0, 0xFF800000, 2000, np.uint32).view(np.float32)
    near = np.concatenate([ties[::37], edges, chance[np.isfinite(chance)]])
    numbers = np.concatenate(
        [near, -near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(9))]
    )
    script = """
    const { toHalf } = await import('./msd/half.js');
    const numbers = new Float32Array(Uint32Array.from(input[0]).buffer);
    console.log(JSON.stringify([...toHalf(numbers), ...toHalf(numbers.subarray(1))]));
    """
    found = np.asarray(evaluate(script, numbers.view(np.uint32).tolist()), np.uint16)
    with np.errstate(over="ignore"):
        wanted = numbers.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(found, np.concatenate([wanted, wanted[1:]]))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_log_is_read_as_python_reads_it(path: Path) -> None:
    text = path.read_text("utf-8", "replace")
    script = """
    const { readLiteRtLog } = await import('./msd/litert-log.js');
    console.log(JSON.stringify(readLiteRtLog(input[0])));
    """
    log, found = parse(text), evaluate(script, text)
    assert found["refusals"] == [f"{kind}: {reason}" for kind, reason in log.rejected]
    assert found["whole"] == (not log.tallies and not log.restored)


def test_the_logs_are_of_both_kinds() -> None:
    whole = [not parse(path.read_text("utf-8", "replace")).rejected for path in RECORDED]
    assert any(whole)
    assert not all(whole)
