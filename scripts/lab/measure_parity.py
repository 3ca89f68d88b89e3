"""Measure the demo checkpoint's conversions against diffusers: components, images, attributes.

    python scripts/lab/measure_parity.py -o docs/results/demo-parity.json

CPU only, float arithmetic (the GPU's). Needs the test extra (diffusers, torch). Minutes.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT, score
from msd.models.demo.captions import captions
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.run.runtime.timestep import embed_timestep
from scripts.figures import save_figures

VARIANTS = {
    "float32, GELU as in the checkpoint": ("float32", ("clip_gelu",)),
    "float32": ("float32", ()),
    "float16": ("float16", ()),
    "int8": ("gpu-w8", ()),
}
"""The recipes, and the rewrites that each is without."""

GUIDANCE = 7.5
BATCH = 10


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--captions", "count", default=100, show_default=True)
@click.option("--steps", default=20, show_default=True)
def main(output: Path, count: int, steps: int) -> None:
    """Write the measurements as JSON to OUTPUT and a table to stdout."""
    begun = time.time()
    prompts = captions("held-back", count, seed=1)
    reference = Reference(prompts, steps)
    rows = {}
    for name, (recipe, without) in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            rules = [r for r in graph_rewrites.load() if r.name not in without]
            convert(CHECKPOINT, Path(folder) / "out", Settings(rules, find_recipe(recipe)))
            rows[name] = measure(open_bundle(Path(folder) / "out"), reference)
        click.echo(f"{name}: {json.dumps(rows[name])}", err=True)
    report = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {n: version(n) for n in ("diffusers", "torch", "ai-edge-litert", "numpy")},
        "captions": count,
        "steps": steps,
        "guidance": GUIDANCE,
        "diffusers": {"attributes right": reference.attributes},
        "variants": rows,
        "seconds": round(time.time() - begun),
    }
    save_figures(output, report, "graph_rewrites", "msd/run/runtime")


class Reference:
    """The results of diffusers with the checkpoint in float32."""

    def __init__(self, prompts: list[str], steps: int) -> None:
        import torch
        from diffusers import DDIMScheduler, StableDiffusionPipeline

        self.torch, self.prompts, self.steps = torch, prompts, steps
        self.pipe = StableDiffusionPipeline.from_pretrained(
            CHECKPOINT, torch_dtype=torch.float32, safety_checker=None
        )
        self.pipe.scheduler = DDIMScheduler.from_config(self.pipe.scheduler.config)
        self.pipe.set_progress_bar_config(disable=True)
        size = self.pipe.unet.config.sample_size
        self.starts = [noise(i, (1, size, size, 4)) for i in range(len(prompts))]
        self.states: list[tuple[float, Any]] = []
        self.pictures = [picture for i in range(0, len(prompts), BATCH) for picture in self._draw(i)]
        self.attributes = mean_score(self.pictures, prompts)
        self.checks = self._checks()

    def _draw(self, first: int) -> Any:
        """Return a batch of images, uint8; `states` receives some intermediate latents."""

        def keep(pipe: Any, step: int, timestep: Any, values: dict[str, Any]) -> dict[str, Any]:
            if step % 7 == 3 and len(self.states) < 12:
                self.states.append((float(timestep), values["latents"][:1].numpy().copy()))
            return values

        starts = np.concatenate(self.starts[first : first + BATCH]).transpose(0, 3, 1, 2).copy()
        images = self.pipe(
            self.prompts[first : first + BATCH],
            num_inference_steps=self.steps,
            guidance_scale=GUIDANCE,
            latents=self.torch.from_numpy(starts),
            output_type="np",
            callback_on_step_end=keep,
        ).images
        return np.rint(images * 255).astype(np.uint8)

    def _checks(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Return for each component and kind of input (inputs, reference output) pairs."""
        rng = np.random.default_rng(0)
        pipe, size = self.pipe, self.pipe.unet.config.sample_size
        real_tokens = [
            pipe.tokenizer(p, padding="max_length", max_length=77, return_tensors="np").input_ids.astype(
                np.int32
            )
            for p in self.prompts[:8]
        ]
        random_tokens = [rng.integers(0, len(pipe.tokenizer), (1, 77)).astype(np.int32) for _ in range(4)]
        contexts = [self._encode(t) for t in real_tokens]
        width = contexts[0].shape[-1]
        random_states = [
            (t, rng.standard_normal((1, 4, size, size)).astype("f4")) for t in (951.0, 501.0, 1.0)
        ]
        random_contexts = [rng.standard_normal((1, 77, width)).astype("f4") for _ in range(3)]
        finals = [self._final(i) for i in range(4)]
        latents = [rng.standard_normal((1, 4, size, size)).astype("f4") for _ in range(3)]
        return {
            "text_encoder, random": [({"tokens": t}, self._encode(t)) for t in random_tokens],
            "text_encoder, real": [({"tokens": t}, self._encode(t)) for t in real_tokens],
            "unet, random": [self._unet(*s, c) for s, c in zip(random_states, random_contexts, strict=True)],
            "unet, real": [self._unet(*s, contexts[i % 8]) for i, s in enumerate(self.states)],
            "vae_decoder, random": [self._decode(x) for x in latents],
            "vae_decoder, real": [self._decode(x) for x in finals],
        }

    def _final(self, i: int) -> Any:
        latents = self.torch.from_numpy(self.starts[i].transpose(0, 3, 1, 2).copy())
        options = {"num_inference_steps": self.steps, "guidance_scale": GUIDANCE, "output_type": "latent"}
        return self.pipe(self.prompts[i], latents=latents, **options).images.numpy()

    def _encode(self, tokens: Any) -> Any:
        with self.torch.no_grad():
            return self.pipe.text_encoder(self.torch.from_numpy(tokens.astype(np.int64)))[0].numpy()

    def _unet(self, timestep: float, latent: Any, context: Any) -> tuple[dict[str, Any], Any]:
        torch, config = self.torch, self.pipe.unet.config
        with torch.no_grad():
            wanted = self.pipe.unet(
                torch.from_numpy(latent[:1]), torch.tensor([timestep]), torch.from_numpy(context)
            ).sample.numpy()
        embedding = embed_timestep(
            timestep, config.block_out_channels[0], config.flip_sin_to_cos, config.freq_shift
        )
        inputs = {
            "latent": latent[:1].transpose(0, 2, 3, 1),
            "timestep_embedding": embedding[None],
            "context": context,
        }
        return inputs, wanted.transpose(0, 2, 3, 1)

    def _decode(self, latent: Any) -> tuple[dict[str, Any], Any]:
        vae = self.pipe.vae
        with self.torch.no_grad():
            wanted = vae.decode(self.torch.from_numpy(latent) / vae.config.scaling_factor).sample.numpy()
        return {"latent": latent.transpose(0, 2, 3, 1)}, wanted.transpose(0, 2, 3, 1)


