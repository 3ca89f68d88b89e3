"""Generates images from prompts: encode the text, denoise step by step, decode.

    bundle = open_bundle("demo-out")
    image = Pipeline(bundle).generate("a red circle", seed=1)

Latent diffusion after Rombach et al. (2022, arXiv 2112.10752).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any

import numpy as np

import msd
from msd.bundle import Bundle
from msd.gpu.gpu_api import GpuApi
from msd.models.families import Family
from msd.run.runners.backend import Backend
from msd.run.runners.engine import Engine
from msd.run.runners.processes import Processes
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions, Precision
from msd.run.runtime.arrays import Float, Pixels
from msd.run.runtime.components import LoadedNetwork, Wrap, open_component
from msd.run.runtime.control import Control, idle_controls
from msd.run.runtime.decode import decode
from msd.run.runtime.denoiser import Denoiser
from msd.run.runtime.execution import Execution, NetworksInMemory
from msd.run.runtime.finish import Finisher, OnImage
from msd.run.runtime.finite import require_finite
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.image import GeneratedImage
from msd.run.runtime.image_batch import ImageBatch, image_batches
from msd.run.runtime.image_encoder import encode_images
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.needs import (
    files_in_order,
    latent_shape,
    require_generates,
    require_ids_fit,
    require_possible,
    require_shape,
    strength_of,
    takes_mask,
)
from msd.run.runtime.noise import noise
from msd.run.runtime.preview import OnPreview, Preview, preview_decoder
from msd.run.runtime.prompt import TokenizedPrompt, tokenize
from msd.run.runtime.prompt_syntax import PromptSyntax
from msd.run.runtime.remarks import request_remarks
from msd.run.runtime.request import Request
from msd.run.runtime.scheduler import bundle_scheduler, faults_of, name_of_kind
from msd.run.runtime.start import Start, start_from
from msd.run.runtime.step_counter import OnStep, StepCounter
from msd.run.runtime.text import Prompt, encode_prompts
from msd.run.runtime.timeline import TimelineRecorder, unwatched
from msd.run.runtime.tokenizer import open_tokenizer

LARGE = 1 << 28
"""Each file of a bundle of at least this many bytes runs in a process of its own, on the CPU too."""

_Show = Callable[[Any, int, int, float, Float], None]


class Pipeline:
    """Generates images with one bundle; a context manager, which frees the networks that are resident.

    `backend` is one, or its name or alias (msd.run.runners.registry); the next three arguments and the last
    two are those of msd.run.runners.runner.Conditions. `scheduler` is one of
    msd.run.runtime.scheduler.SCHEDULERS, or None for the checkpoint's own. `execution` decides when networks
    are in memory, and `recorder` records it; `wrap` may observe the networks' runs. Up to `together` images
    are denoised at once, in as few runs as the denoiser's batch allows. Raises BadBundle for a bundle without
    a network or a valid tokenizer, BadConfig for an unknown scheduler, an unknown backend or one that only
    measures, and, where networks are resident, what `generate` raises.
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
        gpu_api: GpuApi | None = None,
        processes: Processes | None = None,
    ) -> None:
        require_generates(bundle)
        self.bundle = bundle
        large = sum(part.bytes for part in bundle.manifest.components.values()) >= LARGE
        conditions = Conditions(
            threads=threads,
            float_weights=float_weights,
            precision=precision,
            gpu_api=gpu_api,
            isolation="mapped" if large else "none",
            processes=processes,
        )
        found = find_backend(backend, generating=True) if isinstance(backend, str) else backend
        self.engine, self._wrap = Engine(found, conditions), wrap
        self._tokenizers = {name: open_tokenizer(bundle.folder / name) for name in bundle.wiring.tokenizers}
        self.tokenizer = next(iter(self._tokenizers.values()))
        require_ids_fit(bundle, self.tokenizer.vocabulary.values())
        self.scheduler = bundle_scheduler(bundle, scheduler)
        self._together = together
        self._fallbacks: dict[str, None] = {}
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
        paste: bool = True,
        upscale: int | None = None,
        image_guidance: float | None = None,
        on_step: OnStep | None = None,
        latents: Float | None = None,
        on_preview: OnPreview | None = None,
        controls: Sequence[Control] = (),
        guess: bool = False,
    ) -> GeneratedImage:
        """Return one image; the arguments up to `image_guidance`, `controls` and `guess` are `Request`'s.

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
            paste=paste,
            controls=tuple(controls),
            guess=guess,
            upscale=upscale,
            image_guidance=image_guidance,
        )
        return self.generate_all([request], on_step, None if latents is None else [latents], on_preview)[0]

    def generate_all(
        self,
        requests: Sequence[Request],
        on_step: OnStep | None = None,
        latents: Sequence[Float] | None = None,
        on_preview: OnPreview | None = None,
        on_image: OnImage | None = None,
    ) -> list[GeneratedImage]:
        """Return an image for each request; each network is loaded once for all of them.

        Up to `together` neighbours of equal steps, guidance and strength are denoised together. `on_image` is
        called with each image once it is made: the decoder then stays beside the denoiser, unless execution
        is sequential, which denoises all images before it decodes the first.
        """
        require_possible(self.bundle, requests)
        tables = [self.scheduler.table(r.steps, strength_of(self.bundle, r)) for r in requests]
        prompts = [*map(self._tokenized, requests)]
        with self._networks() as networks:
            values = encode_prompts(self.bundle, networks, prompts, self._files_for(requests))
            starts, further = self._begin(networks, requests, latents)
            values = [{**own, **more} for own, more in zip(values, further, strict=True)]
            steered = _controls(requests)
            steps = dict.fromkeys(call.component for call in self.bundle.wiring.steps_with(steered))
            denoiser = Denoiser(self.bundle, {name: networks.take(name) for name in steps})
            batches = [*image_batches(requests, tables, values, starts, self._together)]
            parts = [[each] for each in batches] if on_image and self.execution != "sequential" else [batches]
            runs = [sum(len(batch.requests) * len(batch.table.steps) for batch in part) for part in parts]
            counter = StepCounter(sum(runs), on_step, networks, self.family.decoder.name, runs[0])
            show = on_preview and partial(self._show, on_preview, networks)
            finisher = Finisher(self.bundle, networks, self._metadata, on_image)
            images: list[GeneratedImage] = []
            for part in parts:
                latents = [each for batch in part for each in self._denoise(denoiser, batch, counter, show)]
                if are_last := part is parts[-1]:
                    for name in steps:
                        networks.release(name)
                asked = [request for batch in part for request in batch.requests]
                images += finisher.finish(asked, latents, are_last)
        return images

    def guidance(self, request: Request) -> Guidance:
        """Return the guidance of an image; the denoiser's file decides its mode."""
        return Guidance.of(self.bundle, request.guidance, request.image_guidance)

    def prompts(self, request: Request) -> list[TokenizedPrompt]:
        """Return the prompts of a request as they are read: one, or for guidance the negative one first.

        Where there are several tokenizers, the first reads them.
        """
        return [next(iter(prompt.values())) for prompt in self._tokenized(request)]

    def _tokenized(self, request: Request) -> list[Prompt]:
        texts = self.guidance(request).prompts(request.prompt, request.negative_prompt)
        chunks, last = self.bundle.manifest.configuration.prompt_chunks, len(texts) - 1
        return [
            {
                name: tokenize(tokenizer, text, request.prompt_syntax, chunks, absent=i < last and not text)
                for name, tokenizer in self._tokenizers.items()
            }
            for i, text in enumerate(texts)
        ]

    def remarks(self, request: Request) -> tuple[str, ...]:
        """Return a scheduler's fault, and what is not used of a request or of conditions, a sentence each.

        That a GPU lacks fp16, and what opening a network tells, is known once a network has been opened.
        """
        files = {
            self.bundle.path(name): file.runs_on for name, file in self.bundle.manifest.components.items()
        }
        guidance = self.guidance(request)
        own = request_remarks(request, guidance, self.tokenizer, self.prompts(request))
        idle = idle_controls(request.controls, self._runs(request)) if request.controls else ()
        faults = faults_of(name_of_kind(self.scheduler), self.scheduler.diffusion.prediction_type)
        conditions = *self.engine.unused(files.values()), *self.engine.idle(files)
        return *faults, *own, *idle, *conditions, *self._fallbacks

    def _runs(self, request: Request) -> int:
        return len(self.scheduler.table(request.steps, strength_of(self.bundle, request)).steps)

    def _open(self, name: str, stop: Event) -> AbstractContextManager[LoadedNetwork]:
        engine, note = self.engine.until(stop), self._fallbacks.setdefault
        return open_component(self.bundle, name, engine, self._watch, self._wrap, note)

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
            networks.take_all(files_in_order(self.bundle, controls=self.bundle.wiring.controls))
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
        image = any(request.image is not None for request in requests)
        return files_in_order(self.bundle, image, _controls(requests))

    def _begin(
        self, networks: NetworksInMemory, requests: Sequence[Request], latents: Sequence[Float] | None
    ) -> tuple[list[Start], list[dict[str, Float]]]:
        """Return the start of each image, and the values that steps need of images that are given."""
        shape, blends = latent_shape(self.bundle), not takes_mask(self.bundle)
        if latents is None:
            latents = [noise(request.seed, shape) for request in requests]
        noises = [require_shape(latent, shape) for latent in latents]
        found = encode_images(self.bundle, networks, requests)
        initial = self.bundle.wiring.initial
        clean = initial.outputs[0].value if initial else ""
        starts = [
            start_from(request.image, each, values.get(clean), blends)
            for request, each, values in zip(requests, noises, found, strict=True)
        ]
        guidances, edited = map(self.guidance, requests), self.bundle.wiring.edited
        further = [
            {name: each.of_image(value, name in edited) for name, value in values.items() if name != clean}
            for each, values in zip(guidances, found, strict=True)
        ]
        return starts, further

    def _denoise(
        self, denoiser: Denoiser, batch: ImageBatch, counter: StepCounter, show: _Show | None
    ) -> list[Float]:
        """Return the final latents of each image of a batch, (1, …) each."""
        memory, guidance, count = None, self.guidance(batch.requests[0]), len(batch.requests)
        table, start, values, pixels = batch.table, batch.start, batch.values, batch.pixels
        controls, runs = batch.controls, len(batch.table.steps)
        latent = start.latent(table, batch.strength)
        for i, step in enumerate(table.steps, 1):
            begin = time.perf_counter()
            output = denoiser.predict(latent, step, values, guidance, pixels, controls.at(i - 1, runs))
            place = f"step {i} of {len(table.steps)}"
            require_finite(output, f"the output of the {self.family.denoiser.title} in {place}")
            latent, memory = step.apply(latent, output, memory, batch.noise(i) if step.takes_noise else None)
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
        def decoded(latents: Float) -> Pixels:
            decoder = networks.take(preview_decoder(self.bundle))
            image = decode(self.bundle, decoder, request, latents)
            if networks.execution == "sequential":
                networks.release(decoder.name)
            return image

        preview = Preview(
            seed=request.seed,
            number=number,
            total=total,
            seconds=seconds,
            latents=clean,
            decode=decoded,
        )
        on_preview(preview)

    def _metadata(self, request: Request) -> dict[str, Any]:
        written = request.metadata()
        if strength_of(self.bundle, request) is None:
            written.pop("strength", None)
        remarks = self.remarks(request)
        return {
            **written,
            "guidance_mode": self.guidance(request).mode,
            "scheduler": f"{name_of_kind(self.scheduler)}, {self.scheduler.diffusion.prediction_type}",
            "model": self.bundle.model_hash,
            "backend": self.engine.backend.spelling,
            "software": f"msd {msd.__version__}",
            **({"remarks": list(remarks)} if remarks else {}),
        }


def _controls(requests: Sequence[Request]) -> set[str]:
    """Return the names of the ControlNets that steer any of the images."""
    return {control.name for request in requests for control in request.controls}
