"""The page with a stand-in for its worker, on a web server, and what a test asks of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msd.export.web.server import HEADERS
from msd.models.families import title_of
from tests.web.browser import PATIENCE
from tests.web.node import SITE
from tests.web.server import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROMPT = "A wooden boat, “oil on canvas”"
LATE = """() => {
    const decode = createImageBitmap;
    globalThis.createImageBitmap = async (file) => {
        if (file.name !== 'late.png') return decode(file);
        await new Promise((done) => { globalThis.arrive = done; });
        return decode(file);
    };
}"""
"""Has the browser decode a file called late.png when it is told to."""

ARRIVE = """async () => {
    globalThis.arrive();
    await new Promise((done) => setTimeout(done, 200));
}"""
"""Has the browser decode that file now."""

READY = "#generate:not(:disabled)"
COLLECT = """
globalThis.questions = [];
new BroadcastChannel('stand-in').onmessage = ({ data }) => globalThis.questions.push(data);
"""
MODEL = {
    "name": "Stable Diffusion 2.1 base",
    "example": "a photograph of an astronaut riding a horse",
    "width": 512,
    "height": 512,
    "steps": [20, 10, 4],
    "scheduler": "DDIM",
    "guidance": 7.5,
    "mode": "two passes",
    "preview": True,
    "image": None,
    "controls": [],
    "upscaler": None,
    "licence": "CreativeML Open RAIL++-M",
}
STRENGTHS = {"20": [0.1, 0.5, 0.8, 1.0], "10": [0.5, 0.8, 1.0], "4": [0.5, 1.0]}
INSPECTION = {
    "model": MODEL,
    "bytes": {"total": 1_280_000_000, "there": 1_280_000_000},
    "optional": {},
    "memory": 1_900_000_000,
    "gpu": {"name": "qualcomm adreno-7xx", "precision": "fp16", "problems": []},
    "space": {"used": 1_280_000_000, "available": 34_200_000_000},
}
OUTPUT = {"output": "y", "max_difference": 0.01, "max_reference": 3.0, "finite": True, "identical": False}


def network(role: str, psnr: float | None = None, **facts: Any) -> dict[str, Any]:
    """Return what a network did on a GPU, as msd/verdict.js of the page says it."""
    return {
        "role": role,
        "title": title_of(role),
        "sha256": "0" * 64,
        "operations": 2020,
        "delegated": 2020,
        "partitions": 1,
        "dispatches": 812,
        "open_ms": 4212.0,
        "first_ms": 90.0,
        "runs_ms": [],
        "outputs": [{**OUTPUT, "psnr_db": psnr}] if psnr else [],
        "gpu_bytes": None,
        "failure": None,
        "log": [],
        **facts,
    }


VERDICT = {
    "format": 1,
    "runtime": "msd",
    "api": "WebGPU",
    "adapter": "qualcomm adreno-7xx",
    "precision": "fp16",
    "browser": "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/142.0.0.0 Mobile Safari/537.36",
    "networks": [
        network("text_encoder", 64.25, runs_ms=[41.0, 40.0, 90.0], gpu_bytes=345e6),
        network("unet", 51.7, runs_ms=[1250.0, 1210.0, 1230.0], gpu_bytes=1.4e9),
        network(
            "vae_decoder", delegated=0, open_ms=None, first_ms=None, failure="The GPU has too little memory."
        ),
    ],
}


class StandInSite:
    """The page in a folder, whose stand-in does what `settings` says, and its address."""

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self._folder = folder
        self.settings: dict[str, Any] = {}
        self.change(inspection=INSPECTION, verdict=VERDICT, delay=0, fail={}, hold=None)

    def change(self, **settings: Any) -> None:
        """Change what the stand-in does from its next question on."""
        self.settings |= settings
        written = self._folder / "stand-in.json.new"
        written.write_text(json.dumps(self.settings), "utf-8")
        written.replace(self._folder / "stand-in.json")  # the page may be reading it

    def change_inspection(self, **facts: Any) -> None:
        """Change what the stand-in tells of the model and the device; `model` is changed in part."""
        facts["model"] = {**MODEL, **facts.get("model", {})}
        self.change(inspection={**INSPECTION, **facts})


class Visit:
    """A page of the site in a browser, and what went wrong in it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.add_init_script(COLLECT)
        page.goto(address)

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(text)

    def questions(self, call: str) -> list[dict[str, Any]]:
        """Return what the page asked of its worker, by `call`; seeds beyond 2^53 as text."""
        script = """call => JSON.parse(JSON.stringify(questions.filter((each) => each.call === call),
            (_, value) => typeof value === 'bigint' ? `${value}`
                : value instanceof Uint8Array ? [...value] : value))"""
        found: list[dict[str, Any]] = self.page.evaluate(script, call)
        return found


@contextmanager
def stand_in_site(folder: Path) -> Iterator[StandInSite]:
    """Yield the page on a web server, copied to `folder` with the stand-in as its worker."""
    shutil.copytree(SITE, folder, dirs_exist_ok=True)
    shutil.copy(Path(__file__).with_name("stand_in_worker.js"), folder / "worker.js")
    (folder / "page/offline.js").write_text("export async function keepOffline() {}\n", "utf-8")
    with served(folder, {**HEADERS, "Cache-Control": "no-store"}) as address:
        yield StandInSite(folder, f"{address}/")


@contextmanager
def visit(browser: Browser, site: StandInSite, **context: Any) -> Iterator[Visit]:
    """Yield the page, opened by a new visitor; the test fails where the page's console tells of anything."""
    with browser.new_context(**context) as opened:
        opened.set_default_timeout(PATIENCE)
        visited = Visit(opened.new_page(), site.address)
        yield visited
        assert visited.faults == [], visited.faults


def generate(page: Page, seed: str = "7", prompt: str = PROMPT) -> None:
    """Generate a picture as a visitor does, and wait for it."""
    page.fill("#prompt", prompt)
    page.fill("#seed", seed)
    page.click(READY)
    page.wait_for_selector(f"#caption:has-text('Seed {seed},')")
    page.wait_for_selector(READY)


def picture_bytes(page: Page) -> list[int]:
    """Return the bytes of the picture that is shown, which is a PNG."""
    found: list[int] = page.evaluate(
        """async () => {
            const image = document.getElementById('picture');
            await image.decode();
            const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0);
            return [...context.getImageData(0, 0, canvas.width, 40).data];
        }"""
    )
    return found
