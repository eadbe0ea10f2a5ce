"""Which records of a batch break a topic's rules: the same as reading every Record says, and no bomb goes off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.batches import Batch, record
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.batch import HEADER_SIZE, read_header
from tailrace.records.record import Headers, Record, build, iterate
from tailrace.records.record_errors import MOST_BLAMED, Rules, record_errors

RULES = Rules(1000, 2000, keyed=True, counted=True)
HEADERS: st.SearchStrategy[Headers] = st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=200)), max_size=3
).map(tuple)
RECORDS = st.builds(
    Record,
    timestamp=st.sampled_from([-1, 0, 999, 1000, 1500, 2000, 2001, 10**12]),
    key=st.none() | st.binary(max_size=200),
    value=st.none() | st.binary(max_size=200),
    headers=HEADERS,
)


def looked(batch: bytes | bytearray, rules: Rules = RULES) -> tuple[list[int], list[int]]:
    outside, keyless, _ = record_errors(read_header(batch), bytes(batch[HEADER_SIZE:]), rules, lambda: None)
    return outside, keyless


@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_those_are_blamed_that_reading_the_records_shows(records: list[Record]) -> None:
    batch = build(records)
    read = list(enumerate(iterate(batch)))
    outside = [at for at, one in read if one.timestamp > 2000 or 0 <= one.timestamp < 1000]
    assert looked(batch) == (outside, [at for at, one in read if one.key is None])
    assert looked(batch, RULES._replace(keyed=False)) == (outside, [])


@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_the_records_say_which_of_their_timestamps_is_the_largest(records: list[Record]) -> None:
    batch = build(records)
    blamed = record_errors(read_header(batch), bytes(batch[HEADER_SIZE:]), RULES, lambda: None)
    assert blamed.max_timestamp == max(one.timestamp for one in records)


@pytest.mark.parametrize(
    ("deltas", "plain", "counted"),
    [([0, 1], True, True), ([0, 2], True, False), ([1, 0], True, False), ([0, 2**40], False, False)],
)
def test_offsets_count_up_where_they_have_to(deltas: list[int], plain: bool, counted: bool) -> None:
    """Kafka looks at those of uncompressed batches no more closely than that they are ints."""
    for rules, taken in ((RULES._replace(counted=False), plain), (RULES, counted)):
        batch = Batch(records=[record(delta, b"v", b"k") for delta in deltas], base_timestamp=1500).encode()
        refused = None
        try:
            record_errors(read_header(batch), batch[HEADER_SIZE:], rules, lambda: None)
        except ApiError as error:
            refused = error.code
        assert refused == (None if taken else ErrorCode.INVALID_RECORD)


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_what_is_no_batch_of_records_is_refused_and_never_more(records: list[Record], data: st.DataObject) -> None:
    batch = build(records)
    at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        looked(batch)
    except ApiError as refused:
        assert refused.code == ErrorCode.INVALID_RECORD
    else:
        count = read_header(batch).record_count
        batch += b"\0"
        with pytest.raises(ApiError, match="left after the last record"):
            looked(batch)
        assert count == len(records)


def test_a_client_is_not_told_of_millions_of_records() -> None:
    batch = Batch(records=[record(0, b"")] * 10_000, base_timestamp=1500).encode()
    assert looked(batch, RULES._replace(counted=False)) == ([], list(range(MOST_BLAMED)))


@pytest.mark.parametrize(
    "records",
    [[record(0, b"", b"k")] * 10_000, [record(0, b"", b"k", [("", b"")] * 10_000)]],
    ids=["records", "headers"],
)
def test_somebody_may_stop_it_every_few_thousand_records_or_headers(records: list[bytes]) -> None:
    class Stop(Exception):
        """By whoever had it begun."""

    batch, steps = Batch(records=records, base_timestamp=1500).encode(), list[int]()
    rules = RULES._replace(counted=False)

    def on_step() -> None:
        steps.append(1)
        if len(steps) == 2:
            raise Stop

    with pytest.raises(Stop):
        record_errors(read_header(batch), batch[HEADER_SIZE:], rules, on_step)
