"""Interfaces of other programs, which bind networks by the names of signatures, inputs and outputs, as data.

configs/interfaces has those of known programs; a user's own is a file like those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from msd.errors import BadConfig
from msd.files import schema
from msd.files.configs import CONFIGS, find_config, read_config, shipped_names
from msd.files.fingerprint import fingerprint
from msd.files.schema import to_json
from msd.files.toml_keys import require_known_keys
from msd.files.wording import counted
from msd.graph.ir import SIGNATURE

FOLDER = CONFIGS / "interfaces"
POSITIONS = "positions"
"""The numbers 0, 1, … of the tokens, int32 (1, tokens), which the program gives the text encoder."""

TIME_EMBEDDING = "time_embedding"
"""What the denoiser's first two layers make of a timestep's sinusoids, float32 (batch, width)."""

MOST_STEPS = 1000


@dataclass(frozen=True)
class BoundPort:
    """An input or output by its `name`: `of` is msd's name, "positions", or "time_embedding".

    `layout` is "NCHW" where the program has channels first, `rows` how many rows it gives where they serve
    the whole batch (0: all), and `shape` what it has room for, if that is known.
    """

    name: str
    of: str
    layout: Literal["NHWC", "NCHW"] = "NHWC"
    rows: int = 0
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class NetworkInterface:
    """The inputs and outputs of a network, in order, the key of its signature, and its batch (0: any)."""

    inputs: tuple[BoundPort, ...]
    outputs: tuple[BoundPort, ...]
    signature: str = SIGNATURE
    batch: int = 0


@dataclass(frozen=True)
class TimeEmbeddings:
    """The file of time embeddings that the program reads, and for how many steps."""

    file: str
    steps: int


@dataclass(frozen=True)
class ClientInterface:
    """The interface of a program: its networks by component, and the batch of the conversion (0: any)."""

    description: str
    source: str
    networks: dict[str, NetworkInterface]
    batch: int = 0
    time_embeddings: TimeEmbeddings | None = None
    name: str = field(default="", compare=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of what decides the files."""
        stated = to_json(self)
        return fingerprint({key: stated[key] for key in ("networks", "batch", "time_embeddings")})


def shipped() -> list[str]:
    """Return the names of msd's own interfaces."""
    return shipped_names(FOLDER)


def find_interface(name_or_path: str | Path) -> ClientInterface:
    """Return the interface of that name, or in that file; raises BadConfig listing the names."""
    return read_interface(find_config(str(name_or_path), FOLDER, "interface"))


def read_interface(path: Path) -> ClientInterface:
    """Return the interface in a TOML file; raises BadConfig with a sentence for one that makes no sense."""
    table = read_config(path, "an interface")
    _require_keys(path, table)
    try:
        interface: ClientInterface = schema.read(ClientInterface, {**table, "name": path.stem}, path.name)
    except ValueError as problem:
        raise BadConfig(f"{path} is not an interface: {problem}") from problem
    for flaw in _flaws(interface):
        raise BadConfig(f"{path}: {flaw}")
    return interface


def _require_keys(path: Path, table: Mapping[str, Any]) -> None:
    """Refuse keys that no interface has, at every level."""
    known = {
        kind: {each.name for each in fields(kind)} for kind in (ClientInterface, NetworkInterface, BoundPort)
    }
    require_known_keys(str(path), table, known[ClientInterface] - {"name"})
    for name, network in _tables(table.get("networks")):
        require_known_keys(f"{path}, {name}", network, known[NetworkInterface])
        for side in ("inputs", "outputs"):
            for port in network.get(side, ()) if isinstance(network.get(side), list) else ():
                if isinstance(port, dict):
                    require_known_keys(f"{path}, {name}, {side}", port, known[BoundPort])


def _tables(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((name, each) for name, each in value.items() if isinstance(each, dict))


def _flaws(interface: ClientInterface) -> Iterator[str]:
    if not interface.networks:
        yield "it names no networks; give at least one table such as [networks.unet]"
    for batch in (interface.batch, *(network.batch for network in interface.networks.values())):
        if batch not in (0, 1, 2):
            yield f"batch is {batch}; the networks are made for 1 or 2"
    takes = {port.of for network in interface.networks.values() for port in network.inputs}
    yield from _flaws_of_table(interface.time_embeddings, takes)
    for component, network in interface.networks.items():
        for side in (network.inputs, network.outputs):
            yield from _flaws_of_ports(component, side)


def _flaws_of_table(table: TimeEmbeddings | None, takes: Collection[str]) -> Iterator[str]:
    if table and (Path(table.file).name != table.file or table.file in ("", ".", "..")):
        yield f"time_embeddings has the file {table.file!r}; a plain name in the bundle was expected"
    if table and not 1 <= table.steps <= MOST_STEPS:
        yield f"time_embeddings is for {counted(table.steps, 'step')}; 1 to {MOST_STEPS} are possible"
    if table and TIME_EMBEDDING not in takes:
        yield f"time_embeddings are written, but no network takes {TIME_EMBEDDING!r}"


def _flaws_of_ports(component: str, ports: tuple[BoundPort, ...]) -> Iterator[str]:
    names, sources = [port.name for port in ports], [port.of for port in ports]
    for twice in {each for each in names if names.count(each) > 1}:
        yield f"{component} has {twice!r} twice"
    for twice in {each for each in sources if sources.count(each) > 1}:
        yield f"{component} has {twice!r} under two names"
    for port in ports:
        if not port.name or port.rows not in (0, 1):
            yield f"{component} has {port.name!r} of {port.rows} rows; a name, and 1 or 0, were expected"
