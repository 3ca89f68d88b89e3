"""Lines, budgets and what is impossible: each refusal is one sentence with what would be possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.compress.pruning.budget import Candidate, allocate, by_shares, choices, choose
from msd.compress.pruning.criteria import Scores
from msd.compress.pruning.prune import prune
from msd.compress.pruning.settings import Budget, Pruning, UnitShare, parse_budget, parse_pruning
from msd.compress.pruning.units import Unit, find_units
from msd.errors import BadConfig
from msd.graph.ir import Build, Graph, Tensor
from tests.harness import build
from tests.pruned_graphs import attention, dense, geglu, resnet, silu


def block() -> Graph:
    """24 channels in 6 groups."""
    return build(lambda new, x, t: resnet(new, x, t, 6), x=(1, 4, 3, 24), t=(1, 7))


def net() -> Graph:
    """Two gated nets, one head more than two, in one stream."""

    def spell(new: Build, x: Tensor) -> Tensor:
        return geglu(new, attention(new, geglu(new, x, 16), x, 3, 4), 40)

    return build(spell, x=(1, 5, 6))


def only(graph: Graph) -> Unit:
    (unit,) = find_units(graph).units
    return unit


def one_byte(component: str, tensor: Tensor) -> float:
    return tensor.size


@pytest.mark.parametrize(
    ("text", "budget"),
    [("15%", Budget(share=15)), (" 0.5 % ", Budget(share=0.5)), ("600MB", Budget(bytes=600_000_000)),
     ("1.5 GB", Budget(bytes=1_500_000_000)), (".5kB", Budget(bytes=500))],
)  # fmt: skip
def test_budgets_are_read_as_written(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "15", "%", "0%", "100%", "-3%", "600 Mb", "1e3MB", "fifteen"])
def test_budgets_that_say_nothing(text: str) -> None:
    with pytest.raises(BadConfig, match="give a share as 15% or a size as 600MB"):
        parse_budget(text)


def test_a_recipes_table() -> None:
    table = {
        "budget": "15%",
        "criterion": "activation",
        "refit": False,
        "components": ["vae_decoder", "unet"],
        "unit": [{"name": "up_*", "keep": 0.5}, {"name": "mid", "keep": 1}],
    }
    lines = (UnitShare("up_*", 0.5), UnitShare("mid", 1.0))
    want = Pruning(Budget(share=15), lines, "activation", False, ("unet", "vae_decoder"))
    assert parse_pruning(table) == want
    assert parse_pruning({}) == Pruning()
    assert parse_pruning({"refit": "auto"}).refit is None


@pytest.mark.parametrize(
    ("table", "because"),
    [
        ({"budgt": "15%"}, r"\[prune\]: unknown key 'budgt'; did you mean budget\?"),
        ({"budget": 15}, r'budget = 15; it is a text like "15%"'),
        ({"criterion": "taylor"}, "criterion 'taylor'; choose from magnitude, activation, reconstruction"),
        ({"refit": "yes"}, "refit = 'yes'"),
        ({"components": []}, "components = "),
        ({"components": ["vae"]}, r"components = \['vae'\]; choose from text_encoder"),
        ({"unit": {"name": "x"}}, r"write \[\[prune.unit\]\] before each"),
        ({"unit": [{"name": "x"}]}, "x has keep = None"),
        ({"unit": [{"name": "x", "keep": 0}]}, "x has keep = 0; it is a share above 0"),
        ({"unit": [{"name": "x", "keep": True}]}, "x has keep = True"),
        ({"unit": [{"keep": 0.5}]}, "has name = None"),
        (
            {"unit": [{"name": "x", "ratio": 0.5}]},
            r"\[\[prune.unit\]\]: unknown key 'ratio'; there are keep, name",
        ),
    ],
)
def test_what_a_recipe_cannot_say(table: dict[str, object], because: str) -> None:
    with pytest.raises(BadConfig, match=because):
        parse_pruning(table)


def test_a_normalised_unit_loses_from_each_group_or_whole_groups() -> None:
    """4 channels in each of 6 groups: 12 and 18 by channels; 4 groups' 16 and so on by groups."""
    unit = only(block())
    widths = [round(choice.share * unit.width) for choice in choices(unit)]
    assert widths == [4, 8, 12, 16, 20, 24]
    whole = [choice.seed is unit.by_groups for choice in choices(unit)]
    assert whole == [True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("keep", "nearest"), [(0.4, "0.3333 or 0.5"), (0.05, "0.1667"), (0.9, "0.8333 or 1")]
)
def test_a_share_that_breaks_a_group(keep: float, nearest: str) -> None:
    with pytest.raises(BadConfig) as refused:
        choose(only(block()), keep)
    assert str(refused.value) == (
        f"block.conv1 has 24 channels in 6 groups, of which {keep} cannot stay: that breaks a group; "
        f"the nearest are {nearest}"
    )


