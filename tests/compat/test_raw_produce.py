"""Produce on the wire: what is refused with which code, and what a retried idempotent batch is answered with."""

import time
from dataclasses import replace

import pytest

from support.batches import CONTROL, TRANSACTIONAL, Batch, batch, record
from support.raw import build
from support.stage import coordinator, create_topic, produce_request, wait_for_topic
from support.targets import Target
from support.waiting import until
from tailrace.records.compression import Codec, compress

pytestmark = pytest.mark.also_plain

UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TOPIC_EXCEPTION = -1, 2, 10, 17
INVALID_TIMESTAMP, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 32, 45, 47
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_RECORD = 53, 87
OFFSETS_TOPIC = "__consumer_offsets"


def producer_id(target: Target) -> tuple[int, int]:
    request = build(22, transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)

    def ask() -> tuple[int, int] | None:
        answer = target.ask(request, 4)
        return (answer.producer_id, answer.producer_epoch) if answer.error_code == 0 else None

    return until(ask, "a producer id")


def numbered(producer: tuple[int, int], sequence: int, *values: bytes) -> bytes:
    records = [record(n, value) for n, value in enumerate(values)]
    identity, epoch = producer
    return Batch(records=records, producer_id=identity, producer_epoch=epoch, base_sequence=sequence).encode()


@pytest.mark.capability("idempotent produce: a duplicate is answered with its first offset")
def test_a_retried_idempotent_batch_is_answered_with_its_first_offset(target: Target) -> None:
    topic, producer = create_topic(target), producer_id(target)
    first, second = numbered(producer, 0, b"a", b"b"), numbered(producer, 2, b"c")
    answers = [topic.produce(data) for data in (first, second, first, second)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 2), (0, 0), (0, 2)]
    assert topic.produce(batch(b"next")).base_offset == 3


@pytest.mark.capability("a batch may claim no more records than its bytes can be")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("claimed", [2**31 - 1, 1 << 24])
def test_a_batch_that_claims_more_records_than_it_can_hold_is_refused(
    target: Target, codec: Codec, claimed: int
) -> None:
    topic = create_topic(target)
    payload = record(0, b"x") if codec is Codec.NONE else compress(codec, record(0, b"x"))
    claim = Batch(payload=payload, attributes=codec, record_count=claimed, last_offset_delta=claimed - 1)
    assert topic.produce(claim.encode()).error_code == INVALID_RECORD
    assert topic.produce(batch(b"next")).base_offset == 0


@pytest.mark.capability("plain records are taken under any transactional id")
@pytest.mark.parametrize("transactional_id", ["", "transaction"])
@pytest.mark.parametrize("version", [3, 9, 13])
def test_plain_records_are_taken_under_any_transactional_id(
    target: Target, version: int, transactional_id: str
) -> None:
    topic = create_topic(target)
    request = produce_request(topic, batch(b"plain"), version=version)
    request.transactional_id = transactional_id
    with topic.leader() as connection:
        answer = connection.ask(request, version).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)


@pytest.mark.capability("idempotent produce: sequences are checked")
def test_a_gap_in_the_sequence_is_out_of_order(target: Target) -> None:
    topic, producer = create_topic(target), producer_id(target)
    assert topic.produce(numbered(producer, 0, b"a")).error_code == 0
    assert topic.produce(numbered(producer, 5, b"b")).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert topic.produce(numbered(producer, 1, b"b")).base_offset == 1


@pytest.mark.capability("idempotent produce: sequences are checked")
def test_an_older_producer_epoch_is_refused(target: Target) -> None:
    topic, (identity, epoch) = create_topic(target), producer_id(target)
    assert topic.produce(numbered((identity, epoch + 1), 0, b"a")).error_code == 0
    assert topic.produce(numbered((identity, epoch), 0, b"b")).error_code == INVALID_PRODUCER_EPOCH


@pytest.mark.capability("idempotent produce: sequences are checked")
def test_an_unknown_producer_may_start_at_any_sequence(target: Target) -> None:
    topic, producer = create_topic(target), producer_id(target)
    answer = topic.produce(numbered(producer, 7, b"a"))
    assert (answer.error_code, answer.base_offset) == (0, 0)


@pytest.mark.capability("producer ids are never given twice")
def test_producer_ids_differ_on_every_node(target: Target) -> None:
    request = build(22, transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)
    producer_id(target)
    given = [target.ask(request, 4, node).producer_id for node in range(target.brokers) for _ in range(5)]
    assert len(set(given)) == len(given)


