"""Mutants of files: bytes flipped, cut and spliced, and values of JSON and TOML replaced by others."""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

Mutate = Callable[[Random, list[bytes]], bytes]
"""Returns a mutant of one of the seeds."""

WORDS = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
HUGE = "9" * 400
TEXTS = (
    "",
    " ",
    "x" * 2000,
    "\x1b[31merror: red\n",
    "a\nb",
    "\ud800",
    "../../x",
    "NaN",
    "𝒳",
    "*" * 30,
    "[/]",
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 1000, 10**6, 2**31, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e308),
    *(float("inf"), float("-inf"), float("nan"), [], {}, [0], [[]], [None], {"": 0}, ["x"], {"a": {"b": []}}),
    *TEXTS,
)
LITERALS = (
    *("0", "-1", "1", "1e9", "nan", "inf", "-inf", HUGE, "0x" + "f" * 300, "true", "''", "'x'", "[]", "{}"),
    *("[[]]", "[{}]", "{a=1}", "1979-05-27", "07:32:00", '"\\u001b[31m"', "'" + "x" * 2000 + "'", "[" * 90),
    *("['a','b']", "[1]", "1_000", "'*'", "'list'"),
)


def flipped(random: Random, seeds: list[bytes]) -> bytes:
    """Return a seed after one to four changes of its bytes."""
    content = bytearray(random.choice(seeds))
    for _ in range(random.randint(1, 4)):
        random.choice(CHANGES)(random, content, seeds)
    return bytes(content)


def _bits(random: Random, content: bytearray, seeds: list[bytes]) -> None:
    for _ in range(random.randint(1, 8) if content else 0):
        content[random.randrange(len(content))] = random.randrange(256)


