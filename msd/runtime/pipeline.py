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
from dataclasses import asdict
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

import msd
from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig
from msd.families import Component, Family
from msd.ir.weights import Array
from msd.runners.engine import Engine
from msd.runners.registry import find_backend
from msd.runners.runner import Conditions, Precision
from msd.runtime.components import LoadedNetwork, Wrap, open_component
from msd.runtime.denoiser import Denoiser
from msd.runtime.execution import Execution, NetworksInMemory
from msd.runtime.guidance import Guidance
from msd.runtime.image import GeneratedImage, pixels
from msd.runtime.noise import noise
from msd.runtime.preview import OnPreview, Preview, preview_decoder
from msd.runtime.request import Request
from msd.runtime.scheduler import name_of_kind, open_scheduler
from msd.runtime.text import Context, encode_tokens, required_files
from msd.runtime.timeline import TimelineRecorder, unwatched
from msd.runtime.tokenizer import open_tokenizer

Float = npt.NDArray[np.float32]
LARGE = 1 << 28
"""Each file of a bundle of at least this many bytes runs in a process of its own, on the CPU too."""

OnStep = Callable[[int, int, float], None]
"""Called after each step with the number of steps done, the number of all, and the seconds of this one."""

_Show = Callable[[Any, int, float, Float], None]


class Pipeline:
    """Generates images with one bundle; a context manager, which frees the networks that are resident.

    `backend` is a name or an alias (msd.runners.registry); the next three arguments are those of
    msd.runners.runner.Conditions. `scheduler` is one of msd.runtime.scheduler.SCHEDULERS, or None for the
    checkpoint's own. `execution` decides when networks are in memory, and `recorder` records it; `wrap` may
    observe the networks' runs. Raises BadBundle for a bundle without a network or a valid tokenizer,
    BadConfig for an unknown scheduler, an unknown backend or one that only measures, and, where networks are
    resident, what `generate` raises.
    """

    def __init__(
        self,
        bundle: Bundle,
        backend: str = "cpu",
        threads: int | None = None,
        precision: Precision = "fp32",
        float_weights: bool = True,
        scheduler: str | None = None,
        execution: Execution = "pipelined",
        recorder: TimelineRecorder | None = None,
        wrap: Wrap | None = None,
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
        self.engine, self._wrap = Engine(find_backend(backend), conditions), wrap
        self.tokenizer = open_tokenizer(bundle.folder / "tokenizer")
        self.scheduler = open_scheduler(bundle.folder / "scheduler", scheduler)
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
        steps: int = 20,
        guidance: float = 7.5,
        on_step: OnStep | None = None,
        latents: Float | None = None,
        on_preview: OnPreview | None = None,
    ) -> GeneratedImage:
        """Return one image. `latents` replace the initial `noise(seed, …)` and have its shape.

        With `on_preview`, the decoder is loaded when the pixels of the first preview are requested. It then
        stays in memory beside the denoiser, unless execution is sequential.

        Raises BadConfig for impossible steps or latents, BadBundle and BadModelFile for files that do not
        fit, NoDelegate and DelegateFailed where the GPU cannot be used.
        """
        request = Request(
            prompt=prompt, negative_prompt=negative_prompt, seed=seed, steps=steps, guidance=guidance
        )
        return self.generate_all([request], on_step, None if latents is None else [latents], on_preview)[0]

    def generate_all(
        self,
        requests: Sequence[Request],
        on_step: OnStep | None = None,
        latents: Sequence[Float] | None = None,
        on_preview: OnPreview | None = None,
    ) -> list[GeneratedImage]:
        """Return an image for each request; each network is loaded once for all of them."""
        for request in requests:
            self.scheduler.table(request.steps)
        with self._networks() as networks:
            contexts = encode_tokens(self.bundle, networks, [*map(self._tokens, requests)])
            denoiser = Denoiser(self.bundle, networks.take(self.family.denoiser.name))
            shape = denoiser.latent_shape
            starts = [noise(request.seed, shape) for request in requests] if latents is None else latents
            counter = _Counter(sum(r.steps for r in requests), on_step, networks, self.family.decoder.name)
            show = on_preview and partial(self._show, on_preview, networks)
            final_latents = [
                self._denoise(denoiser, request, context, _require_shape(latent, shape), counter, show)
                for request, context, latent in zip(requests, contexts, starts, strict=True)
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
            for name in required_files(self.bundle):
                networks.take(name)
        except BaseException:
            networks.close()
            raise
        return networks

    @property
    def family(self) -> Family:
        """The family of the bundle's model."""
        return self.bundle.family

    def _tokens(self, request: Request) -> Array:
        """Return the tokens of a request's prompts, int32 (rows, length): one row, or two for guidance."""
        prompts = self.guidance(request.guidance).prompts(request.prompt, request.negative_prompt)
        return np.stack([*map(self.tokenizer.encode, prompts)])

    def _denoise(
        self,
        denoiser: Denoiser,
        request: Request,
        context: Context,
        latent: Float,
        counter: _Counter,
        show: _Show | None,
    ) -> Float:
        table, clean = self.scheduler.table(request.steps), None
        guidance = self.guidance(request.guidance)
        latent = latent * np.float32(table.start)
        for i, step in enumerate(table.steps, 1):
            start = time.perf_counter()
            output = denoiser.predict(latent, step, context, guidance)
            added = noise(request.seed, latent.shape, i) if step.noise else None
            latent, clean = step.apply(latent, output, clean, added)
            seconds = time.perf_counter() - start
            if show:
                show(request, i, seconds, clean)
            counter.add(seconds)
        return latent

    def _show(
        self,
        on_preview: OnPreview,
        networks: NetworksInMemory,
        request: Request,
        number: int,
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
            total=request.steps,
            seconds=seconds,
            latents=clean,
            decode=decode,
        )
        on_preview(preview)

    def _decode(self, decoder: LoadedNetwork, latent: Float) -> Float:
        output = self.family.decoder.output
        image: Float = decoder.rows(output, {"latent": latent}).reshape(decoder.shape(output)[1:])
        return image

    def _metadata(self, request: Request) -> dict[str, Any]:
        return {
            **asdict(request),
            "guidance_mode": self.guidance(request.guidance).mode,
            "scheduler": f"{name_of_kind(self.scheduler)}, {self.scheduler.diffusion.prediction_type}",
            "model": self.bundle.model_hash,
            "backend": self.engine.backend.spelling,
            "software": f"msd {msd.__version__}",
        }


def require_prompts_suffice(bundle: Bundle) -> None:
    """Raise BadBundle for a bundle that lacks a network, BadConfig where encoders need more than a prompt."""
    for name in bundle.family.required:
        bundle.component(name)
    for encoder in bundle.family.encoders:
        if not encoder.optional:
            _require_prompt_suffices(bundle, encoder)


def _require_prompt_suffices(bundle: Bundle, encoder: Component) -> None:
    lookup = bundle.manifest.components.get(encoder.lookup or "")
    available = {"tokens", *(output.name for output in lookup.outputs)} if lookup else {"tokens"}
    for tensor in bundle.component(encoder.name).inputs:
        takes = f"{encoder.title} takes {tensor.name!r}"
        if tensor.name not in available and encoder.lookup and not lookup:
            raise BadBundle(f"{bundle.folder} has no {encoder.lookup}; its {takes}")
        if tensor.name not in available:
            raise BadConfig(f"the {takes}, and images are generated from a prompt alone ({bundle.folder})")


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
