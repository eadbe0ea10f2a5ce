"""The ids that decide where a request goes, read where they lie: every version of every API that begins with one."""

import struct
from typing import Any

import pytest

from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.header import FLEXIBLE_FROM, parse_request_header
from tailrace_gateway.relay import peek

FIRST: dict[ApiKey, tuple[Any, int]] = {  # a request, and the last version that names one id
    ApiKey.INIT_PRODUCER_ID: (m.InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=1), 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="mine",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[],
        ),
        3,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (
        m.AddOffsetsToTxnRequest(transactional_id="mine", producer_id=1, producer_epoch=0, group_id="other"),
        4,
    ),
    ApiKey.END_TXN: (m.EndTxnRequest(transactional_id="mine", producer_id=1, producer_epoch=0, committed=True), 5),
}
CASES = [(key, version) for key, (_, last) in FIRST.items() for version in range(last + 1)]
COMMIT = m.TxnOffsetCommitRequest(transactional_id="other", group_id="mine", producer_id=1, producer_epoch=0, topics=[])


def body_of(request: Any, version: int) -> tuple[memoryview, int]:
    """A whole frame, and where its client id ends."""
    data = codec.encode_request(request, version, 7, "client")
    header = parse_request_header(memoryview(data)[4:])
    return memoryview(data), 14 + len(header.client_id or "")


@pytest.mark.parametrize(("key", "version"), CASES)
def test_the_transactional_id_comes_first(key: ApiKey, version: int) -> None:
    assert APIS[key].max_version >= version
    view, body = body_of(FIRST[key][0], version)
    assert peek.first_string(view, body, version >= FLEXIBLE_FROM[key]) == "mine"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("transactional_id", ["other", "", "\N{SNOWMAN}" * 100])
def test_the_group_of_txn_offset_commit_comes_second(version: int, transactional_id: str) -> None:
    COMMIT.transactional_id = transactional_id
    view, body = body_of(COMMIT, version)
    assert peek.second_string(view, body, version >= FLEXIBLE_FROM[ApiKey.TXN_OFFSET_COMMIT]) == "mine"


@pytest.mark.parametrize("version", [0, 5])
def test_a_request_that_ends_before_its_group_is_refused(version: int) -> None:
    COMMIT.transactional_id = "other"
    view, body = body_of(COMMIT, version)
    whole = bytes(view)
    for end in range(body, whole.index(b"mine") + 3):
        with pytest.raises((IndexError, ValueError, struct.error)):
            peek.second_string(memoryview(whole[:end]), body, version >= 3)
