"""Fetch sessions (KIP-227), as tables of request -> session."""

from __future__ import annotations

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.hot.fetch import Fetch, FetchPartition, PartitionData
from tailrace_broker.fetch.sessions import EVICTION_MS, FetchSessions, wanted

EMPTY: list[tuple[bytes, list[FetchPartition]]] = []


def want(partition: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, 1024)


def fetch(
    session_id: int, epoch: int, *partitions: FetchPartition, forgotten: list[tuple[bytes, list[int]]] | None = None
) -> Fetch:
    topics = [(b"t", list(partitions))] if partitions else EMPTY
    return Fetch(-1, 500, 1, 1 << 20, 0, session_id, epoch, topics, forgotten or [], "")


def test_epoch_zero_opens_a_session_and_its_first_answer_is_full() -> None:
    sessions = FetchSessions(10)
    session, full = sessions.open(fetch(0, 0, want(0), want(1)), 0, 77)
    assert session is not None
    assert (session.session_id, full) == (77, True)
    again, full = sessions.open(fetch(77, 1), 0, 78)
    assert again is session
    assert not full
    assert [row.partition for _, row in wanted(fetch(77, 1), again)] == [0, 1]


def test_an_incremental_request_adds_replaces_and_forgets() -> None:
    sessions = FetchSessions(10)
    sessions.open(fetch(0, 0, want(0), want(1)), 0, 77)
    request = fetch(77, 1, want(1, 50), want(2), forgotten=[(b"t", [0])])
    session, _ = sessions.open(request, 0, 0)
    assert [(row.partition, row.fetch_offset) for _, row in wanted(request, session)] == [(1, 50), (2, 0)]


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (99, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (77, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (77, 0x7FFFFFFF, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_wrong_session_or_epoch_is_refused(session_id: int, epoch: int, code: ErrorCode) -> None:
    sessions = FetchSessions(10)
    sessions.open(fetch(0, 0, want(0)), 0, 77)
    with pytest.raises(ApiError) as refused:
        sessions.open(fetch(session_id, epoch), 0, 0)
    assert refused.value.code is code


def test_the_final_epoch_closes_the_session_and_fetches_without_one() -> None:
    sessions = FetchSessions(10)
    sessions.open(fetch(0, 0, want(0)), 0, 77)
    assert sessions.open(fetch(77, -1, want(0)), 0, 0) == (None, True)
    assert len(sessions) == 0


def test_a_full_cache_gives_no_session_until_one_was_idle_for_long() -> None:
    sessions = FetchSessions(1)
    sessions.open(fetch(0, 0, want(0)), 0, 1)
    assert sessions.open(fetch(0, 0, want(0)), EVICTION_MS - 1, 2) == (None, True)
    session, _ = sessions.open(fetch(0, 0, want(0)), EVICTION_MS, 3)
    assert session is not None
    assert session.session_id == 3


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    """A thousand sessions of a hundred thousand partitions would take thirty gigabytes."""
    sessions = FetchSessions(10, most_partitions=5, most_of_one=4)
    assert sessions.open(fetch(0, 0, *map(want, range(5))), 0, 1) == (None, True)  # too many for one
    first, _ = sessions.open(fetch(0, 0, *map(want, range(3))), 0, 2)
    assert first is not None and sessions.partition_count == 3
    assert sessions.open(fetch(0, 0, *map(want, range(3))), 0, 3) == (None, True)
    second, _ = sessions.open(fetch(0, 0, want(0), want(1)), 0, 4)
    assert second is not None and sessions.partition_count == 5
    again, _ = sessions.open(fetch(2, 1, forgotten=[(b"t", [0, 1])]), 0, 0)
    assert again is first and sessions.partition_count == 3
    assert sessions.open(fetch(0, 0, *map(want, range(4))), EVICTION_MS, 5)[0] is not None
    assert len(sessions) == 2 and sessions.partition_count == 5  # the one that was idle for longest made room


def test_a_session_that_grows_beyond_its_bound_is_forgotten() -> None:
    sessions = FetchSessions(10, most_of_one=4)
    sessions.open(fetch(0, 0, *map(want, range(3))), 0, 1)
    sessions.open(fetch(1, 1, *map(want, range(3))), 0, 0)  # the same ones again
    with pytest.raises(ApiError) as refused:
        sessions.open(fetch(1, 2, want(7), want(8)), 0, 0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0 and sessions.partition_count == 0


def test_only_news_is_told_again() -> None:
    session, _ = FetchSessions(1).open(fetch(0, 0, want(0)), 0, 1)
    assert session is not None
    row = PartitionData(0, 0, 10, 10, 0, b"")
    assert session.news(b"t", row)
    assert not session.news(b"t", row)
    assert session.news(b"t", row._replace(records=b"x"))
    assert session.news(b"t", row._replace(high_watermark=11))
    assert session.news(b"t", row._replace(error_code=6, high_watermark=-1))
    assert session.news(b"t", row)


def test_where_else_to_read_and_where_to_cut_is_told_until_it_is_done() -> None:
    session, _ = FetchSessions(1).open(fetch(0, 0, want(0)), 0, 1)
    assert session is not None
    row = PartitionData(0, 0, 10, 10, 0, None)
    assert session.news(b"t", row)
    for elsewhere in (row._replace(preferred=2), row._replace(diverging=(3, 7))):
        assert session.news(b"t", elsewhere)
        assert session.news(b"t", elsewhere), "who came back from there has the same session"
    assert not session.news(b"t", row)


def test_partitions_that_got_data_go_to_the_end() -> None:
    session, _ = FetchSessions(1).open(fetch(0, 0, want(0), want(1), want(2)), 0, 1)
    assert session is not None
    session.rotate([(b"t", 0)])
    assert [partition for _, partition in session.wants] == [1, 2, 0]


def test_a_request_that_forgets_more_than_a_session_holds_ends_it() -> None:
    sessions = FetchSessions(10, most_of_one=4)
    sessions.open(fetch(0, 0, *map(want, range(3))), 0, 1)
    session, _ = sessions.open(fetch(1, 1, forgotten=[(b"t", [0, 7, 8, 9])]), 0, 0)
    assert session is not None and len(session.wants) == 2
    with pytest.raises(ApiError) as refused:
        sessions.open(fetch(1, 2, forgotten=[(b"t", [0, 1, 7, 8, 9])]), 0, 0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0 and sessions.partition_count == 0


def test_a_client_that_grows_beyond_what_a_session_holds_goes_on_without_one() -> None:
    """As Kafka's consumer does: after the refusal it names all that it wants, with each request, until that is less."""
    sessions = FetchSessions(10, most_of_one=4)
    sessions.open(fetch(0, 0, *map(want, range(3))), 0, 1)
    with pytest.raises(ApiError):
        sessions.open(fetch(1, 1, *map(want, range(3, 8))), 0, 0)
    for _ in range(3):  # session 0 in an answer lets it begin with epoch 0 again
        everything = fetch(0, 0, *map(want, range(8)))
        assert sessions.open(everything, 0, 2) == (None, True)
        assert [row.partition for _, row in wanted(everything, None)] == list(range(8))
    session, full = sessions.open(fetch(0, 0, *map(want, range(4))), 0, 3)
    assert session is not None and full
    assert sessions.partition_count == 4
