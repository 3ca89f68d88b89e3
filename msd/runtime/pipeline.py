"""From words to a picture: encode, denoise step by step, decode.

    bundle = open_bundle("demo-out")
    picture = Pipeline(bundle).generate("a red circle", seed=1)

Latent diffusion after Rombach et al. (2022, arXiv 2112.10752).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

import msd
from msd.bundle import COMPONENTS, FILES, LOOKUP, Bundle
from msd.errors import BadConfig
from msd.ir.weights import Array
from msd.runners.worker import Precision
from msd.runtime.components import Backend, Engine, Network, open_component
from msd.runtime.execution import Execution, Networks
from msd.runtime.guidance import EMBEDDING, Guidance
from msd.runtime.picture import Picture, pixels
from msd.runtime.preview import OnPreview, Preview
from msd.runtime.scheduler import name_of_kind, open_scheduler
from msd.runtime.step import Step
from msd.runtime.timeline import TimelineRecorder, unwatched
from msd.runtime.timestep import embed_timestep
from msd.runtime.tokenizer import open_tokenizer

Float = npt.NDArray[np.float32]
LARGE = 1 << 28
"""Bytes of a bundle's files from which on each of them runs in a process of its own, on the CPU too."""

OnStep = Callable[[int, int, float], None]
"""Told, after each step: how many are done, how many there are in all, and the seconds this one took."""

_Show = Callable[[Any, int, float, Float], None]


@dataclass(frozen=True)
class Request:
    """One picture to draw. The negative prompt is used where guidance has a pass for it (`Guidance.of`)."""

    prompt: str
    negative_prompt: str = ""
    seed: int = 0
    steps: int = 20
    guidance: float = 7.5


