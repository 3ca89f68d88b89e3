"""Inputs of networks that read an image, such as an autoencoder's encoder: pictures, and not noise."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
import numpy.typing as npt

from msd.compress.calibration.inputs import Inputs
from msd.models.demo.captions import scenes
from msd.models.demo.scenes import draw
from msd.run.runtime.image import image_of
from msd.run.runtime.initial_image import InitialImage
from msd.tensor_spec import TensorSpec

IMAGE = "image"
SCENES = 3
"""The number of the demo's scenes where nothing else was generated."""

Pixels = npt.NDArray[np.uint8]


def image_port(ports: Iterable[TensorSpec]) -> TensorSpec | None:
    """Return the input of a network that reads an image alone, (batch, height, width, 3); else None."""
    first, *others = ports
    is_image = first.name == IMAGE and first.dtype == "float32" and first.shape[3:] == (3,)
    return first if is_image and not others else None


def image_inputs(port: TensorSpec, pixels: Pixels) -> Inputs:
    """Return one run's inputs: the image `pixels` (height, width, 3), the same in every row of the batch."""
    return {port.name: np.repeat(image_of(pixels), port.shape[0], 0)}


def scene_to_change(height: int, width: int, masked: bool) -> InitialImage:
    """Return a scene of the demo's at a size, for models that read an image; a mask marks its left half."""
    from PIL import Image

    picture = Image.fromarray(draw(next(iter(scenes("held-back"))), 0)).resize((width, height))
    left = np.zeros((1, height, width, 1), np.float32)
    left[:, :, : width // 2] = 1
    return InitialImage(image_of(np.asarray(picture)), left if masked else None, "a scene of the demo's")


def scene_inputs(port: TensorSpec) -> list[Inputs]:
    """Return the inputs of runs on the demo's held-back scenes, scaled to the network's size."""
    from PIL import Image

    size = port.shape[2], port.shape[1]
    drawn = (Image.fromarray(draw(scene, 0)).resize(size) for scene in islice(scenes("held-back"), SCENES))
    return [image_inputs(port, np.asarray(picture)) for picture in drawn]
