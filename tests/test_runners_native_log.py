"""The native log, read on logs that the real delegate printed (tests/recorded/record.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.run.runners.native_log import NativeLog, parse

RECORDED = Path(__file__).parent / "recorded"
SWIFTSHADER = ("SwiftShader Device (Subzero)", "CPU / Software")


def recorded(name: str) -> NativeLog:
    return parse((RECORDED / f"{name}.log").read_text())


@pytest.mark.parametrize("name", [p.stem for p in RECORDED.glob("*.log") if p.stem != "no_adapter"])
def test_every_log_names_the_adapter(name: str) -> None:
    assert (recorded(name).adapter, recorded(name).adapter_type) == SWIFTSHADER


def test_a_whole_delegation_is_stated_and_has_no_rejections() -> None:
    log = recorded("whole")
    assert log.replaced == ((3, 3, 1),)
    assert (log.delegated, log.partitions, log.initialised) == (3, 1, 1)
    assert (log.rejected, log.tallies, log.problems, log.restored) == ((), (), (), False)


def test_a_partial_delegation_gives_each_reason() -> None:
    log = recorded("five_dimensions")
    assert log.rejected == (
        ("RESHAPE", "Tensor dimensions must be less than 5. Reshape"),
        ("SUM", "Unknown layout."),
    )
    assert (log.delegated, log.partitions, log.tallies) == (4, 2, ((4, 2),))


def test_an_accepted_operation_may_stay_behind() -> None:
    log = recorded("cut_off")
    assert [kind for kind, _ in log.rejected] == ["GATHER_ND"]
    assert log.tallies == ((2, 2),)


def test_the_cpu_delegate_does_not_count() -> None:
    assert "TfLiteXNNPackDelegate" in (RECORDED / "cut_off_with_cpu.log").read_text()
    log = recorded("cut_off_with_cpu")
    assert (log.replaced, log.on_cpu) == (((2, 4, 2),), ((1, 3, 2),))


def test_a_log_of_no_delegation_is_read() -> None:
    log = recorded("broadcast_to")
    assert log.rejected == (("BROADCAST_TO", "Operation is not supported."),)
    assert (log.delegated, log.partitions, log.tallies) == (0, 0, ((0, 1),))


def test_each_graph_of_a_file_is_counted() -> None:
    log = recorded("loop")
    assert log.replaced == ((1, 1, 1), (3, 3, 1))
    assert (log.delegated, log.partitions) == (4, 2)


def test_what_the_delegate_gives_back_is_not_delegated() -> None:
    log = recorded("refused")
    assert log.replaced == ((2, 2, 1),)
    assert (log.delegated, log.partitions, log.restored) == (0, 0, True)
    assert (
        log.problems[0]
        == "INVALID_ARGUMENT: Shape mismatch: {bhwc, {48, 1, 1, 64}} vs {bhwc, {1, 1, 48, 64}}"
    )


def test_an_error_during_the_run_is_told_once_without_its_consequences() -> None:
    problems = recorded("winograd_912").problems
    assert len(problems) == 1
    assert problems[0].startswith("Validation error: Texture size ([Extent3D width:16, height:8208,")


def test_a_constant_of_high_rank_is_a_rejection_and_no_error() -> None:
    """The delegate prints it over five lines before it lists the operation."""
    log = recorded("constant_of_rank_five")
    assert log.rejected[0] == ("ADD", "Can't parse inputs with const tensors.")
    assert log.problems == ()


def test_an_error_over_several_lines_is_one() -> None:
    (problem,) = parse("E0000 00:00:1.5 99 m.cc:7] {\n  dims: [2,3]\n} isn't it.\nINFO: more").problems
    assert problem == "{ dims: [2,3] } isn't it."


def test_a_log_without_an_adapter_is_read() -> None:
    log = recorded("no_adapter")
    assert (log.adapter, log.delegated) == (None, 0)
    assert log.problems[0] == "Failed to initialize WebGPU environment: INTERNAL: No adapters found"


def test_tallies_stand_in_where_the_replacement_is_not_stated() -> None:
    text = (RECORDED / "cut_off.log").read_text()
    quiet = parse("\n".join(line for line in text.splitlines() if "VERBOSE" not in line))
    assert (quiet.delegated, quiet.replaced) == (2, ())


def test_a_reason_may_run_over_lines() -> None:
    log = parse(
        "ERROR: Following operations are not supported by GPU delegate:\n"
        "CUSTOM Foo: first,\n  second\nSUM: third\n"
        "No operations will run on the GPU, and all 7 operations will run on the CPU."
    )
    assert log.rejected == (("CUSTOM Foo", "first, second"), ("SUM", "third"))
    assert log.tallies == ((0, 7),)


@given(
    st.dictionaries(
        st.sampled_from(["ADD", "FULLY_CONNECTED", "RESIZE_NEAREST_NEIGHBOR", "CUSTOM FlexErf"]),
        st.text("abc XYZ():[]{}.,0123456789", min_size=1),
        min_size=1,
    ),
    st.integers(1, 99),
    st.integers(1, 99),
)
def test_any_rejections_are_read_back(reasons: dict[str, str], gpu: int, cpu: int) -> None:
    lines = "\n".join(f"{kind}: {reason}" for kind, reason in reasons.items())
    log = parse(
        f"noise\nERROR: Following operations are not supported by GPU delegate:\n{lines}\n"
        f"{gpu} operations will run on the GPU, and the remaining {cpu} operations will run on the CPU.\nmore"
    )
    assert dict(log.rejected) == reasons
    assert log.delegated == gpu


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert parse(text).delegated == 0 or "node" in text or "operations" in text


@pytest.mark.parametrize("release", ["2.1.2", "2.1.3", "2.1.4"])
def test_releases_that_take_relu_0_to_1_log_no_replacement(release: str) -> None:
    log = recorded(f"litert-{release}")
    assert (log.rejected, log.problems, log.replaced, log.initialised) == ((), (), (), 1)


@pytest.mark.parametrize("release", ["2.1.5", "2.1.6", "2.2.0", "2.3.0", "2.4.0.dev20261026"])
def test_releases_that_reject_it_say_so_and_an_npu_is_no_problem(release: str) -> None:
    log = recorded(f"litert-{release}")
    assert log.rejected == (("RELU_0_TO_1", "Not supported op RELU_0_TO_1"),)
    assert (log.problems, log.tallies, log.delegated) == ((), ((0, 1),), 0)


def test_some_releases_log_an_error_of_their_dispatch_library() -> None:
    with_error = [p.stem for p in RECORDED.glob("litert-*.log") if "Dispatch API" in p.read_text()]
    assert sorted(with_error) == ["litert-2.1.5", "litert-2.1.6", "litert-2.2.0"]