def hostile() -> dict[str, tuple[bytes, int]]:
    good = batch(b"one", b"two")
    return {
        "wrong CRC": (good[:-1] + bytes([good[-1] ^ 1]), CORRUPT_MESSAGE),
        "control batch": (Batch(attributes=CONTROL).encode(), INVALID_RECORD),
        "transactional batch without a transactional id": (
            Batch(attributes=TRANSACTIONAL).encode(),
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        "no records": (b"", INVALID_RECORD),
        "two batches": (batch(b"a") + batch(b"b"), INVALID_RECORD),
        "record count 0": (Batch(record_count=0).encode(), INVALID_RECORD),
        "last offset delta too large": (Batch(last_offset_delta=5).encode(), INVALID_RECORD),
        "huge record count": (Batch(record_count=2**31 - 1).encode(), INVALID_RECORD),
        "negative record count": (Batch(record_count=-5).encode(), INVALID_RECORD),
        "base sequence without producer": (Batch(base_sequence=3).encode(), 0),
        "length beyond the bytes": (Batch(length=5000).encode(), INVALID_RECORD),
        "length below the header": (Batch(length=5).encode(), CORRUPT_MESSAGE),
        "truncated": (good[:40], INVALID_RECORD),
        "magic 9": (Batch(magic=9).encode(), CORRUPT_MESSAGE),
    }


@pytest.mark.capability("bad batches are refused: CRC, magic, lengths, counts, control batches")
@pytest.mark.parametrize("what", hostile())
def test_a_bad_batch_is_refused(target: Target, what: str) -> None:
    topic = create_topic(target)
    data, code = hostile()[what]
    assert topic.produce(data).error_code == code
    expected_offset = 1 if code == 0 else 0
    assert topic.produce(batch(b"good")).base_offset == expected_offset


@pytest.mark.capability("bad batches are refused: CRC, magic, lengths, counts, control batches")
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_a_compacted_topic_cannot_decompress_is_refused_for_good(target: Target, codec: Codec) -> None:
    topic = create_topic(target, configs={"cleanup.policy": "compact"})
    good, junk = record(0, b"v", b"k"), b"\7" * 30
    answer = topic.produce(Batch(records=[good], attributes=codec, payload=junk).encode())
    assert answer.error_code == (UNKNOWN_SERVER_ERROR if target.is_kafka else INVALID_RECORD)
    assert (
        topic.produce(Batch(records=[good], attributes=codec, payload=compress(codec, good)).encode()).error_code == 0
    )


@pytest.mark.capability("bad batches are refused: CRC, magic, lengths, counts, control batches")
def test_offsets_in_a_compressed_batch_of_a_compacted_topic_count_up(target: Target) -> None:
    """Kafka means INVALID_RECORD: writing the message of that fails."""
    topic = create_topic(target, configs={"cleanup.policy": "compact"})
    records = [record(0, b"v", b"k"), record(2, b"w", b"l")]
    squeezed = Batch(records=records, attributes=Codec.ZSTD, payload=compress(Codec.ZSTD, b"".join(records)))
    answer = topic.produce(squeezed.encode())
    assert answer.error_code == (UNKNOWN_SERVER_ERROR if target.is_kafka else INVALID_RECORD)
    assert topic.produce(Batch(records=records).encode()).error_code == 0


@pytest.mark.capability("bad batches are refused: CRC, magic, lengths, counts, control batches")
def test_several_streams_of_snappy_are_one_where_records_are_looked_at(target: Target) -> None:
    topic = create_topic(target, configs={"cleanup.policy": "compact"})
    records = [record(0, b"v", b"k"), record(1, b"w", b"l")]
    payload = b"".join(compress(Codec.SNAPPY, one) for one in (records[0], b"", records[1]))
    answer = topic.produce(Batch(records=records, attributes=Codec.SNAPPY, payload=payload).encode())
    assert (answer.error_code, answer.base_offset) == (0, 0)
    again = topic.produce(Batch(records=records, attributes=Codec.SNAPPY, payload=payload + payload[:9]).encode())
    assert again.error_code == (UNKNOWN_SERVER_ERROR if target.is_kafka else INVALID_RECORD)


@pytest.mark.capability("offsets by timestamp, exact inside compressed batches and out of order")
@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_believes_the_records_about_the_largest_timestamp(target: Target, codec: Codec) -> None:
    topic, now = create_topic(target, configs={"cleanup.policy": "compact"}), int(time.time() * 1000)
    records = [record(0, b"v", b"k")]
    false = Batch(records=records, attributes=codec, payload=compress(codec, records[0]), base_timestamp=now)
    for at in (now + 10 * 3600 * 1000, now - 1000, -1):
        assert topic.produce(replace(false, max_timestamp=at).encode()).error_code == 0
    row = {"partition_index": 0, "timestamp": -3, "current_leader_epoch": -1}
    with topic.leader() as connection:
        request = build(2, replica_id=-1, isolation_level=0, topics=[{"name": topic.name, "partitions": [row]}])
        found = connection.ask(request, 7).topics[0].partitions[0]
    assert (found.error_code, found.timestamp) == (0, now)


@pytest.mark.capability("produce to internal topics is refused")
def test_clients_cannot_produce_to_the_offsets_topic(target: Target) -> None:
    coordinator(target, "any group")
    offsets = wait_for_topic(target, OFFSETS_TOPIC)
    assert offsets.produce(batch(b"mine")).error_code == INVALID_TOPIC_EXCEPTION


@pytest.mark.capability("max.message.bytes")
def test_a_batch_above_max_message_bytes_is_too_large(target: Target) -> None:
    topic = create_topic(target, configs={"max.message.bytes": "1000"})
    assert topic.produce(batch(bytes(1000))).error_code == MESSAGE_TOO_LARGE
    assert topic.produce(batch(bytes(900))).error_code == 0


@pytest.mark.capability("keyless records on a compacted topic are refused with RecordErrors")
def test_a_keyless_record_on_a_compacted_topic_is_an_invalid_record(target: Target) -> None:
    topic = create_topic(target, configs={"cleanup.policy": "compact"})
    records = [record(0, b"v", b"k"), record(1, b"v")]
    answer = topic.produce(Batch(records=records).encode())
    assert answer.error_code == INVALID_RECORD
    assert [row.batch_index for row in answer.record_errors] == [1]
    assert topic.produce(Batch(records=records[:1]).encode()).error_code == 0


@pytest.mark.capability("message.timestamp.type, message.timestamp.after.max.ms")
def test_log_append_time_is_stamped_and_answered(target: Target) -> None:
    topic = create_topic(target, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    answer = topic.produce(batch(b"now"))
    assert answer.error_code == 0
    assert before - 1000 <= answer.log_append_time_ms <= int(time.time() * 1000) + 1000


@pytest.mark.capability("message.timestamp.type, message.timestamp.after.max.ms")
def test_a_timestamp_from_the_far_future_is_refused(target: Target) -> None:
    topic = create_topic(target)
    future = int(time.time() * 1000) + 3 * 3600 * 1000
    assert topic.produce(batch(b"early", base_timestamp=future)).error_code == INVALID_TIMESTAMP


@pytest.mark.capability("produce acks 0, 1, all")
def test_acks_0_gets_no_answer_and_keeps_the_order(target: Target) -> None:
    topic = create_topic(target)
    with topic.leader() as connection:
        connection.send(produce_request(topic, batch(b"silent"), acks=0), 9)
        answer = connection.ask(produce_request(topic, batch(b"loud"), acks=1), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 1


@pytest.mark.capability("produce acks 0, 1, all")
def test_a_refused_produce_with_acks_0_closes_the_connection(target: Target) -> None:
    topic = create_topic(target)
    with topic.leader() as connection:
        connection.send(produce_request(topic, b"not a batch", acks=0), 9)
        assert connection.is_closed_by_server()


@pytest.mark.capability("produce pipelined: answers in request order")
def test_pipelined_produce_requests_are_answered_in_order(target: Target) -> None:
    topic = create_topic(target)
    with topic.leader() as connection:
        sent = [connection.send(produce_request(topic, batch(b"%d" % n)), 9) for n in range(50)]
        answers = [connection.receive(0, 9, correlation_id) for correlation_id in sent]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(50))


@pytest.mark.capability("produce to the wrong node: NOT_LEADER_OR_FOLLOWER with a leader hint (KIP-951)")
@pytest.mark.only("tailrace3")
def test_the_wrong_node_names_the_leader(target: Target) -> None:
    topic = create_topic(target)
    wrong = (topic.leaders[0] + 1) % target.brokers
    answer = target.ask(produce_request(topic, batch(b"a"), version=10), 10, wrong)
    row = answer.responses[0].partition_responses[0]
    assert (row.error_code, row.current_leader.leader_id) == (6, topic.leaders[0])
    assert [(n.node_id, n.port) for n in answer.node_endpoints] == [(topic.leaders[0], target.port + topic.leaders[0])]
