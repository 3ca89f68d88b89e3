"""A small random checkpoint as a site: the library, and the model's folder with all that networks need."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.export.web.expected import expected_inputs, write_expected
from msd.export.web.manifest import ExpectedOutputs, WebProgram
from msd.export.web.programs import write_programs
from msd.files import schema
from tests import checkpoints
from tests.shared import shared_folder
from tests.web.node import SITE

ROLES = ("text_encoder", "unet", "vae_decoder")


@dataclass(frozen=True)
class WrittenNetwork:
    """What the site has of one network."""

    programs: dict[str, WebProgram]
    expected: ExpectedOutputs


@dataclass(frozen=True)
class NetworkSite:
    """A folder with the library under msd/ and the model under model/; its bundle and networks by role."""

    folder: Path
    bundle: Bundle
    networks: dict[str, WrittenNetwork]


def tiny_bundle(factory: pytest.TempPathFactory) -> Bundle:
    """Return a bundle of random networks, as small as Stable Diffusion's can be."""

    def make(folder: Path) -> None:
        folder.mkdir()
        checkpoints.write(folder / "checkpoint", checkpoints.TINY)
        convert(
            folder / "checkpoint", folder / "int8", Settings(graph_rewrites.load(), find_recipe("gpu-w8"))
        )

    return open_bundle(shared_folder(factory, "tiny-web", make) / "int8")


def write_site(folder: Path, bundle: Bundle) -> NetworkSite:
    """Write the library, the programs and the expected outputs."""
    shutil.copytree(SITE / "msd", folder / "msd")
    (folder / "index.html").write_text("<!doctype html><title>test</title>", "utf-8")
    model = folder / "model"
    model.mkdir()
    networks = {
        role: WrittenNetwork(
            write_programs(bundle.path(role), role, model),
            write_expected(bundle.path(role), role, bundle.component(role).inputs, model),
        )
        for role in ROLES
    }
    return NetworkSite(folder, bundle, networks)


def facts(site: NetworkSite) -> dict[str, Any]:
    """Return what the page's scripts read of the networks, as JSON."""
    return {
        role: {
            "inputs": [schema.to_json(port) for port in site.bundle.component(role).inputs],
            "operations": site.bundle.component(role).operations,
            "programs": schema.to_json(network.programs),
            "expected": schema.to_json(network.expected),
        }
        for role, network in site.networks.items()
    }


def cpu_inputs(site: NetworkSite, role: str) -> dict[str, Any]:
    """Return the inputs of the expected outputs as a page takes them: the type and the numbers."""
    expected = site.networks[role].expected
    ports = site.bundle.component(role).inputs
    arrays = expected_inputs(ports, expected.seed, expected.tokens, expected.end)
    return {name: [array.dtype.name, array.reshape(-1).tolist()] for name, array in arrays.items()}


def cpu_output(site: NetworkSite, role: str, name: str) -> npt.NDArray[np.float32]:
    """Return an output of LiteRT's CPU."""
    file = site.networks[role].expected.outputs[name].file
    return np.fromfile(site.folder / "model" / file, "<f4")
