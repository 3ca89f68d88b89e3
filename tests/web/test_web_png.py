"""PNG files that the page writes, read by Pillow, and those of `msd generate`, read by the page."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from msd.run.runtime.image import GeneratedImage, save_image
from tests.web.arrays import OPENING, sent
from tests.web.node import evaluate

METADATA = {
    "prompt": 'straße 日本 "quoted"\n🦊 e\u0301\x00\x7f',
    "negative_prompt": "",
    "seed": 3,
    "guidance": 7.5,
    "Löwe": "é",
    "long": "x" * 70_000,
}
ENCODE = (
    OPENING
    + """
import { encodePng, readPngTexts } from './msd/png.js';
const made = await Promise.all(input.map(async ([rgba, width, height, texts]) => {
  const blob = await encodePng(bytes(rgba), width, height, texts);
  const buffer = await blob.arrayBuffer();
  return [blob.type, sent(new Uint8Array(buffer)), readPngTexts(buffer)];
}));
console.log(JSON.stringify(made));
"""
)
READ = (
    OPENING
    + """
import { readPngTexts } from './msd/png.js';
console.log(JSON.stringify(input.map((file) => {
  try {
    return readPngTexts(bytes(file).buffer);
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  }
})));
"""
)


def written(*cases: tuple[np.ndarray, dict[str, Any]]) -> list[tuple[bytes, dict[str, str]]]:
    """Return the page's files of images (height, width, 4), and the texts that it reads back."""
    asked = [[sent(rgba), rgba.shape[1], rgba.shape[0], texts] for rgba, texts in cases]
    found = evaluate(ENCODE, *asked)
    assert {kind for kind, _, _ in found} == {"image/png"}
    return [(base64.b64decode(file), texts) for _, file, texts in found]


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return smooth colours with noise over them: each neighbour predicts a pixel best somewhere."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    waves = [np.sin(rows / 3 + c) * 60 + np.cos(columns / 5 - c) * 60 + 128 for c in range(4)]
    return (np.stack(waves, -1) + random.integers(-9, 9, (height, width, 4))).clip(0, 255).astype(np.uint8)


def test_pillow_reads_the_pixels_and_the_texts() -> None:
    sizes = [(1, 1), (1, 9), (9, 1), (5, 7), (64, 48), (301, 203)]
    cases = [(picture(*size), METADATA) for size in sizes]
    wanted = {key: str(value) for key, value in METADATA.items()}
    for (rgba, _), (file, read) in zip(cases, written(*cases), strict=True):
        with Image.open(io.BytesIO(file)) as image:
            image.load()
            assert (image.format, image.mode) == ("PNG", "RGB")
            assert np.array_equal(np.asarray(image), rgba[..., :3])
            assert image.info == wanted
        assert read == wanted


def test_a_file_is_no_larger_than_pillow_s_by_half() -> None:
    rgba = picture(256, 256)
    ((file, _),) = written((rgba, {}))
    stream = io.BytesIO()
    Image.fromarray(rgba[..., :3]).save(stream, "PNG")
    assert len(file) < 1.5 * len(stream.getvalue())


def test_every_chunk_has_its_checksum() -> None:
    """Pillow checks those of the chunks that are needed; this one reads them all."""
    ((file, _),) = written((picture(5, 7), METADATA))
    with PngImagePlugin.PngStream(io.BytesIO(file[8:])) as stream:
        seen = []
        while stream.fp.tell() < len(file) - 8:
            kind, at, length = stream.read()
            stream.crc(kind, stream.fp.read(length))
            seen.append(kind)
            assert at
    assert seen == [b"IHDR", *[b"iTXt"] * len(METADATA), b"IDAT", b"IEND"]


def test_half_of_a_pair_of_surrogates_is_spelled_out_as_the_runtime_s(tmp_path: Path) -> None:
    texts = {"prompt": "cut \ud83d here", "other": "\udfff"}
    ((_, read),) = written((picture(2, 2), texts))
    image = GeneratedImage(picture(2, 2)[..., :3].copy(), np.zeros((1, 1, 1, 4), np.float32), texts)
    save_image(image, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as ours:
        assert read == ours.info == {"prompt": "cut \\ud83d here", "other": "\\udfff"}


KEYS = st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), min_size=1, max_size=79
)


@settings(max_examples=5)
@given(st.lists(st.dictionaries(KEYS, st.text(), max_size=5), min_size=20, max_size=20))
def test_any_texts_come_back(texts: list[dict[str, str]]) -> None:
    for said, (file, read) in zip(texts, written(*[(picture(2, 3), one) for one in texts]), strict=True):
        with Image.open(io.BytesIO(file)) as image:
            assert image.info == read == said


def test_texts_of_msd_generate_and_of_other_programs_are_read(tmp_path: Path) -> None:
    """What is compressed is left out: msd writes nothing so."""
    image = GeneratedImage(picture(3, 4)[..., :3].copy(), np.zeros((1, 1, 1, 4), np.float32), METADATA)
    save_image(image, tmp_path / "a.png")
    chunks = PngImagePlugin.PngInfo()
    chunks.add_text("plain", "caf\xe9")
    chunks.add_text("small", "x" * 99, zip=True)
    chunks.add_itxt("both", "日本", "de", "beide")
    chunks.add_itxt("squeezed", "日本", zip=True)
    Image.fromarray(picture(3, 4)).save(tmp_path / "b.png", pnginfo=chunks)
    files = [np.frombuffer((tmp_path / name).read_bytes(), np.uint8) for name in ("a.png", "b.png")]
    ours, others = evaluate(READ, *map(sent, files))
    assert ours == {key: str(value) for key, value in METADATA.items()}
    assert others == {"plain": "caf\xe9", "both": "日本"}


@pytest.mark.parametrize("length", [0, 7, 8, 20, 60, -1])
def test_files_that_are_none_or_cut_are_refused(length: int) -> None:
    ((file, _),) = written((picture(5, 7), METADATA))
    (said,) = evaluate(READ, sent(np.frombuffer(file[:length], np.uint8)))
    begins = not 0 <= length < 8
    assert said == f"bad-request: the {'PNG file is cut' if begins else 'file is no PNG'}"
