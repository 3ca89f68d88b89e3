"""The page's noise is NumPy's to the bit, whatever the seed and the last bits of a browser's exp."""

from __future__ import annotations

import ctypes
import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.bounds import MOST_SEED
from msd.run.runtime.noise import noise, posterior_noise
from tests.web.arrays import OPENING, floats, sent
from tests.web.node import evaluate

SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**53, 2**62 + 3, MOST_SEED]
NOISE = """
import { checkedSeed, noise, posteriorNoise } from './msd/noise.js';
"""
ALL = (
    OPENING
    + NOISE
    + """
const made = input[0].map(([seed, size, step, stream]) => sent(stream === null
  ? noise(BigInt(seed), size, step) : posteriorNoise(BigInt(seed), size, stream)));
console.log(JSON.stringify(made));
"""
)


def made(cases: list[tuple[int, int, int, int | None]]) -> list[np.ndarray]:
    """Return the page's noise for each seed, size, step and stream of an image, if it is one's."""
    return [floats(found) for found in evaluate(ALL, [[str(seed), *case] for seed, *case in cases])]


def numpy_s(seed: int, size: int, step: int, stream: int | None) -> np.ndarray:
    return noise(seed, (size,), step) if stream is None else posterior_noise(seed, (size,), stream)


def test_noise_is_numpy_s_to_the_bit() -> None:
    cases = [
        (seed, size, step, None) for seed in SEEDS for size, step in [(1, 0), (97, 1), (15, 7), (16384, 999)]
    ]
    cases += [(seed, size, 0, stream) for seed in SEEDS for size, stream in [(30, 1), (16384, 2)]]
    for case, found in zip(cases, made(cases), strict=True):
        assert found.tobytes() == numpy_s(*case).tobytes(), case


@settings(max_examples=5)
@given(
    st.lists(
        st.tuples(
            st.integers(0, MOST_SEED),
            st.integers(0, 40),
            st.integers(0, 2**32 - 1),
            st.none() | st.integers(0, 9),
        ),
        min_size=50,
        max_size=200,
    )
)
def test_any_seed_step_and_stream_has_numpy_s_noise(cases: list[tuple[int, int, int, int | None]]) -> None:
    for case, found in zip(cases, made(cases), strict=True):
        assert found.tobytes() == numpy_s(*case).tobytes(), case


def test_four_million_numbers_are_numpy_s_to_the_bit() -> None:
    """About a thousand of them from the tail, where a logarithm's last bit counts."""
    script = """
    const { createHash } = await import('node:crypto');
    const hash = (seed) => createHash('sha256').update(noise(seed, 2_000_000)).digest('hex');
    console.log(JSON.stringify(input.map(hash)));
    """
    seeds = 3, 123456789
    wanted = [noise(seed, (2_000_000,)) for seed in seeds]
    assert evaluate(NOISE + script, *seeds) == [hashlib.sha256(one.tobytes()).hexdigest() for one in wanted]
    assert all(np.count_nonzero(np.abs(one) > 3.6541528853610088) > 300 for one in wanted)


def test_the_logarithm_of_the_tail_is_the_c_library_s() -> None:
    library = ctypes.CDLL("libm.so.6")
    library.log1pf.restype, library.log1pf.argtypes = ctypes.c_float, [ctypes.c_float]
    chosen = np.random.default_rng(0).integers(0, 2**24, 100_000)
    x = -(np.concatenate([chosen, np.arange(2000), 2**24 - 1 - np.arange(2000)]) / 2**24).astype(np.float32)
    script = """
    import { log1p } from './msd/log1p.js';
    console.log(JSON.stringify(sent(floats(input[0]).map(log1p))));
    """
    wanted = np.array([library.log1pf(float(value)) for value in x], np.float32)
    assert floats(evaluate(OPENING + script, sent(x))).tobytes() == wanted.tobytes()


def test_the_ziggurat_does_not_hinge_on_the_last_bits_of_a_browser_s_functions() -> None:
    """Browsers may differ in the last bit of exp and log; the tables, rounded to float32, may not."""
    script = """
    const { exp, log } = Math;
    const before = await import('./msd/ziggurat.js');
    let [unlike, state] = [0, 1];
    const last = () => 1 + ((state = (state * 16807) % 2147483647) / 2147483647 - 0.5) * 2 ** -50;
    for (let i = 1; i <= 20; i++) {
      Math.exp = (x) => exp(x) * last();
      Math.log = (x) => log(x) * last();
      if (Math.exp(1) !== exp(1)) unlike++;
      const after = await import(`./msd/ziggurat.js?${i}`);
      for (const name of ['WIDTH', 'INSIDE', 'DENSITY']) {
        if (after[name].join() !== before[name].join()) throw new Error(`${name} hinges on it`);
      }
    }
    console.log(JSON.stringify(unlike));
    """
    assert evaluate(script) > 10


def test_seeds_that_are_none_are_refused() -> None:
    script = """
    const refused = [-1, 0.5, 2 ** 53, NaN, '7', -1n, 2n ** 63n].map((seed) => {
      try {
        return noise(seed, 3).length;
      } catch ({ code, message }) {
        return [code, message];
      }
    });
    console.log(JSON.stringify([refused, Number(checkedSeed(2 ** 53 - 1) - 2n ** 53n)]));
    """
    refused, least = evaluate(NOISE + script)
    assert [code for code, _ in refused] == ["bad-request"] * 7
    assert refused[0][1] == (
        "the seed is -1; it should be a whole number from 0 to 9223372036854775807, a bigint beyond 2^53"
    )
    assert least == -1
