"""What the page writes of numbers, on both sides of each threshold."""

from __future__ import annotations

from tests.web.node import evaluate

SCRIPT = """
const { [input[0]]: called } = await import('./page/' + input[1]);
console.log(JSON.stringify(input[2].map((value) => called(value))));
"""


def texts(function: str, module: str, values: list[object]) -> list[object]:
    """Return what a function of a module of the page makes of each value."""
    found: list[object] = evaluate(SCRIPT, function, module, values)
    return found


def test_bytes_are_whole_megabytes_and_none_only_where_there_are_none() -> None:
    values: list[object] = [0, 1, 499_999, 1_500_000, 999_499_999, 1_280_000_000]
    assert texts("megabytes", "quantity.js", values) == ["0", "1", "1", "2", "999", "1,280"]
    sizes = texts("size", "quantity.js", [1_280_000_000, 9_999_000_000, 10_000_000_000, 34_249_000_000])
    assert sizes == ["1,280 MB", "9,999 MB", "10.0 GB", "34.2 GB"]


def test_durations_have_the_digits_that_one_reads() -> None:
    found = texts("duration", "quantity.js", [0, 1.24, 9.94, 10, 59.6, 119.4, 119.6, 200, 3725])
    assert found == [
        "0.0 s",
        "1.2 s",
        "9.9 s",
        "10 s",
        "60 s",
        "119 s",
        "2 min 0 s",
        "3 min 20 s",
        "62 min 5 s",
    ]
    found = texts("shortTime", "quantity.js", [8.34, 99.94, 100.4, 999.4, 1000, 64_000])
    assert found == ["8.3 ms", "99.9 ms", "100 ms", "999 ms", "1.0 s", "64 s"]


def test_the_median_is_that_of_numbers_and_not_of_their_texts() -> None:
    assert texts("median", "quantity.js", [[10, 9, 100], [4, 1, 3, 2], [7]]) == [10, 2.5, 7]


def test_networks_are_called_by_their_titles() -> None:
    said: list[object] = [{"stage": stage, "network": "U-Net"} for stage in ("loading", "measuring")]
    assert texts("progressText", "progress-text.js", said) == ["Compiling the U-Net", "Measuring the U-Net"]


def test_each_code_of_an_error_has_a_title_and_those_that_are_not_final_a_way_on() -> None:
    codes: list[object] = ["no-webgpu", "too-small", "device-lost", "out-of-memory", "damaged", "offline"]
    codes += ["storage-full", "cancelled", "bad-request", "bad-manifest", "failed", "none of them"]
    advice = evaluate(SCRIPT, "adviceFor", "advice.js", codes)
    titles = [each["title"] for each in advice]
    assert len(set(titles[:-1])) == len(codes) - 1
    assert titles[-1] == titles[-2], "an error that nobody knows is told as one that was not expected"
    assert [code for code, each in zip(codes, advice, strict=True) if not each["ways"]] == ["bad-request"]
