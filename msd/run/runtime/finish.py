"""From final latents to images: decoded, enlarged where requests say, and handed to the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msd.bundle import Bundle
from msd.run.runtime.arrays import Float
from msd.run.runtime.decode import decode
from msd.run.runtime.execution import NetworksInMemory
from msd.run.runtime.image import GeneratedImage
from msd.run.runtime.request import Request
from msd.run.runtime.upscale import enlarge

OnImage = Callable[[GeneratedImage], None]
"""Called with each image once it is made."""


@dataclass(frozen=True)
class Finisher:
    """Makes the images of latents, with the networks in memory; `metadata` returns those of a request's."""

    bundle: Bundle
    networks: NetworksInMemory
    metadata: Callable[[Request], Mapping[str, Any]]
    on_image: OnImage | None

    def finish(
        self, requests: Sequence[Request], latents: Sequence[Float], are_last: bool
    ) -> list[GeneratedImage]:
        """Return the image of each request; networks stay for more images unless these `are_last`."""
        decoder = self.networks.take(self.bundle.family.decoder.name)
        decoded = [*map(partial(decode, self.bundle, decoder), requests, latents)]
        if are_last:
            self.networks.release(decoder.name)
        enlarged = enlarge(self.bundle, self.networks, requests, decoded, are_last)
        images = [
            GeneratedImage(image, latent, self.metadata(request))
            for request, image, latent in zip(requests, enlarged, latents, strict=True)
        ]
        if self.on_image:
            for image in images:
                self.on_image(image)
        return images
