"""Generates images from prompts: encode the text, denoise step by step, decode.

    bundle = open_bundle("demo-out")
    image = Pipeline(bundle).generate("a red circle", seed=1)

Latent diffusion after Rombach et al. (2022, arXiv 2112.10752).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

import msd
from msd.bundle import Bundle
from msd.errors import BadConfig
from msd.families import Family, title_of
from msd.runners.backend import Backend
from msd.runners.engine import Engine
from msd.runners.registry import find_backend
from msd.runners.runner import Conditions, Precision
from msd.runtime.components import LoadedNetwork, Wrap, open_component
from msd.runtime.denoiser import Denoiser
from msd.runtime.execution import Execution, NetworksInMemory
from msd.runtime.finite import require_finite
from msd.runtime.guidance import Guidance
from msd.runtime.image import GeneratedImage, pixels
from msd.runtime.image_batch import ImageBatch, image_batches
from msd.runtime.image_encoder import encode_image
from msd.runtime.initial_image import InitialImage
from msd.runtime.needs import (
    files_in_order,
    inpaints,
    latent_shape,
    require_ids_fit,
    require_image,
    require_image_encoder,
    require_prompts_suffice,
)
from msd.runtime.noise import noise, posterior_noise
from msd.runtime.preview import OnPreview, Preview, preview_decoder
from msd.runtime.prompt import TokenizedPrompt, tokenize
from msd.runtime.prompt_syntax import PromptSyntax
from msd.runtime.request import Request
from msd.runtime.scheduler import bundle_scheduler, name_of_kind
from msd.runtime.start import Start, start_from
from msd.runtime.text import encode_prompts
from msd.runtime.timeline import TimelineRecorder, unwatched
from msd.runtime.tokenizer import open_tokenizer

Float = npt.NDArray[np.float32]
LARGE = 1 << 28
"""Each file of a bundle of at least this many bytes runs in a process of its own, on the CPU too."""

OnStep = Callable[[int, int, float], None]
"""Called after each step of each image with the number of steps done, the number of all, and the seconds of
this one; images that are denoised together share them equally."""

_Show = Callable[[Any, int, int, float, Float], None]


class Pipeline:
    """Generates images with one bundle; a context manager, which frees the networks that are resident.

    `backend` is one, or its name or alias (msd.runners.registry); the next three arguments are those of
    msd.runners.runner.Conditions. `scheduler` is one of msd.runtime.scheduler.SCHEDULERS, or None for the
    checkpoint's own. `execution` decides when networks are in memory, and `recorder` records it; `wrap` may
    observe the networks' runs. Up to `together` images are denoised at once, in as few runs as the denoiser's
    batch allows. Raises BadBundle for a bundle without a network or a valid tokenizer, BadConfig for an
    unknown scheduler, an unknown backend or one that only measures, and, where networks are resident, what
    `generate` raises.
    """

    def __init__(
        self,
        bundle: Bundle,
        backend: str | Backend = "cpu",
        threads: int | None = None,
        precision: Precision = "fp32",
        float_weights: bool = True,
        scheduler: str | None = None,
        execution: Execution = "pipelined",
        recorder: TimelineRecorder | None = None,
        wrap: Wrap | None = None,
        together: int = 1,
    ) -> None:
        require_prompts_suffice(bundle)
        self.bundle = bundle
        large = sum(part.bytes for part in bundle.manifest.components.values()) >= LARGE
        conditions = Conditions(
            threads=threads,
            float_weights=float_weights,
            precision=precision,
            isolation="mapped" if large else "none",
        )
        found = find_backend(backend) if isinstance(backend, str) else backend
        self.engine, self._wrap = Engine(found, conditions), wrap
        self.tokenizer = open_tokenizer(bundle.folder / "tokenizer")
        require_ids_fit(bundle, self.tokenizer.vocabulary.values())
        self.scheduler = bundle_scheduler(bundle, scheduler)
        self._together = together
        self.execution, self._watch = execution, recorder.watch if recorder else unwatched
        self._resident = self._load_all() if execution == "resident" else None

    def close(self) -> None:
        """Free the networks that are resident; the pipeline cannot generate images afterwards."""
        if self._resident:
            self._resident.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def generate(
        self,
        prompt: str,
        *,
        negative_prompt: str = "",
        seed: int = 0,
        steps: int | None = None,
        guidance: float | None = None,
        prompt_syntax: PromptSyntax = "plain",
        image: InitialImage | None = None,
        strength: float | None = None,
        on_step: OnStep | None = None,
        latents: Float | None = None,
        on_preview: OnPreview | None = None,
    ) -> GeneratedImage:
        """Return one image; the arguments up to `strength` are those of `Request`.

        `latents` replace the initial `noise(seed, …)` and have its shape.

        Without `steps` or `guidance`, those of the bundle's manifest are used.

        With `on_preview`, the decoder is loaded when the pixels of the first preview are requested. It then
        stays in memory beside the denoiser, unless execution is sequential.

        Raises BadConfig for impossible steps, latents or weights in prompts, BadBundle and BadModelFile
        for files that do not fit, NotFinite, with the step and the network, where a result is NaN or
        infinite, NoDelegate and DelegateFailed where the GPU cannot be used.
        """
        defaults = self.bundle.manifest.images.unless(steps, guidance)
        request = Request(
            prompt=prompt,
            negative_prompt=negative_prompt,
            seed=seed,
            steps=defaults.steps,
            guidance=defaults.guidance,
            prompt_syntax=prompt_syntax,
            image=image,
            strength=strength,
        )
        return self.generate_all([request], on_step, None if latents is None else [latents], on_preview)[0]

    def generate_all(
        self,
        requests: Sequence[Request],
        on_step: OnStep | None = None,
        latents: Sequence[Float] | None = None,
        on_preview: OnPreview | None = None,
    ) -> list[GeneratedImage]:
        """Return an image for each request; each network is loaded once for all of them.

        Up to `together` neighbours of equal steps, guidance and strength are denoised together.
        """
        tables = [self.scheduler.table(r.steps, r.effective_strength) for r in requests]
        for request in requests:
            require_image(self.bundle, request)
        prompts = [*map(self.prompts, requests)]
        with self._networks() as networks:
            contexts = encode_prompts(self.bundle, networks, prompts, self._files_for(requests))
            starts = self._starts(networks, requests, latents)
            denoiser = Denoiser(self.bundle, networks.take(self.family.denoiser.name))
            counter = _Counter(
                sum(len(table.steps) for table in tables), on_step, networks, self.family.decoder.name
            )
            show = on_preview and partial(self._show, on_preview, networks)
            batches = image_batches(requests, tables, contexts, starts, self._together)
            final_latents = [
                latent for batch in batches for latent in self._denoise(denoiser, batch, counter, show)
            ]
            networks.release(self.family.denoiser.name)
            decoder = networks.take(self.family.decoder.name)
            images = [self._decode(decoder, latent) for latent in final_latents]
            networks.release(decoder.name)
        return [
            GeneratedImage(pixels(image), latent, self._metadata(request))
            for request, image, latent in zip(requests, images, final_latents, strict=True)
        ]

    def guidance(self, scale: float) -> Guidance:
        """Return the guidance of an image with this `scale`; the denoiser's file decides its mode."""
        return Guidance.of(self.bundle.component(self.family.denoiser.name), scale)

    def prompts(self, request: Request) -> list[TokenizedPrompt]:
        """Return the prompts of a request as they are read: one, or for guidance the negative one first."""
        texts = self.guidance(request.guidance).prompts(request.prompt, request.negative_prompt)
        chunks = self.bundle.manifest.configuration.prompt_chunks
        return [tokenize(self.tokenizer, text, request.prompt_syntax, chunks) for text in texts]

    def _open(self, name: str, stop: Event) -> AbstractContextManager[LoadedNetwork]:
        return open_component(self.bundle, name, self.engine.until(stop), self._watch, self._wrap)

    @contextmanager
    def _networks(self) -> Iterator[NetworksInMemory]:
        """Yield the networks of one call: the resident ones, or else ones that are freed at its end."""
        if self._resident:
            yield self._resident
        else:
            with self._no_networks() as networks:
                yield networks

    def _no_networks(self) -> NetworksInMemory:
        sizes = {name: part.bytes for name, part in self.bundle.manifest.components.items()}
        return NetworksInMemory(self._open, sizes, self.execution, self._watch)

    def _load_all(self) -> NetworksInMemory:
        networks = self._no_networks()
        try:
            for name in files_in_order(self.bundle):
                networks.take(name)
        except BaseException:
            networks.close()
            raise
        return networks

    @property
    def family(self) -> Family:
        """The family of the bundle's model."""
        return self.bundle.family

    def _files_for(self, requests: Sequence[Request]) -> list[str]:
        """Return the files that the requests need, in the order in which they run."""
        return files_in_order(self.bundle, any(request.image is not None for request in requests))

    def _starts(
        self, networks: NetworksInMemory, requests: Sequence[Request], latents: Sequence[Float] | None
    ) -> list[Start]:
        """Return the start of each image; encodes initial images, and releases the network that does."""
        shape = latent_shape(self.bundle)
        if latents is None:
            latents = [noise(request.seed, shape) for request in requests]
        noises = [_require_shape(latent, shape) for latent in latents]
        if all(request.image is None for request in requests):
            return [Start(each) for each in noises]
        encoder = networks.take(require_image_encoder(self.bundle))
        networks.prefetch(self.family.denoiser.name)
        starts = [self._start(encoder, request, each) for request, each in zip(requests, noises, strict=True)]
        networks.release(encoder.name)
        return starts

    def _start(self, encoder: LoadedNetwork, request: Request, initial_noise: Float) -> Start:
        def encode(image: Float, stream: int) -> Float:
            settings = self.bundle.manifest.configuration.components[encoder.name]
            random = posterior_noise(request.seed, initial_noise.shape, stream)
            return require_finite(
                encode_image(encoder, settings, image, random), f"the output of the {title_of(encoder.name)}"
            )

        return start_from(request, initial_noise, encode, inpaints(self.bundle))

    def _denoise(
        self, denoiser: Denoiser, batch: ImageBatch, counter: _Counter, show: _Show | None
    ) -> list[Float]:
        """Return the final latents of each image of a batch, (1, …) each."""
        memory, guidance, count = None, self.guidance(batch.guidance), len(batch.requests)
        table, start = batch.table, batch.start
        latent = start.latent(table, batch.strength)
        for i, step in enumerate(table.steps, 1):
            begin = time.perf_counter()
            output = denoiser.predict(latent, step, batch.context, guidance, start.condition)
            place = f"step {i} of {len(table.steps)}"
            require_finite(output, f"the output of the {self.family.denoiser.title} in {place}")
            latent, memory = step.apply(latent, output, memory, batch.noise(i) if step.noise else None)
            latent = require_finite(start.keep(latent, table, i), f"the latents after {place}")
            seconds = (time.perf_counter() - begin) / count
            for request, one in zip(batch.requests, np.split(memory.clean, count), strict=True):
                if show:
                    show(request, i, len(table.steps), seconds, one)
                counter.add(seconds)
        return np.split(latent, count)

    def _show(
        self,
        on_preview: OnPreview,
        networks: NetworksInMemory,
        request: Request,
        number: int,
        total: int,
        seconds: float,
        clean: Float,
    ) -> None:
        def decode(latents: Float) -> Float:
            decoder = networks.take(preview_decoder(self.bundle))
            image = self._decode(decoder, latents)
            if networks.execution == "sequential":
                networks.release(decoder.name)
            return image

        preview = Preview(
            seed=request.seed,
            number=number,
            total=total,
            seconds=seconds,
            latents=clean,
            decode=decode,
        )
        on_preview(preview)

    def _decode(self, decoder: LoadedNetwork, latent: Float) -> Float:
        output = self.family.decoder.output
        image: Float = decoder.rows(output, {"latent": latent}).reshape(decoder.shape(output)[1:])
        return require_finite(image, f"the image of the {title_of(decoder.name)}")

    def _metadata(self, request: Request) -> dict[str, Any]:
        return {
            **request.metadata(),
            "guidance_mode": self.guidance(request.guidance).mode,
            "scheduler": f"{name_of_kind(self.scheduler)}, {self.scheduler.diffusion.prediction_type}",
            "model": self.bundle.model_hash,
            "backend": self.engine.backend.spelling,
            "software": f"msd {msd.__version__}",
        }


def _require_shape(latent: Float, shape: tuple[int, ...]) -> Float:
    if latent.shape != shape:
        raise BadConfig(f"latents of shape {latent.shape} do not fit this model, which takes {shape}")
    return latent.astype(np.float32)


class _Counter:
    """Counts and reports the steps of all images, and has the decoder loaded in time for the last one."""

    def __init__(self, total: int, on_step: OnStep | None, networks: NetworksInMemory, decoder: str) -> None:
        self._done, self._total, self._on_step = 0, total, on_step
        self._networks, self._decoder = networks, decoder
        networks.prefetch_in_time(decoder, total, math.inf)

    def add(self, seconds: float) -> None:
        self._done += 1
        self._networks.prefetch_in_time(self._decoder, self._total - self._done, seconds)
        if self._on_step:
            self._on_step(self._done, self._total, seconds)