def measure(bundle: Bundle, reference: Reference) -> dict[str, Any]:
    """Return the least PSNR (dB) over the inputs of each component, and the comparison of the images."""
    row: dict[str, Any] = {}
    for name, pairs in reference.checks.items():
        with Interpreter(bundle.path(name.split(",")[0]), float_weights=True) as network:
            shapes = {k: p.shape for k, p in network.inputs.items()}
            row[name] = round(
                min(
                    psnr(
                        wanted,
                        next(
                            iter(network.run({k: ascontiguous(v, shapes[k]) for k, v in i.items()}).values())
                        ),
                    )
                    for i, wanted in pairs
                ),
                1,
            )
    requests = [
        Request(
            prompt=p,
            negative_prompt="",
            seed=i,
            steps=reference.steps,
            guidance=GUIDANCE,
        )
        for i, p in enumerate(reference.prompts)
    ]
    drawn = [p.pixels for p in Pipeline(bundle).generate_all(requests, latents=reference.starts)]
    decibels = [psnr(a / 255, b / 255) for a, b in zip(reference.pictures, drawn, strict=True)]
    row["pictures, median"] = round(float(np.median(decibels)), 1)
    row["pictures, least"] = round(min(decibels), 1)
    row["attributes right"] = mean_score(drawn, reference.prompts)
    return row


def ascontiguous(value: Any, shape: tuple[int, ...]) -> Any:
    """Return `value` in the file's shape."""
    return np.ascontiguousarray(value).reshape(shape)


def mean_score(pictures: list[Any], prompts: list[str]) -> float:
    """Return the mean fraction of attributes right."""
    return round(float(np.mean([score(a, b) for a, b in zip(pictures, prompts, strict=True)])), 4)


if __name__ == "__main__":
    main()