def test_a_share_that_breaks_a_head() -> None:
    unit = next(u for u in find_units(net()).units if u.kind == "heads")
    assert choose(unit, 0.667).count == 2
    with pytest.raises(BadConfig, match=r"3 heads, of which 0\.5 cannot stay: that breaks a head"):
        choose(unit, 0.5)


def test_lines() -> None:
    """The last line for a unit counts; a line for none is refused."""
    units = find_units(net()).units
    found = by_shares(units, [UnitShare("*", 1), UnitShare("ff.*", 0.5)])
    assert [(unit.kind, choice.share) for unit, choice in found.items()] == [
        ("hidden", 0.5),
        ("heads", 1.0),
        ("hidden", 0.5),
    ]
    with pytest.raises(BadConfig, match=r"no unit is called up_blocks\.\*; there are 3, such as ff\.net"):
        by_shares(units, [UnitShare("up_blocks.*", 0.5)])


def test_a_budget_is_spent_where_it_costs_least() -> None:
    """Against the best of all ways, where costs rise: the greedy way is one of the best."""
    units = find_units(net()).units
    energy = [np.arange(1.0, 17)[None], np.array([[5.0, 9, 20]]), np.arange(1.0, 41)[None] ** 2]
    known = [Scores.of(each) for each in energy]
    candidates = [
        Candidate(u, u.parameters, {n: s.error(n) for n in u.kept_counts()})
        for u, s in zip(units, known, strict=True)
    ]
    goal = 300.0
    counts = allocate(candidates, goal)
    saved = sum(c.saved(counts.get(c.unit, c.unit.count)) for c in candidates)
    lost = sum(c.errors[counts.get(c.unit, c.unit.count)] for c in candidates)
    assert saved >= goal
    cheapest = min(
        sum(c.errors[n] for c, n in zip(candidates, way, strict=True))
        for way in np.stack(np.meshgrid(*[list(c.errors) for c in candidates]), -1).reshape(-1, 3)
        if sum(c.saved(n) for c, n in zip(candidates, way, strict=True)) >= saved
    )
    assert lost <= cheapest * 1.05


@settings(max_examples=25)
@given(st.floats(0.1, 70))
def test_the_share_goes(share: float) -> None:
    """What is left is at most what was asked for, and no unit could stay as it was."""
    graph = net()
    report = prune({"unet": graph}, Pruning(Budget(share=share)), one_byte)
    total = report.parameters["unet"]
    left = sum(t.size for t in graph.tensors() if t.data is not None and not t.data.exact)
    assert total - left == report.removed >= share / 100 * total
    assert all(unit.kept < unit.width for unit in report.units)


def test_a_size_in_bytes() -> None:
    graph = net()
    report = prune({"unet": graph}, Pruning(Budget(bytes=2000)), lambda c, t: 2 * t.size)
    assert 2 * (report.parameters["unet"] - report.removed) <= 2000


@pytest.mark.parametrize(
    ("budget", "because"),
    [
        (Budget(share=99), r"the budget of 99 % is impossible: at most \d+\.\d % of unet can go"),
        (Budget(bytes=10), r"the budget of 1e-05 MB is impossible: the weights of unet take at least 0.0"),
    ],
)
def test_an_impossible_budget_is_refused(budget: Budget, because: str) -> None:
    with pytest.raises(BadConfig, match=because):
        prune({"unet": net()}, Pruning(budget), one_byte)


def test_lines_come_out_of_the_budget() -> None:
    """What a line takes counts, and what it keeps whole the budget leaves alone."""
    lines = (UnitShare("ff.net.0.proj", 1.0),)
    report = prune({"unet": net()}, Pruning(Budget(share=5), lines), one_byte)
    assert [unit.kind for unit in report.units] == ["heads"]


@pytest.mark.parametrize(
    "pruning",
    [Pruning(Budget(share=5), criterion="activation"), Pruning(Budget(share=5), refit=True)],
)
def test_what_needs_a_calibration(pruning: Pruning) -> None:
    with pytest.raises(BadConfig, match="needs a calibration"):
        prune({"unet": net()}, pruning, one_byte)


def embedded() -> Graph:
    """Hidden units at six places, and those of a network of one number that a block adds."""

    def spell(new: Build, x: Tensor, time: Tensor) -> Tensor:
        said = dense(new, silu(new, dense(new, time, 16, "time")), 8, "out")
        return new.ADD(dense(new, silu(new, dense(new, x, 16, "block")), 8, "back"), said)

    return build(spell, x=(1, 6, 8), time=(1, 4))


def test_a_budget_leaves_networks_of_one_number_alone_and_a_line_does_not() -> None:
    report = prune({"unet": embedded()}, Pruning(Budget(share=30)), one_byte)
    assert [unit.unit for unit in report.units] == ["block"]
    with pytest.raises(BadConfig, match="at most"):
        prune({"unet": embedded()}, Pruning(Budget(share=70)), one_byte)
    report = prune({"unet": embedded()}, Pruning(shares=(UnitShare("time", 0.5),)), one_byte)
    assert [(unit.unit, unit.kept) for unit in report.units] == [("time", 8)]
