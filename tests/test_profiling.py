"""A report of kernels: its sums, its JSON, its tables, its page, its trace, and the roofline."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.errors import BadConfig
from msd.files import schema
from msd.gpu.peaks import Peaks
from msd.gpu.program import ProgramStep
from msd.gpu.switches import Switches
from msd.graph.prediction.device import Device, find_device
from msd.graph.prediction.roofline import Roofline
from msd.measure.profiling.ablation import gpu_of, stages
from msd.measure.profiling.html import COLOURS, to_html
from msd.measure.profiling.kinds import by_kernel, by_kind, kind_of, total
from msd.measure.profiling.result import DispatchCost, KernelReport, dump_kernel_report
from msd.measure.profiling.table import remarks, tables, to_markdown
from msd.measure.profiling.trace import to_trace
from msd.measure.profiling.winograd_counts import TILES, saved_flops, tensor_growth, weight_growth
from tests.json_schema import violations
from tests.kernel_reports import KERNELS, dispatches, network, report, winograd

ROOT = Path(__file__).parent.parent


@given(count=st.integers(0, 60), seed=st.integers(0, 3))
def test_kinds_and_kernels_add_up_to_the_network(count: int, seed: int) -> None:
    costs = dispatches(count, seed)
    every = total("all", costs)
    for groups in (by_kind(costs), by_kernel(costs)):
        assert sum(each.dispatches for each in groups) == every.dispatches == count
        assert sum(each.flops for each in groups) == every.flops
        assert sum(each.bytes for each in groups) == every.bytes
        assert sum(each.seconds for each in groups) == pytest.approx(every.seconds)
        assert [each.seconds for each in groups] == sorted((e.seconds for e in groups), reverse=True)


def test_speeds_are_of_seconds_and_a_clock_that_stood_still_gives_none() -> None:
    cost = DispatchCost(
        kernel="a",
        operation="",
        groups=(1, 1, 1),
        seconds=0.5,
        flops=300,
        bytes=70,
        arithmetic=100,
        matrices=False,
        least_seconds=0.1,
    )
    assert total("a", [cost, replace(cost, least_seconds=0.2)]).roof == pytest.approx(0.3)
    assert (total("a", [cost]).flops_per_second, total("a", [cost]).bytes_per_second) == (600, 140)
    stood = total("a", [replace(cost, seconds=0.0)])
    assert (stood.flops_per_second, stood.bytes_per_second, stood.roof) == (0, 0, 0)


def test_the_roof_of_matrix_units_is_apart() -> None:
    peaks = Peaks(bytes=100.0, flops=10.0, matrix_flops=50.0, dispatch_seconds=0.0)
    assert peaks.least_seconds(200, 10, matrices=False) == 2
    assert peaks.least_seconds(100, 100, matrices=False) == 10
    assert peaks.least_seconds(100, 100, matrices=True) == 2
    assert replace(peaks, matrix_flops=None).least_seconds(100, 100, matrices=True) == 10


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("flash attention 64, 32 x 32", "flash attention"),
        ("layer norm, 32 lanes", "layer norm"),
        ("pointwise a + b", "pointwise"),
        ("convolution 128x64 int8", "convolution"),
        ("sum of rows, 8 lanes", "sum of rows"),
        ("x", "x"),
        ("", ""),
    ],
)
def test_a_kind_is_the_words_that_a_name_begins_with(kernel: str, kind: str) -> None:
    assert kind_of(kernel) == kind


def test_the_json_is_as_its_schema_says() -> None:
    made = json.loads(dump_kernel_report(report()))
    assert list(violations(made, schema.document(KernelReport))) == []
    assert made["format"] == 1
    assert len(made["networks"][0]["dispatches"]) == 40
    assert [row["without"] for row in made["ablations"][0]["rows"]] == [["softmax", "winograd"], []]


def test_the_page_of_the_schema_is_up_to_date() -> None:
    stored = json.loads((ROOT / "docs" / "kernels.schema.json").read_text("utf-8"))
    assert stored == schema.document(KernelReport), "write docs/kernels.schema.json again"


def test_the_tables_say_what_was_measured() -> None:
    kinds, totals, measured, counted, tiles, shapes = tables(report())
    assert kinds.rows[-1][0] == "all"
    assert sum(float(row[3]) for row in kinds.rows[:-1]) == pytest.approx(100, abs=0.5)
    assert dict(totals.rows)["dispatches"] == "40 for 120 operations"
    assert dict(totals.rows)["a whole run, submitted as one, median"] == "5.00 ms of 3 runs"
    assert dict(totals.rows)["tensors"] == "52.0 MB, 4.0 % more than the least possible"
    assert dict(totals.rows)["to the first result"] == "3.25 s"
    assert [row[1:4] for row in measured.rows] == [
        ("4.00 ms", "1.00×", "1.00×"),
        ("2.00 ms", "2.00×", "2.00×"),
    ]
    assert [row[2] for row in counted.rows] == ["1.00×", "4.00×"]
    assert [row[0] for row in tiles.rows] == ["none", "2x2", "4x4", "6x6", "8x8"]
    assert [row[1:4] for row in tiles.rows[2:3]] == [("4.00×", "2.25×", "4.00×")]
    assert [row[-1] for row in shapes.rows] == ["4x4", "none"]


def test_a_shape_that_a_tile_was_refused_for_counts_without_winograd() -> None:
    *_, tiles, shapes = tables(report())
    assert shapes.rows[1][-2] == "–"
    assert tiles.rows[-1][4] == "28.0 ms", "three of 9 ms, and one of 1 ms without Winograd"
    assert {each.tile for each in winograd().shapes[1].tiles} == {0, 2, 4, 6}


def test_markdown_has_all_tables_and_remarks() -> None:
    text = to_markdown(report())
    assert all(f"**{table.title}**" in text for table in tables(report()))
    assert all(f"{remark}.\n" in text for remark in remarks(report()))


def test_software_is_called_so() -> None:
    assert any("is software" in remark for remark in remarks(report(software=True)))
    assert not any("is software" in remark for remark in remarks(report()))


def test_software_has_no_roofline() -> None:
    """A processor reaches in no kernel what another kernel measured."""
    for software in (False, True):
        made = report(software=software)
        kinds, totals, *_ = tables(made)
        page = to_html(made)
        assert ("% of roof" in kinds.columns, "% of roof" in page) == (not software, not software)
        assert {len(row) for row in kinds.rows} == {len(kinds.columns)}
        assert any("peaks" in name for name, _ in totals.rows) == (not software)


def test_files_and_the_size_of_images_are_named() -> None:
    made = replace(report(), files=("sd21/unet.tflite", "sd21/vae_decoder.tflite"), size="384x640")
    assert remarks(made)[0] == "Measured: sd21/unet.tflite and sd21/vae_decoder.tflite, for images of 384x640"
    assert remarks(replace(made, size=None))[0] == "Measured: sd21/unet.tflite and sd21/vae_decoder.tflite"


class Reader(HTMLParser):
    """Reads a page: its bars with their titles, and whether all elements are closed in order."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bars: list[dict[str, str | None]] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "rect":
            self.bars.append(dict(attrs))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-2:] == ["rect", "title"]:
            self.titles.append(data)


