"""The header Range: what it asks for of a file of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from msd.export.web.byte_range import Unsatisfiable, parse_range


@given(size=st.integers(0, 50), first=st.integers(0, 60), last=st.integers(0, 60))
def test_a_range_holds_the_bytes_that_rfc_9110_says(size: int, first: int, last: int) -> None:
    content = bytes(range(size))
    wanted = {
        f"bytes={first}-{last}": content[first : last + 1],
        f"bytes={first}-": content[first:],
        f"bytes=-{last}": content[-last:] if last else b"",
    }
    for header, expected in wanted.items():
        try:
            part = parse_range(header, size)
        except Unsatisfiable:
            assert expected == b""
            continue
        if part is None:
            assert last < first
            assert header == f"bytes={first}-{last}"
        else:
            assert 0 <= part.first < part.end <= size
            assert content[part.first : part.end] == expected


@given(header=st.text(st.sampled_from("bytes=-, 0123456789x٣"), max_size=30), size=st.integers(0, 50))
def test_any_header_asks_for_a_part_the_whole_or_nothing(header: str, size: int) -> None:
    try:
        part = parse_range(header, size)
    except Unsatisfiable:
        return
    assert part is None or 0 <= part.first < part.end <= size
