"""Varints: what is written is read, and what does not end is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.wire.malformed import Malformed
from tailrace.wire.varint import read_unsigned, read_zigzag, unsigned, write_unsigned, write_zigzag


@given(value=st.integers(0, 2**32 - 1), before=st.binary(max_size=3))
def test_unsigned_varints_round_trip(value: int, before: bytes) -> None:
    data = bytearray(before)
    write_unsigned(data, value)
    assert data == before + unsigned(value)
    assert read_unsigned(bytes(data), len(before)) == (value, len(data))


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_zigzag_varints_round_trip(value: int) -> None:
    data = bytearray()
    write_zigzag(data, value)
    assert read_zigzag(bytes(data), 0) == (value, len(data))


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (300, "d804")]
)
def test_zigzag_varints_are_those_of_the_record_format(value: int, data: str) -> None:
    output = bytearray()
    write_zigzag(output, value)
    assert output.hex() == data


@given(value=st.integers(0x80, 2**32 - 1))
def test_a_varint_that_is_cut_is_an_index_error(value: int) -> None:
    for read in (read_unsigned, read_zigzag):
        with pytest.raises(IndexError):
            read(unsigned(value)[:-1], 0)


def test_a_varint_that_does_not_end_is_refused() -> None:
    with pytest.raises(Malformed):
        read_unsigned(b"\xff" * 20, 0)
    with pytest.raises(IndexError):
        read_zigzag(b"\xff" * 20, 0)