def read_page(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_the_page_stands_alone_and_shows_every_dispatch() -> None:
    text = to_html(report(70))
    page = read_page(text)
    assert not re.search(r"(?:src|href)=|https?:|@import|url\(", text)
    rows = {y: [bar for bar in page.bars if bar["y"] == y] for y in {bar["y"] for bar in page.bars}}
    assert sorted(map(len, rows.values()))[::2] == [1, 70]
    assert all(kind_of(kernel).split("<")[0] in text for kernel, _ in KERNELS)
    assert "A &lt;GPU&gt;" in text
    assert "group norm &lt;&amp;&gt;" in text
    assert sum("TFLOPS" in says and "GB/s" in says for says in page.titles) == 70


def test_one_of_a_kind_is_no_plural() -> None:
    one = replace(network(1), operations=1, run_seconds=(0.005,))
    text = to_html(replace(report(), networks=(one,)))
    assert "dispatch for 1 operation<" in text
    assert not re.search(r"\b1 (dispatches|operations|runs)\b", text)


def test_bars_lie_end_to_end_in_the_order_of_the_dispatches() -> None:
    page = read_page(to_html(report(70)))
    places = [[float(bar[name] or 0) for name in ("x", "width", "y")] for bar in page.bars]
    bottom = max(y for *_, y in places)
    bars = [(x, width) for x, width, y in places if y == bottom]
    assert len(bars) == 70
    for (x, width), (after, _) in pairwise(bars):
        assert x + width == pytest.approx(after, abs=1e-3)
    assert sum(width for _, width in bars) == pytest.approx(1000, abs=0.1)


def test_more_kinds_than_colours_share_the_last() -> None:
    names = [f"kind{letter}" for letter in "abcdefghijklmnop"]
    costs = tuple(
        replace(cost, kernel=name) for name, cost in zip(names, dispatches(len(names)), strict=True)
    )
    text = to_html(replace(report(), networks=(replace(network(), dispatches=costs),)))
    assert all(colour in text for colour in COLOURS)
    assert "#8b939c" in text


def test_a_network_without_dispatches_has_a_page() -> None:
    empty = replace(report(), networks=(replace(network(), dispatches=()),))
    read_page(to_html(empty))
    assert json.loads(to_trace(empty.networks))["traceEvents"]


@settings(max_examples=20)
@given(count=st.integers(1, 50))
def test_a_trace_is_json_whose_times_never_go_back(count: int) -> None:
    made = network(count)
    events = json.loads(to_trace([made, replace(made, component="vae_decoder")]))["traceEvents"]
    assert {event["pid"] for event in events} == {1, 2}
    for pid in (1, 2):
        timed = [event for event in events if event["ph"] == "X" and event["pid"] == pid]
        assert [event["args"]["dispatch"] for event in timed] == list(range(count))
        for one, next_one in pairwise(timed):
            assert one["ts"] + one["dur"] == pytest.approx(next_one["ts"])
        whole = sum(each.seconds for each in made.dispatches)
        assert timed[-1]["ts"] + timed[-1]["dur"] == pytest.approx(whole * 1e6)
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"unet on A <GPU>, fp16", "vae_decoder on A <GPU>, fp16"}


