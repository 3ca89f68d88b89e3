"""Forms are chosen within their target, nearly as well as could be, and written as a recipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import Line, Recipe, find_recipe, read_recipe
from msd.compress.pruning import settings
from msd.errors import BadConfig
from msd.graph.ledger import PrunedUnit
from msd.measure.blockwise.candidates import find_candidate, pruned_by_block, require_mixable, with_one_trunk
from msd.measure.blockwise.choice import (
    Choice,
    Form,
    Forms,
    smallest,
    total_bytes,
    total_noise,
    within_noise,
    within_size,
)
from msd.measure.blockwise.mixed_recipe import mixed_recipe
from msd.measure.blockwise.sensitivity import Outcome, Study, for_size, for_snr, format_name, raised_aims
from msd.measure.blockwise.target import SizeTarget, Snr


def forms(name: str, *costs: tuple[int, float]) -> Forms:
    return Forms("unet", name, tuple(Form(f"w{size}", size, None, noise) for size, noise in costs))


@st.composite
def studies(draw: st.DrawFn) -> list[Forms]:
    """Blocks of one to four forms each, of any sizes and noises, the last exact as the reference is."""
    made = []
    for number in range(draw(st.integers(1, 4))):
        costs = draw(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 8)), max_size=3))
        made.append(forms(f"b{number}", *costs, (draw(st.integers(30, 60)), 0.0)))
    return made


def every(blocks: Sequence[Forms]) -> Iterator[Choice]:
    for picked in itertools.product(*(block.forms for block in blocks)):
        yield dict(zip(blocks, picked, strict=True))


@given(studies(), st.floats(0, 20))
def test_noise_is_kept_and_no_form_is_larger_than_needed(blocks: list[Forms], most: float) -> None:
    choice = within_noise(blocks, most)
    assert set(choice) == set(blocks)
    assert total_noise(choice) <= most
    best = min(total_bytes(c) for c in every(blocks) if total_noise(c) <= most)
    # At most one step of one block is more than the relaxed problem's solution takes.
    step = max(f.bytes for b in blocks for f in b.forms) - min(f.bytes for b in blocks for f in b.forms)
    assert best <= total_bytes(choice) <= best + step


@given(studies(), st.integers(0, 250))
def test_sizes_are_kept(blocks: list[Forms], budget: int) -> None:
    choice = within_size(blocks, budget)
    if total_bytes(smallest(blocks)) > budget:
        assert choice == smallest(blocks)
        return
    assert total_bytes(choice) <= budget
    best = min(total_noise(c) for c in every(blocks) if total_bytes(c) <= budget)
    assert best <= total_noise(choice) <= best + max(f.noise for b in blocks for f in b.forms)


def test_steps_that_save_most_for_a_byte_come_first() -> None:
    small = forms("small", (1, 9.0), (4, 0.0))
    large = forms("large", (100, 10.0), (200, 5.0), (400, 0.0))
    assert {b.block: f.bytes for b, f in within_size([small, large], 104).items()} == {
        "small": 4,
        "large": 100,
    }
    assert {b.block: f.bytes for b, f in within_noise([small, large], 5).items()} == {
        "small": 4,
        "large": 200,
    }
    assert [f.bytes for f in large.hull] == [100, 200, 400]
    assert [f.bytes for f in forms("x", (1, 9.0), (2, 8.9), (3, 0.0), (4, 1.0)).hull] == [1, 3]


def test_a_size_that_cannot_be_reached_says_what_can() -> None:
    blocks = [forms("a", (10, 0.5), (40, 0.0)), forms("b", (20, 0.1), (80, 0.0))]
    study = Study(None, {}, {}, blocks, {"unet": 1000}, {}, Calibration())  # type: ignore[arg-type]
    with pytest.raises(BadConfig, match="files of 1,030 to 1,120 bytes together; 1,029 is too small"):
        for_size(study, 1029)
    choice = for_size(study, 1060)
    assert study.outcomes(choice) == {"unet": Outcome(1060, 10.0)}
    assert study.outcomes(for_size(study, 2000)) == {"unet": Outcome(1120, None)}
    assert study.outcomes(for_snr(study, {"unet": 9})) == {"unet": Outcome(1060, 10.0)}
    assert study.outcomes(for_snr(study, {"unet": inf})) == {"unet": Outcome(1120, None)}


@pytest.mark.parametrize(
    ("expected", "found", "aim"),
    [(10.0, 9.5, None), (10.0, None, None), (10.0, 8.5, 10.5), (10.2, 8.5, 10.7), (None, 8.5, inf)],
)
def test_aims_rise_by_what_was_missing(
    expected: float | None, found: float | None, aim: float | None
) -> None:
    """Above what was expected of the recipe, so that the next one is another; others keep their aim."""
    aims = {"unet": 10, "vae_decoder": 9.2}
    outcomes = {"unet": Outcome(1, expected), "vae_decoder": Outcome(1, 12.0)}
    raised = raised_aims(aims, 9, outcomes, {"unet": Outcome(1, found), "vae_decoder": Outcome(1, 9.0)})
    assert raised == (None if aim is None else {"unet": aim, "vae_decoder": 9.2})


@pytest.mark.parametrize(
    ("size", "over", "aims"),
    [
        (1060, 0, [1060]),
        (1060, 15, [1060, 1045]),
        (1060, 400, [1060, 1030]),
        (1070, 10, [1070]),
        (1070, 15, [1070, 1055]),
        (1119, 74, [1119, 1045]),
    ],
)
def test_a_size_that_was_exceeded_is_aimed_below(size: int, over: int, aims: list[int]) -> None:
    """So that each recipe is smaller, until files are as small as asked for, or as small as they can be.

    Recipes of 1030, 1045, 1060 and 1120 bytes can be had; each is larger by `over` than is expected.
    """
    blocks = [forms("a", (10, 0.5), (25, 0.2), (40, 0.0)), forms("b", (20, 0.1), (80, 0.0))]
    study = Study(None, {}, {}, blocks, {"unet": 1000}, {}, Calibration())  # type: ignore[arg-type]
    assert study.least == 1030
    aim: SizeTarget | None = SizeTarget(size, 2000, size)
    for wanted in aims:
        assert aim is not None
        assert aim.aim == wanted
        assert str(aim) == f"0.00 MB, {size / 2000:.0%} of float32"
        expected = study.outcomes(aim.choice(study))
        aim = aim.closer(study, expected, expected | {"vae_decoder": Outcome(over, 10.0)})
    assert aim is None


def test_an_error_that_was_exceeded_is_aimed_above() -> None:
    blocks = [forms("a", (10, 0.1), (40, 0.05), (80, 0.0))]
    study = Study(None, {}, {}, blocks, {"unet": 1000}, {}, Calibration())  # type: ignore[arg-type]
    aim = Snr(9, {"unet": 9})
    closer = aim.closer(study, study.outcomes(aim.choice(study)), {"unet": Outcome(1, 8.5)})
    assert closer == Snr(9, {"unet": 10.5})
    assert study.outcomes(closer.choice(study)) == {"unet": Outcome(1040, 13.01)}
    assert str(closer) == "9 dB"
    assert closer.closer(study, {"unet": Outcome(1040, 13.01)}, {"unet": Outcome(1, 9.1)}) is None


def test_a_pruning_candidate_that_prunes_nothing_is_called_by_what_it_is() -> None:
    unpruned = Form("half", 1, 30.0, 0.1)
    pruned = Form("half", 1, 30.0, 0.1, (settings.UnitShare("a", 0.5),))
    alike = {"half": HALF, "w4": INT4, "w8": INT8}
    assert format_name(pruned, alike) == "half"
    assert format_name(unpruned, alike) == "w8"
    assert format_name(unpruned, {"half": HALF, "w4": INT4}) == "half, not pruned"
    assert format_name(Form("float32", 1, None, 0.0), alike) == "float32"
    assert format_name(Form("w4", 1, 9.0, 0.5), alike) == "w4"


def test_what_was_taken_before_a_large_step_may_go_again() -> None:
    cheap, dear = forms("cheap", (0, 1.0), (1, 0.5)), forms("dear", (0, 10.0), (25, 0.0))
    assert {b.block: f.bytes for b, f in within_noise([cheap, dear], 1.2).items()} == {"cheap": 0, "dear": 25}


INT8 = Recipe("w8", (Line("int8"),), delegate="litert-gpu")
FED = {"criterion": "activation", "budget": "10%"}
HALF = Recipe("half", (Line("int8"),), delegate="litert-gpu", prune={"budget": "10%"})
INT4 = Recipe("w4", (Line("int4", algorithm="mse"),), delegate="litert-gpu")


def test_the_recipe_stores_each_block_as_chosen(tmp_path: Path) -> None:
    names = ("a.0", "a.0.inner", "a.1", "b")
    picked = ("float32", "w4", "w8", "w4")
    blocks = {
        Forms("unet", name, ()): Form(form, 1, 30.0, 0.001) for name, form in zip(names, picked, strict=True)
    }
    text = mixed_recipe(blocks, {"w4": INT4, "w8": INT8}, {"unet": Outcome(4, 31.5)}, "30 dB", ["Said."])
    assert "# Said." in text
    assert '"a.1.*",  # alone 30.0 dB, the result 30.0 dB' in text
    (tmp_path / "mixed.toml").write_text(text)
    recipe = read_recipe(tmp_path / "mixed.toml")
    assert recipe.delegate == "litert-gpu"

    def stored(*sources: str) -> Line:
        return [line for line in recipe.lines if line.names(sources, "unet")][-1]

    assert stored("a.0.conv.weight").store == "float32"
    assert stored("a.0.inner.conv.weight") == Line(
        "int4", (), ("a.0.inner.*", "b.*"), ("unet",), algorithm="mse"
    )
    assert stored("a.1.conv.weight").store == "int8"
    # What is merged of several blocks gets the most bits of these.
    assert stored("a.1.to_k.weight", "a.0.inner.to_k.weight").store == "int8"
    assert not any(line.names(["b.weight"], "vae_decoder") for line in recipe.lines)


def pruned_unit(name: str, kept: int, width: int) -> PrunedUnit:
    return PrunedUnit(
        component="unet",
        unit=name,
        kind="channels",
        groups=1,
        width=width,
        kept=kept,
        whole_groups=False,
        parameters=10,
        error=0.1,
    )


def test_the_recipe_prunes_what_the_chosen_forms_do(tmp_path: Path) -> None:
    """Also of a block that was joined of two; and nothing where no such form was chosen."""
    units = [pruned_unit("a.0.conv1", 32, 96), pruned_unit("a.0.inner.ff", 3, 4), pruned_unit("b.conv", 1, 2)]
    names = ("a.0", "a.0.inner", "b + c", "d")
    pruned = pruned_by_block(units, names)
    assert pruned["a.0"] == (settings.UnitShare("a.0.conv1", 0.333333),)
    picked = dict(zip(names, ("w4", "half", "half", "half"), strict=True))
    forms = {name: Form(picked[name], 1, 30.0, 0.001, pruned[name] * (name != "a.0")) for name in names}
    choice = {Forms("unet", name, ()): form for name, form in forms.items()}
    candidates = {"w4": INT4, "half": HALF}
    text = mixed_recipe(choice, candidates, {"unet": Outcome(4, 31.5)}, "30 dB", [])
    (tmp_path / "mixed.toml").write_text(text)
    recipe = read_recipe(tmp_path / "mixed.toml")
    assert recipe.prune is not None
    found = settings.parse_pruning(recipe.prune)
    assert found == settings.Pruning(
        shares=(settings.UnitShare("a.0.inner.ff", 0.75), settings.UnitShare("b.conv", 0.5)),
        components=("unet",),
    )
    assert [line.name for line in recipe.lines] == [("a.0.*",), ("a.0.inner.*", "b.*", "c.*", "d.*")]
    whole = {block: form for block, form in choice.items() if block.block in ("a.0", "d")}
    assert "prune" not in mixed_recipe(whole, candidates, {"unet": Outcome(4, 31.5)}, "30 dB", [])


def test_a_pruned_unit_in_no_block_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"ab\.conv was pruned, but is in none of the network's blocks"):
        pruned_by_block([pruned_unit("ab.conv", 1, 2)], ["a", "b + c"])


@pytest.mark.parametrize(
    ("recipes", "said"),
    [
        ([Recipe("two", (Line("int8"), Line("int4")))], "two is no candidate: it should have one line"),
        ([Recipe("part", (Line("int8", name=("x.*",)),))], "part is no candidate"),
        ([Recipe("thin", (Line("int8"),), prune={"part": 1})], r"\[prune\]: unknown key 'part'"),
        ([Recipe("fed", (Line("int8"),), prune=FED)], "fed prunes on a calibration.* give --calibration"),
        ([HALF, Recipe("fed", (Line("int8"),), prune=FED)], "fed and half prune by another criterion"),
        ([HALF, Recipe("not", (Line("int8"),), prune={"refit": False})], "not and half prune by another"),
        ([INT8, Recipe("off", (Line("int4"),), without=("x",))], "off and w8 switch off different rewrites"),
        ([INT8, INT8], "candidates need different names"),
        (
            [Recipe("w4-gptq", (Line("int4", algorithm="gptq"),))],
            "w4-gptq rounds on a calibration, which msd convert will need too.* give --calibration",
        ),
        ([Recipe("float32", (Line("int8"),))], "other than float32"),
    ],
)
def test_candidates_that_cannot_be_mixed_are_refused(recipes: list[Recipe], said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        require_mixable(recipes, Calibration())


def test_a_candidate_may_have_another_algorithm() -> None:
    found = find_candidate("gpu-w4:gptq")
    assert (found.name, found.lines[0].algorithm) == ("gpu-w4-gptq", "gptq")
    assert found.trunk == find_recipe("gpu-w4").trunk
    assert find_candidate("gpu-w8") == find_recipe("gpu-w8")
    with pytest.raises(BadConfig, match="no recipe is called 'gpu-w8:best'"):
        find_candidate("gpu-w8:best")


def test_a_trunk_is_that_of_all_candidates_with_integers() -> None:
    half = Recipe("half", (Line("float16"),))
    found = with_one_trunk([half, INT4, replace(INT8, trunk="float16")])
    assert [recipe.trunk for recipe in found] == [None, "float16", "float16"]
    assert with_one_trunk([half, INT4]) == [half, INT4]


def test_a_mix_names_the_algorithms_that_were_measured(tmp_path: Path) -> None:
    """The calibration that one format needs would else change the other."""
    blocks = {
        Forms("unet", name, ()): Form(form, 1, 30.0, 0.001) for name, form in (("a", "w8"), ("b", "w4"))
    }
    rounded = replace(INT4, lines=(Line("int4", algorithm="gptq"),))
    candidates = {"w8": replace(INT8, trunk="float16"), "w4": rounded}
    (tmp_path / "mixed.toml").write_text(mixed_recipe(blocks, candidates, {}, "30 dB", []))
    recipe = read_recipe(tmp_path / "mixed.toml")
    assert recipe.trunk == "float16"
    assert {line.store: line.algorithm for line in recipe.lines} == {"int8": "min-max", "int4": "gptq"}


def test_a_target_that_is_missed_is_said() -> None:
    outcomes = {"unet": Outcome(2_000_000, 29.96), "vae_decoder": Outcome(1_000_000, None)}
    assert Snr(30, {}).missed(outcomes) == "the target of 30 dB is missed: unet has 29.96 dB"
    assert Snr(29, {}).missed(outcomes) == ""
    sized = SizeTarget(2_900_000, 4_000_000, 2_900_000).missed(outcomes)
    assert sized == "the target of 2.90 MB, 72% of float32, is missed: the files take 3.00 MB"
    assert SizeTarget(3_000_000, 4_000_000, 1).missed(outcomes) == ""
    close = SizeTarget(2_999_900, 4_000_000, 2_999_900).missed(outcomes)
    assert close == "the target of 2.9999 MB, 75% of float32, is missed: the files take 3.0000 MB"
