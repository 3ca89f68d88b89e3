"""Which images are denoised together, and that each keeps its own rows."""

from __future__ import annotations

import numpy as np

from msd.run.runtime.ddim import Ddim
from msd.run.runtime.image_batch import ImageBatch, image_batches
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.noise import noise
from msd.run.runtime.request import Request
from msd.run.runtime.start import Start

SHAPE = (1, 2, 3, 4)


def picture(mask: bool) -> InitialImage:
    pixels = np.zeros((1, 16, 24, 3), np.float32)
    return InitialImage(pixels, np.ones((1, 16, 24, 1), np.float32) if mask else None, "an image")


def start(number: int, request: Request) -> Start:
    """A start whose parts hold the number of its image."""
    filled = np.full(SHAPE, number, np.float32)
    image = request.image
    mask = None if image is None or image.mask is None else filled[..., :1] + 200
    return Start(filled, None if image is None else filled + 100, mask)


def batches(requests: list[Request], most: int) -> list[ImageBatch]:
    tables = [Ddim().table(request.steps, request.effective_strength) for request in requests]
    contexts = [{"context": np.full((2, 5, 7), number, np.float32)} for number, _ in enumerate(requests)]
    starts = [start(number, request) for number, request in enumerate(requests)]
    return [*image_batches(requests, tables, contexts, starts, most)]


def numbers(batch: ImageBatch) -> list[int]:
    return [int(row[0, 0, 0]) for row in batch.start.noise]


def test_neighbours_alike_go_together_up_to_the_most() -> None:
    steps = [3, 3, 3, 3, 3, 5, 3]
    requests = [Request("a", seed=i, steps=count) for i, count in enumerate(steps)]
    found = batches(requests, 2)
    assert [numbers(batch) for batch in found] == [[0, 1], [2, 3], [4], [5], [6]]
    assert [len(batch.table.steps) for batch in found] == [3, 3, 3, 5, 3]
    assert [batch.values["context"][:, 0, 0].tolist() for batch in found][:2] == [[0, 0, 1, 1], [2, 2, 3, 3]]


def test_guidance_strength_and_a_mask_set_images_apart() -> None:
    plain, masked = picture(False), picture(True)
    requests = [
        Request("a", steps=9),
        Request("a", steps=9, guidance=2.0),
        Request("a", steps=9, image=plain),
        Request("b", steps=9, image=plain),
        Request("a", steps=9, image=plain, strength=0.5),
        Request("a", steps=9, image=masked, strength=0.5),
        Request("b", steps=9, image=masked, strength=0.5),
    ]
    found = batches(requests, 8)
    assert [numbers(batch) for batch in found] == [[0], [1], [2, 3], [4], [5, 6]]
    assert [batch.start.clean is None for batch in found] == [True, True, False, False, False]
    last = found[-1].start
    assert last.clean is not None
    assert last.mask is not None
    assert (last.clean[:, 0, 0, 0].tolist(), last.mask[:, 0, 0, 0].tolist()) == ([105, 106], [205, 206])
    assert (found[2].strength, found[4].strength) == (0.8, 0.5)


def test_each_image_s_noise_is_of_its_own_seed() -> None:
    (batch,) = batches([Request("a", seed=seed, steps=2) for seed in (4, 1)], 8)
    wanted = [noise(4, SHAPE, 2), noise(1, SHAPE, 2)]
    assert np.array_equal(batch.noise(2), np.concatenate(wanted))