def step(moved: int, arithmetic: int) -> ProgramStep:
    return ProgramStep(
        pipeline=0,
        places=(),
        groups=(1, 1, 1),
        flops=4 * arithmetic,
        arithmetic=arithmetic,
        bytes=moved,
        operation="",
    )


def test_the_longer_of_moving_and_computing_counts() -> None:
    roofline = Roofline("a", bandwidth=100, half_flops=1000, float_flops=500)
    assert roofline.seconds([step(50, 100)]) == 0.5
    assert roofline.seconds([step(50, 800)]) == 0.8
    assert roofline.seconds([step(50, 800)], half=False) == 1.6
    assert roofline.seconds([step(50, 100), step(50, 800)]) == pytest.approx(1.3)
    assert roofline.seconds([]) == 0


def test_the_figures_of_an_adreno_740_are_described() -> None:
    roofline = Roofline.of(find_device("adreno-740"))
    assert (roofline.bandwidth, roofline.half_flops, roofline.float_flops) == (67.2e9, 7.36e12, 3.68e12)
    gpu = gpu_of(find_device("adreno-740"))
    assert (gpu.half, gpu.buffer_bytes) == (True, 977272832)


@pytest.mark.parametrize("lacking", ["memory_bandwidth", "half_flops", "float_flops"])
def test_a_device_without_a_figure_is_refused(lacking: str) -> None:
    known = replace(find_device("adreno-740"), **{lacking: None})
    with pytest.raises(BadConfig, match=r"adreno-740 does not say all of memory_bandwidth, half_flops"):
        Roofline.of(known)
    assert Device().memory_bandwidth is None


def test_figures_of_a_description_are_positive_integers(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("memory_bandwidth = 0\n")
    with pytest.raises(BadConfig, match=r"memory_bandwidth is 0; a positive integer was expected"):
        find_device(str(tmp_path / "mine.toml"))


def test_the_stages_of_the_ablation_add_up_to_all_switches() -> None:
    rows = list(stages().items())
    assert [name for name, _ in rows] == [
        "baseline",
        "+ partially fused softmax",
        "+ group norm and GELU kernels",
        "+ FlashAttention",
        "+ Winograd",
        "all, sums in float32 alone",
    ]
    assert rows.pop()[1] == ("short_sums",)
    assert set(rows[0][1]) == set(Switches.__dataclass_fields__) - {
        "kept_transforms",
        "short_sums",
        "matrices",
        "measured_outputs",
    }
    assert rows[-1][1] == ()
    for (_, before), (_, after) in pairwise(rows):
        assert set(after) < set(before)


def test_the_counts_are_those_of_the_paper_s_second_table() -> None:
    counted = [(t, saved_flops(t), tensor_growth(t), weight_growth(t)) for t in TILES]
    paper = [(2, 2.25, 4.0, 1.77), (4, 4.0, 2.25, 4.0), (6, 5.06, 1.8, 7.12), (8, 5.76, 1.56, 11.12)]
    for mine, theirs in zip(counted, paper, strict=True):
        assert mine == pytest.approx(theirs, rel=0.015)
    assert (saved_flops(0), tensor_growth(0), weight_growth(0)) == (1, 1, 1)
