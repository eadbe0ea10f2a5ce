"""Tag sections: both readers agree where one ends, and neither reads beyond the bytes that are there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.wire.header import end_of_tags, read_tags
from tailrace.wire.varint import unsigned

TAGS = st.dictionaries(st.integers(0, 20_000), st.binary(max_size=200), max_size=5)


def section(tags: dict[int, bytes]) -> bytes:
    written = b"".join(unsigned(tag) + unsigned(len(value)) + value for tag, value in sorted(tags.items()))
    return unsigned(len(tags)) + written


@given(tags=TAGS, before=st.binary(max_size=3), behind=st.binary(max_size=3))
def test_a_section_is_read_and_passed_over_alike(tags: dict[int, bytes], before: bytes, behind: bytes) -> None:
    written = section(tags)
    view = memoryview(before + written + behind)
    end = len(before) + len(written)
    assert end_of_tags(view, len(before)) == end
    found, found_end = read_tags(view, len(before))
    assert ({tag: bytes(value) for tag, value in found.items()}, found_end) == (tags, end)


@given(tags=TAGS, data=st.data())
def test_a_section_that_is_cut_is_not_read(tags: dict[int, bytes], data: st.DataObject) -> None:
    written = section(tags)
    view = memoryview(written)[: data.draw(st.integers(0, len(written) - 1))]
    for read in (end_of_tags, read_tags):
        with pytest.raises(IndexError):
            read(view, 0)
