"""Producing and consuming, by every Python client."""

import time

import pytest

from support.clients import Client, Record
from support.clients.base import EARLIEST
from support.stage import create_topic, unique, wait_for_topic
from support.targets import Target

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
RECORDS = [
    Record(b"plain"),
    Record(b"keyed", b"key"),
    Record(None, b"tombstone"),
    Record(b"with headers", b"k", (("a", b"1"), ("b", b"\x00\xff"))),
    Record(b"x" * 20_000, b""),
]


def contents(records: list[Record]) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]]:
    return [(record.value, record.key, record.headers) for record in records]


@pytest.mark.capability("produce and consume with every compression, keys, headers, tombstones")
@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_records_come_back_as_they_were_sent(target: Target, client: Client, codec: str | None) -> None:
    topic = create_topic(target)
    sent = client.produce(topic.name, RECORDS, compression=codec)
    assert sent == [(0, offset) for offset in range(len(RECORDS))]
    read = client.read(topic.name, EARLIEST, len(RECORDS))
    assert contents(read) == contents(RECORDS)
    assert [record.offset for record in read] == list(range(len(RECORDS)))


@pytest.mark.capability("produce acks 0, 1, all")
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_writes(target: Target, client: Client, acks: int | str) -> None:
    topic = create_topic(target)
    records = [Record(b"%d" % n) for n in range(10)]
    client.produce(topic.name, records, acks=acks)
    assert contents(client.read(topic.name, EARLIEST, 10)) == contents(records)


@pytest.mark.capability("idempotent producer")
@pytest.mark.parametrize("codec", [None, "lz4"], ids=str)
def test_an_idempotent_producer_writes_in_order(target: Target, client: Client, codec: str | None) -> None:
    topic = create_topic(target)
    records = [Record(b"%d" % n * 100) for n in range(500)]
    sent = client.produce(topic.name, records, idempotent=True, compression=codec)
    assert [offset for _, offset in sent] == list(range(500))
    assert contents(client.read(topic.name, EARLIEST, 500)) == contents(records)


@pytest.mark.capability("keyed records keep to a partition, unkeyed ones spread")
def test_equal_keys_go_to_one_partition(target: Target, client: Client) -> None:
    topic = create_topic(target, partitions=4)
    records = [Record(b"v", b"key-%d" % (n % 8)) for n in range(64)]
    sent = client.produce(topic.name, records, partitioned=False)
    homes: dict[bytes | None, set[int]] = {}
    for record, (partition, _) in zip(records, sent, strict=True):
        homes.setdefault(record.key, set()).add(partition)
    assert all(len(found) == 1 for found in homes.values())
    assert len(set().union(*homes.values())) > 1


@pytest.mark.capability("consume from earliest, latest, an offset, a timestamp")
def test_consuming_starts_where_asked(target: Target, client: Client) -> None:
    topic = create_topic(target)
    start_ms = int(time.time() * 1000) - 60_000
    records = [Record(b"%d" % n, timestamp_ms=start_ms + n * 1000) for n in range(10)]
    client.produce(topic.name, records)
    assert [r.value for r in client.read(topic.name, EARLIEST, 10)] == [r.value for r in records]
    assert [r.value for r in client.read(topic.name, 7, 3)] == [b"7", b"8", b"9"]
    assert client.offset_at(topic.name, start_ms + 3500) == 4
    assert client.offset_at(topic.name, start_ms + 5000) == 5
    assert client.offset_at(topic.name, start_ms + 3_600_000) in (None, 10)  # librdkafka answers the end
    assert [r.timestamp_ms for r in client.read(topic.name, 4, 1)][:1] == [start_ms + 4000]


@pytest.mark.capability("consume from earliest, latest, an offset, a timestamp")
def test_timestamps_inside_a_compressed_batch_are_exact(target: Target, client: Client) -> None:
    topic = create_topic(target)
    start_ms = int(time.time() * 1000) - 60_000
    records = [Record(b"%d" % n, timestamp_ms=start_ms + n * 1000) for n in range(10)]
    client.produce(topic.name, records, compression="zstd")
    assert [client.offset_at(topic.name, start_ms + n * 1000 - 1) for n in range(10)] == list(range(10))


@pytest.mark.capability("DeleteRecords")
def test_deleted_records_are_not_read_any_more(target: Target, client: Client) -> None:
    topic = create_topic(target)
    client.produce(topic.name, [Record(b"%d" % n) for n in range(10)])
    client.delete_records(topic.name, 6)
    assert [r.offset for r in client.read(topic.name, EARLIEST, 4)] == [6, 7, 8, 9]


@pytest.mark.capability("many partitions on all nodes")
def test_every_partition_of_a_wide_topic_is_written_and_read(target: Target, client: Client) -> None:
    topic = create_topic(target, partitions=12)
    client.produce(topic.name, [Record(b"%d" % p, partition=p) for p in range(12)])
    read = [client.read(topic.name, EARLIEST, 1, partition)[0] for partition in (0, 5, 11)]
    assert [record.value for record in read] == [b"0", b"5", b"11"]


@pytest.mark.capability("a topic deleted and created again under the same name")
def test_a_topic_created_anew_is_empty_and_starts_at_0(target: Target, client: Client) -> None:
    name, former = unique("topic"), None
    for round_number in range(2):
        client.create_topic(name)
        former = wait_for_topic(target, name, former=former).topic_id
        assert client.produce(name, [Record(b"%d" % round_number)]) == [(0, 0)]
        assert [r.value for r in client.read(name, EARLIEST, 1)] == [b"%d" % round_number]
        client.delete_topic(name)
