"""What is said of prompts is the same in Python, in the page's JavaScript and in Kotlin."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.bundle import open_bundle
from msd.export.app.manifest import NAME, describe, write_manifest
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.models.demo import CHECKPOINT
from msd.run.runtime.control import Control
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from tests.app_bundles import HEIGHT, WIDTH, write_app, write_bundle, write_clip_app
from tests.clip_files import SD15
from tests.jvm import Jvm
from tests.prompt_remarks import EMBEDDED, OF_GUIDANCE, OF_INVERSIONS, OF_WORDS, SAID
from tests.test_kotlin_tokenizer import INVERSIONS
from tests.web.node import evaluate

Wish = tuple[str, str, float]
"""A prompt, a negative prompt and guidance."""

Say = Callable[[Path, list[Wish]], list[list[str]]]

SCRIPT = """
import { parseAppManifest } from './msd/manifest.js';
import { Pipeline } from './msd/pipeline.js';
import { Tokenizer } from './msd/tokenizer.js';
const [manifest, tokens, merges, wishes] = input;
const app = parseAppManifest(manifest);
const tokenizer = new Tokenizer(tokens, merges, app.tokenizers.tokenizer);
const pipeline = new Pipeline(app, { tokenizer }, () => Promise.reject());
const remarks = wishes.map(([prompt, negativePrompt, guidance]) =>
  pipeline.remarks({ prompt, negativePrompt, guidance }),
);
console.log(JSON.stringify(remarks));
"""


def in_python(folder: Path, wishes: list[Wish]) -> list[list[str]]:
    pipeline = Pipeline(open_bundle(folder))
    requests = [Request(prompt, negative, guidance=guidance) for prompt, negative, guidance in wishes]
    return [[*pipeline.remarks(request)] for request in requests]


def in_javascript(folder: Path, wishes: list[Wish]) -> list[list[str]]:
    texts = [(folder / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    found: list[list[str]] = evaluate(SCRIPT, *texts, wishes)
    return found


@pytest.fixture(params=["Python", "JavaScript", "Kotlin"])
def say(request: pytest.FixtureRequest) -> Say:
    """What remarks in one of the languages."""
    if request.param != "Kotlin":
        return in_python if request.param == "Python" else in_javascript
    return in_kotlin(request.getfixturevalue("kotlin"))


def in_kotlin(kotlin: Jvm) -> Say:
    return lambda folder, wishes: [
        kotlin.ask("remarks", folder=str(folder), prompt=p, negative=n, seed=0, steps=None, guidance=g)
        for p, n, g in wishes
    ]


@pytest.fixture(scope="module")
def clip_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip_app(tmp_path_factory.mktemp("clip") / "app")


@pytest.fixture(scope="module")
def demo_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_bundle(tmp_path_factory.mktemp("demo") / "app")
    shutil.rmtree(folder / "tokenizer")
    shutil.copytree(CHECKPOINT / "tokenizer", folder / "tokenizer")
    bundle = open_bundle(folder)
    write_manifest(describe(bundle, (20,)), bundle, folder)
    return folder


def require(say: Say, folder: Path, wanted: list[tuple[Wish, list[str]]]) -> None:
    assert say(folder, [wish for wish, _ in wanted]) == [said for _, said in wanted]


def test_other_programs_syntax_and_cut_prompts_are_named(say: Say, clip_app: Path) -> None:
    require(say, clip_app, [((prompt, "", 7.5), said) for prompt, said in SAID])


def test_words_outside_a_small_vocabulary_are_named(say: Say, demo_app: Path) -> None:
    require(say, demo_app, [((prompt, "", 7.5), said) for prompt, said in OF_WORDS])


def test_what_is_cut_is_written_as_in_the_prompt(say: Say, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", tokenizer={**SD15, "added_tokens_decoder": INVERSIONS})
    require(say, folder, [((prompt, "", 7.5), said) for prompt, said in OF_INVERSIONS])


def test_what_guidance_does_not_use_is_said(say: Say, clip_app: Path, tmp_path: Path) -> None:
    require(say, clip_app, [(("a dog", negative, scale), said) for scale, negative, said in OF_GUIDANCE])
    embeds = write_app(tmp_path / "app", embeddings={"timestep_embedding": 8, "guidance_embedding": 7})
    assert say(embeds, [("the dog", "BREAK", 8.0)])[0][0] == EMBEDDED


PIECES = [*"ab:|()[]{}<>_+\\1,. \n\x85\u3000é日", "AND", "BREAK", "<lora:"]
PROMPTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(max_examples=4, deadline=None)
@given(prompts=st.lists(PROMPTS, min_size=60, max_size=60))
def test_any_prompts_get_the_same_sentences(
    prompts: list[str], kotlin: Jvm, clip_app: Path, demo_app: Path
) -> None:
    wishes: list[Wish] = [(prompt, "", 7.5) for prompt in prompts]
    for folder in (clip_app, demo_app):
        wanted = in_python(folder, wishes)
        assert in_javascript(folder, wishes) == wanted
        assert in_kotlin(kotlin)(folder, wishes) == wanted


IDLE = [
    (0.0, 0.0, 1.0, 6, "steers none of the 6 steps"),
    (1.0, 0.0, 0.1, 6, "steers none of the 6 steps"),
    (1.0, 0.95, 1.0, 6, "steers none of the 6 steps"),
    (-0.5, 0.7, 1.0, 6, None),
    (1.0, 0.5, 1.0, 1, "does not steer the one step"),
    (1.0, 0.0, 1.0, 1, None),
]
"""Scale, begin and until of a control, the number of steps, and what is said where it steers none."""

STEERED = """
import { parseAppManifest } from './msd/manifest.js';
import { Pipeline } from './msd/pipeline.js';
import { Tokenizer } from './msd/tokenizer.js';
const [manifest, tokens, merges, steps, controls] = input;
const app = parseAppManifest(manifest);
const tokenizer = new Tokenizer(tokens, merges, app.tokenizers.tokenizer);
const pipeline = new Pipeline(app, { tokenizer }, () => Promise.reject());
console.log(JSON.stringify(pipeline.remarks({ prompt: 'a', guidance: 7.5, steps, controls })));
"""


@pytest.mark.parametrize(("scale", "begin", "until", "steps", "idle"), IDLE)
def test_a_control_that_counts_in_no_step_is_remarked_on(
    scale: float, begin: float, until: float, steps: int, idle: str | None, kotlin: Jvm, tmp_path: Path
) -> None:
    """The picture of another ControlNet counts, and nothing is said of it."""
    folder = write_bundle(tmp_path / "app", controls=("canny", "depth"))
    write_manifest(describe(open_bundle(folder), (steps,)), open_bundle(folder), folder)
    bounds = {"scale": scale, "begin": begin, "until": until}
    pixels = np.zeros((1, HEIGHT * 8, WIDTH * 8, 3), np.float32)
    with Pipeline(open_bundle(folder)) as pipeline:
        controls = Control("canny", pixels, **bounds), Control("depth", pixels)
        ours = [*pipeline.remarks(Request("a", guidance=7.5, steps=steps, controls=controls))]
    assert [said for said in ours if "control" in said] == ([f"the control canny {idle}"] if idle else [])
    named = [{"name": "canny", **bounds}, {"name": "depth"}]
    argb = [[*each.items(), ("argb", [0] * (HEIGHT * WIDTH * 64))] for each in named]
    wish = {"prompt": "a", "negative": "", "seed": 0, "steps": steps, "guidance": 7.5}
    assert kotlin.ask("remarks", folder=str(folder), controls=[*map(dict, argb)], **wish) == ours
    texts = [(folder / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    assert evaluate(STEERED, *texts, steps, [{**each, "pixels": []} for each in named]) == ours