def _word(random: Random, content: bytearray, seeds: list[bytes]) -> None:
    size = random.choice((1, 2, 4, 8))
    if len(content) >= size:
        at = random.randrange(len(content) - size + 1) // size * size
        value = random.choice(WORDS) if random.random() < 0.6 else random.randrange(4 * len(content))
        content[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def _cut(random: Random, content: bytearray, seeds: list[bytes]) -> None:
    begin = random.randrange(len(content) + 1)
    del content[begin : begin + random.choice((1, 4, 16, 64, len(content)))]


def _splice(random: Random, content: bytearray, seeds: list[bytes]) -> None:
    other = random.choice(seeds)
    begin, at = random.randrange(len(other) + 1), random.randrange(len(content) + 1)
    size = random.choice((4, 16, 64, 256))
    content[at : at + random.choice((0, size))] = other[begin : begin + size]


def _repeat(random: Random, content: bytearray, seeds: list[bytes]) -> None:
    begin = random.randrange(len(content) + 1)
    piece = content[begin : begin + random.choice((4, 16, 64))]
    content[begin:begin] = piece * random.choice((1, 2, 30, 300))


CHANGES = (_bits, _bits, _word, _word, _word, _cut, _splice, _repeat)


def changed_json(random: Random, seeds: list[bytes]) -> bytes:
    """Return a JSON seed with one to three of its values changed, or now and then its bytes."""
    if random.random() < 0.15:
        return flipped(random, seeds)
    value = json.loads(random.choice(seeds))
    try:
        for _ in range(random.randint(1, 3)):
            value = _changed_value(random, value)
        text = json.dumps(value)
    except RecursionError:  # deeper than Python itself copies
        text = "[" * 5000
    if random.random() < 0.05:
        text = re.sub(r"\d+", HUGE, text, count=1)
    return text.encode()


def _changed_value(random: Random, root: Any) -> Any:
    places = [(None, None), *_places(root)]
    within, key = random.choice(places)
    if within is None:
        return root if random.random() < 0.8 else copy.deepcopy(random.choice(VALUES))
    change, others = random.random(), [holder[k] for holder, k in places[1:]]
    if change < 0.1:
        del within[key]
    elif change < 0.2 and isinstance(within, dict):
        within[random.choice(TEXTS)] = within.pop(key)
    elif change < 0.3 and isinstance(within, list):
        within *= random.choice((0, 2, 100 if len(json.dumps(within)) < 2000 else 3))
    elif change < 0.4:
        within[key] = copy.deepcopy(random.choice(others))
    elif change < 0.45:
        within[key] = _deep(random.choice((30, 90, 900)), within[key])
    else:
        within[key] = copy.deepcopy(random.choice(VALUES))
    return root


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each container in `value` with each of its keys, at most 4000."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 4000:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        found += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    return found


def _deep(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def changed_toml(random: Random, seeds: list[bytes]) -> bytes:
    """Return a TOML seed with some of its values, keys and lines changed, or now and then its bytes."""
    if random.random() < 0.2:
        return flipped(random, seeds)
    lines = random.choice(seeds).decode().splitlines()
    for _ in range(random.randint(1, 4)):
        at, change = random.randrange(len(lines)), random.random()
        key, equals, _ = lines[at].partition("=")
        if equals and change < 0.6:
            lines[at] = f"{key}= {random.choice(LITERALS)}"
        elif change < 0.7:
            lines[at] = f"{random.choice(('x', 'a.b.c', chr(34) + 'q' + chr(34), 'name'))} = 1"
        elif change < 0.8:
            lines.insert(at, random.choice(lines))
        elif change < 0.9:
            lines[at : at + 1] = []
        else:
            lines[at] = lines[at].replace("]", "").replace("[", random.choice(("[", "[[", "")))
        lines = lines or ["x"]
    return "\n".join(lines).encode()


def changed_safetensors(random: Random, seeds: list[bytes]) -> bytes:
    """Return a .safetensors seed with another header, or now and then other bytes."""
    seed = random.choice(seeds)
    if random.random() < 0.3:
        return flipped(random, seeds)
    length = int.from_bytes(seed[:8], "little")
    header = changed_json(random, [seed[8 : 8 + length]])
    return len(header).to_bytes(8, "little") + header + seed[8 + length :]


def changed_zip(random: Random, seeds: list[bytes]) -> bytes:
    """Return a zip seed with an entry changed, its checksum right, or now and then other bytes."""
    if random.random() < 0.3:
        return flipped(random, seeds)
    with zipfile.ZipFile(io.BytesIO(random.choice(seeds))) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    name = random.choice([*entries] + [each for each in entries if each.endswith(".pkl")] * 8)
    entries[name] = flipped(random, [entries[name]])
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for each, content in entries.items():
            archive.writestr(each, content)
    return target.getvalue()


def changed_words(random: Random, seeds: list[bytes]) -> bytes:
    """Return a seed of words, apart by NUL, with some of them changed."""
    words = random.choice(seeds).decode().split("\0")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(words))
        text = random.choice(WORDS_OF_COMMANDS) if random.random() < 0.7 else random.choice(words)
        if random.random() < 0.8:
            words[at] = text
        else:
            words.insert(at, text)
    return "\0".join(words).encode("utf-8", "surrogatepass")


WORDS_OF_COMMANDS = (
    *(
        "",
        "-1",
        "0",
        "1",
        "nan",
        "inf",
        "-inf",
        "1e39",
        "1e-320",
        HUGE,
        "100000",
        "0.5",
        "x",
        "--",
        "-",
        "=",
        ",",
    ),
    *("64x64", "0x0", "99999x99999", "lcm", "tcd:eta=nan", "tcd:eta=1e400", "ddim:x=", "euler:" + "a=" * 50),
    *("15%", "nan%", "9" * 50 + "GB", "600MB", "list", "a:b:c", "f.safetensors:nan", "f.safetensors:1e999"),
    *(
        "x" * 3000,
        "\x1b[2J",
        "a\nerror: b",
        "\udcff",
        "𝒳",
        "--steps",
        "--seed",
        "--help",
        "--json",
        "--force",
    ),
)
