"""The noise of a seed as docs/runtime.md states it, written out, against NumPy's: for other languages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from msd.run.runtime.noise import noise

WORD, LONG, WIDE = 2**32 - 1, 2**64 - 1, 2**128 - 1
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
R = 3.6541528853610087963519472518


def seed_sequence(entropy: list[int]) -> list[int]:
    """O'Neill's seed_seq_fe as in NumPy's SeedSequence: eight words of 32 bits."""
    words = [
        number >> 32 * i & WORD for number in entropy for i in range(max(1, -(-number.bit_length() // 32)))
    ]
    constant = 0x43B0D7E5

    def hashed(value: int) -> int:
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & WORD
        value = value * constant & WORD
        return value ^ value >> 16

    def mixed(x: int, y: int) -> int:
        value = 0xCA01F9DD * x - 0x4973F715 * y & WORD
        return value ^ value >> 16

    pool = [hashed(word) for word in (words + [0] * 4)[:4]]
    for source in range(4):
        for i in range(4):
            if i != source:
                pool[i] = mixed(pool[i], hashed(pool[source]))
    for word in words[4:]:
        pool = [mixed(each, hashed(word)) for each in pool]
    made, constant = [], 0x8B51F9DD
    for i in range(8):
        value = pool[i % 4] ^ constant
        constant = constant * 0x58F38DED & WORD
        value = value * constant & WORD
        made.append(value ^ value >> 16)
    return made


def pcg64(entropy: list[int]) -> Iterator[int]:
    """PCG XSL RR 128/64 (O'Neill 2014), each 64 bits as two words, the low one first."""
    w = seed_sequence(entropy)
    a, b, c, d = (w[i] | w[i + 1] << 32 for i in (0, 2, 4, 6))
    step = ((c << 64 | d) << 1 | 1) & WIDE
    state = (step + (a << 64 | b)) * MULTIPLIER + step & WIDE
    while True:
        state = state * MULTIPLIER + step & WIDE
        folded, turn = (state >> 64 ^ state) & LONG, state >> 122
        value = (folded >> turn | folded << (64 - turn)) & LONG
        yield value & WORD
        yield value >> 32


def tables() -> tuple[list[int], np.ndarray, np.ndarray]:
    """The 256 layers of Marsaglia and Tsang (2000): bounds k, widths w, heights f."""

    def f(x: float) -> float:
        return math.exp(-x * x / 2)

    area = R * f(R) + math.sqrt(math.pi / 2) * math.erfc(R / math.sqrt(2))
    x = [0.0] * 255 + [R]
    for i in range(254, 0, -1):
        x[i] = math.sqrt(-2 * math.log(area / x[i + 1] + f(x[i + 1])))
    base = area / f(R)
    k = [int(R / base * 2**23), 0] + [int(x[i - 1] / x[i] * 2**23) for i in range(2, 256)]
    w = np.array([base, *x[1:]]) / 2**23
    return k, w.astype(np.float32), np.array([f(each) for each in x], np.float32)


def normal(entropy: list[int]) -> Iterator[np.float32]:
    """The ziggurat in float32, as NumPy's random_standard_normal_f."""
    words, (k, w, f) = pcg64(entropy), tables()

    def uniform() -> np.float32:
        return np.float32(next(words) >> 8) * np.float32(2**-24)

    while True:
        word = next(words)
        i, negative, size = word & 255, word >> 8 & 1, word >> 9
        x = np.float32(size) * w[i] * np.float32(-1 if negative else 1)
        if size < k[i]:
            yield x
        elif i == 0:
            while True:
                tail = -np.float32(1 / R) * np.log1p(-uniform())
                if -2 * np.log1p(-uniform()) > tail * tail:
                    break
            yield (np.float32(R) + tail) * np.float32(-1 if size >> 8 & 1 else 1)
        elif (f[i - 1] - f[i]) * uniform() + f[i] < math.exp(-0.5 * float(x) * float(x)):
            yield x


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (42, 0), (7, 3), (2**40 + 5, 0), (2**70 + 1, 2)])
def test_the_noise_of_a_seed_is_what_is_written(seed: int, step: int) -> None:
    wanted = noise(seed, (1, 64, 64, 4), step).ravel()
    entropy = [seed, step] if step else [seed]
    made = np.array([*islice(normal(entropy), wanted.size)])
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-6)
    assert np.count_nonzero(np.abs(wanted) > R) >= 1