class Pipeline:
    """Draws the pictures of one bundle; a context manager, which matters where its networks are resident.

    The next four arguments are those of `Engine`. `scheduler` is one of msd.runtime.scheduler.SCHEDULERS, or
    None for the checkpoint's own. `execution` says when networks are in memory, `recorder` records it. Raises
    BadBundle for a bundle that lacks a network or whose tokenizer is no good, BadConfig for a scheduler that
    is none of ours, and what `generate` raises for networks that are resident.
    """

    def __init__(
        self,
        bundle: Bundle,
        backend: Backend = "cpu",
        threads: int | None = None,
        precision: Precision = "fp32",
        float_weights: bool = True,
        scheduler: str | None = None,
        execution: Execution = "pipelined",
        recorder: TimelineRecorder | None = None,
    ) -> None:
        for name in COMPONENTS:
            bundle.component(name)
        self.bundle = bundle
        apart = sum(part.bytes for part in bundle.manifest.components.values()) >= LARGE
        self.engine = Engine(backend, threads, precision, float_weights, apart=apart)
        self.tokenizer = open_tokenizer(bundle.folder / "tokenizer")
        self.scheduler = open_scheduler(bundle.folder / "scheduler", scheduler)
        self.execution, self._watch = execution, recorder.watch if recorder else unwatched
        self._resident = self._load_all() if execution == "resident" else None

    def close(self) -> None:
        """Free the networks that are resident; nothing can be drawn with them after it."""
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
    ) -> Picture:
        """Return one picture. `latents`: what to start from instead of `noise(seed, …)`, of the same shape.

        `on_preview`: the decoder is loaded when the first preview's pixels are asked for. It then stays
        beside the U-Net, unless execution is sequential.

        Raises BadConfig for impossible steps or latents, BadBundle and BadModelFile for files that do not
        fit, NoDelegate and DelegateFailed where the GPU cannot be used.
        """
        request = Request(
            prompt=prompt, negative_prompt=negative_prompt, seed=seed, steps=steps, guidance=guidance
        )
        return self.draw([request], on_step, None if latents is None else [latents], on_preview)[0]

    def draw(
        self,
        requests: Sequence[Request],
        on_step: OnStep | None = None,
        latents: Sequence[Float] | None = None,
        on_preview: OnPreview | None = None,
    ) -> list[Picture]:
        """Return a picture for each request, each network loaded once for all of them."""
        for request in requests:
            self.scheduler.table(request.steps)
        with self._networks() as networks:
            contexts = self._encode(networks, requests)
            unet = networks.take("unet")
            shape = (1, *unet.shape("latent")[1:])
            started = [noise(request.seed, shape) for request in requests] if latents is None else latents
            told = _Counter(sum(request.steps for request in requests), on_step, networks)
            show = on_preview and partial(self._show, on_preview, networks)
            ended = [
                self._denoise(unet, request, context, _checked(latent, shape), told, show)
                for request, context, latent in zip(requests, contexts, started, strict=True)
            ]
            networks.release("unet")
            decoder = networks.take("vae_decoder")
            images = [self._decode(decoder, latent) for latent in ended]
            networks.release("vae_decoder")
        return [
            Picture(pixels(image), latent, self._metadata(request))
            for request, image, latent in zip(requests, images, ended, strict=True)
        ]

    def guidance(self, scale: float) -> Guidance:
        """Return how a picture with guidance of `scale` is drawn: the U-Net's file decides."""
        return Guidance.of(self.bundle.component("unet"), scale)

    def _open(self, name: str, stop: Event) -> AbstractContextManager[Network]:
        return open_component(self.bundle, name, replace(self.engine, stop=stop), self._watch)

    @contextmanager
    def _networks(self) -> Iterator[Networks]:
        """Give the networks of one call: those that are resident, else some that are freed at its end."""
        if self._resident:
            yield self._resident
        else:
            with self._no_networks() as networks:
                yield networks

    def _no_networks(self) -> Networks:
        sizes = {name: part.bytes for name, part in self.bundle.manifest.components.items()}
        return Networks(self._open, sizes, self.execution, self._watch)

    def _load_all(self) -> Networks:
        networks = self._no_networks()
        try:
            for name in filter(self.bundle.manifest.components.__contains__, FILES):
                networks.take(name)
        except BaseException:
            networks.close()
            raise
        return networks

    def _encode(self, networks: Networks, requests: Sequence[Request]) -> list[Float]:
        """Return the context of each request; first their tokens' rows, where a file of its own has them."""
        name = "tokens"
        texts = [self.guidance(r.guidance).prompts(r.prompt, r.negative_prompt) for r in requests]
        values: list[Array] = [np.stack([*map(self.tokenizer.encode, each)]) for each in texts]
        for component, output in ((LOOKUP, LOOKUP), ("text_encoder", "context")):
            if component in self.bundle.manifest.components:
                network = networks.take(component)
                networks.prefetch(FILES[FILES.index(component) + 1])
                values = [network.rows(output, {name: value}) for value in values]
                networks.release(component)
                name = output
        return values

    def _denoise(
        self,
        unet: Network,
        request: Request,
        context: Float,
        latent: Float,
        told: _Counter,
        show: _Show | None,
    ) -> Float:
        table, clean = self.scheduler.table(request.steps), None
        guidance = self.guidance(request.guidance)
        latent = latent * np.float32(table.start)
        for i, step in enumerate(table.steps, 1):
            begun = time.perf_counter()
            output = self._predict(unet, latent, step, context, guidance)
            added = noise(request.seed, latent.shape, i) if step.noise else None
            latent, clean = step.apply(latent, output, clean, added)
            seconds = time.perf_counter() - begun
            if show:
                show(request, i, seconds, clean)
            told.add(seconds)
        return latent

    def _show(
        self,
        on_preview: OnPreview,
        networks: Networks,
        request: Request,
        number: int,
        seconds: float,
        clean: Float,
    ) -> None:
        def decode(latents: Float) -> Float:
            image = self._decode(networks.take("vae_decoder"), latents)
            if networks.execution == "sequential":
                networks.release("vae_decoder")
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

    def _predict(self, unet: Network, latent: Float, step: Step, context: Float, guidance: Guidance) -> Float:
        """Return the U-Net's output for one step, guided."""
        scaled = np.float32(step.scale) * latent
        inputs = {"latent": np.repeat(scaled, guidance.rows, 0), "context": context}
        shared = self._time(unet, step.timestep)
        if guidance.mode == "embedding":
            shared[EMBEDDING] = guidance.embedding(unet.shape(EMBEDDING)[-1])
        outputs: Float = unet.rows("noise", inputs, shared).reshape(-1, *latent.shape[1:])
        return guidance.combine(outputs)

    def _time(self, unet: Network, timestep: float) -> dict[str, Float]:
        """Return the timestep as this U-Net takes it: a number, or the sinusoids made of it."""
        if not unet.takes("timestep_embedding"):
            return {"timestep": np.array(timestep, np.float32)}
        settings = self.bundle.manifest.configuration.unet
        order, shift = settings.get("cosine_first", True), settings.get("frequency_shift", 0.0)
        width = unet.shape("timestep_embedding")[-1]
        return {"timestep_embedding": embed_timestep(timestep, width, order, shift)}

    def _decode(self, decoder: Network, latent: Float) -> Float:
        shape = decoder.shape("image")[1:]
        image: Float = decoder.rows("image", {"latent": latent}).reshape(shape)
        return image

    def _metadata(self, request: Request) -> dict[str, Any]:
        return {
            **asdict(request),
            "guidance_mode": self.guidance(request.guidance).mode,
            "scheduler": f"{name_of_kind(self.scheduler)}, {self.scheduler.diffusion.prediction_type}",
            "model": self.bundle.model_hash,
            "backend": self.engine.backend,
            "software": f"msd {msd.__version__}",
        }


def noise(seed: int, shape: tuple[int, ...], step: int = 0) -> Float:
    """Return float32 normal noise: the same numbers for a seed, and a step, on every platform.

    NumPy's PCG64 stream through its ziggurat `standard_normal`, filled in the order of NHWC memory. Step 0 is
    what a picture begins with; the noise that a scheduler adds after a step has a stream of its own.
    """
    stream = np.random.PCG64(np.random.SeedSequence([seed, step]) if step else seed)
    return np.random.Generator(stream).standard_normal(shape, dtype=np.float32)


def _checked(latent: Float, shape: tuple[int, ...]) -> Float:
    if latent.shape != shape:
        raise BadConfig(f"latents of shape {latent.shape} do not fit this model, which takes {shape}")
    return latent.astype(np.float32)


class _Counter:
    """Counts the steps of all pictures, passes the count on, and has the decoder ready for the last one."""

    def __init__(self, total: int, on_step: OnStep | None, networks: Networks) -> None:
        self._done, self._total, self._on_step, self._networks = 0, total, on_step, networks
        networks.prefetch_in_time("vae_decoder", total, math.inf)

    def add(self, seconds: float) -> None:
        self._done += 1
        self._networks.prefetch_in_time("vae_decoder", self._total - self._done, seconds)
        if self._on_step:
            self._on_step(self._done, self._total, seconds)
