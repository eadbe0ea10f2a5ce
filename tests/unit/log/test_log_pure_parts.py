"""Leader epochs, the retention decision and the text files: tables."""

from uuid import UUID

import pytest

from tailrace.log.filesystem import checkpoints
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.retention_rules import SegmentFacts, expendable

EPOCHS = [(2, 0), (3, 10), (5, 20)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 0)), (2, (2, 10)), (3, (3, 20)), (4, (3, 20)), (5, (5, 33)), (6, (-1, -1))],
)
def test_the_end_of_an_epoch_is_where_the_next_began(asked: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs(EPOCHS).end_offset_for(asked, 33) == answer


def test_an_empty_cache_knows_no_epoch() -> None:
    epochs = LeaderEpochs()
    assert (epochs.latest, epochs.end_offset_for(0, 5), epochs.epoch_at(3)) == (-1, (-1, -1), -1)


def test_epochs_only_grow_and_replace_what_had_no_records() -> None:
    epochs = LeaderEpochs(EPOCHS)
    assert not epochs.assign(5, 30) and not epochs.assign(4, 30)
    assert epochs.assign(8, 20)
    assert epochs.entries() == [(2, 0), (3, 10), (8, 20)]


@pytest.mark.parametrize(
    ("offset", "left"), [(0, []), (1, EPOCHS[:1]), (10, EPOCHS[:1]), (20, EPOCHS[:2]), (21, EPOCHS), (99, EPOCHS)]
)
def test_epochs_are_cut_from_the_end(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(EPOCHS)
    assert epochs.truncate_from_end(offset) == (left != EPOCHS)
    assert epochs.entries() == left


@pytest.mark.parametrize(
    ("offset", "left"), [(0, EPOCHS), (5, [(2, 5), *EPOCHS[1:]]), (10, EPOCHS[1:]), (25, [(5, 25)]), (99, [(5, 99)])]
)
def test_epochs_are_cut_from_the_start(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(EPOCHS)
    assert epochs.truncate_from_start(offset) == (left != EPOCHS)
    assert epochs.entries() == left


SEGMENTS = [
    SegmentFacts(10, 100, 1000),
    SegmentFacts(20, 100, 2000),
    SegmentFacts(30, 100, 3000),
    SegmentFacts(35, 50, 3500),
]


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ({}, 0),
        ({"retention_ms": 7001}, 1),
        ({"retention_ms": 7000}, 2),
        ({"retention_ms": 0}, 4),
        ({"retention_ms": 0, "high_watermark": 29}, 2),
        ({"retention_ms": 0, "high_watermark": 0}, 0),
        ({"retention_bytes": 350}, 0),
        ({"retention_bytes": 251}, 0),
        ({"retention_bytes": 250}, 1),
        ({"retention_bytes": 0}, 4),
        ({"log_start_offset": 19}, 1),
        ({"log_start_offset": 30}, 3),
        ({"log_start_offset": 20, "retention_bytes": 100, "retention_ms": 6400}, 2),
    ],
)
def test_the_oldest_segments_go_by_time_size_and_log_start(limits: dict[str, int], count: int) -> None:
    facts = {"now_ms": 9001, "log_start_offset": 0, "high_watermark": 35, "retention_ms": -1, "retention_bytes": -1}
    assert expendable(SEGMENTS, **{**facts, **limits}) == count


def test_an_old_segment_behind_a_young_one_stays() -> None:
    young_first = [SegmentFacts(10, 1, 9000), SegmentFacts(20, 1, 10)]
    facts = {"log_start_offset": 0, "high_watermark": 20, "retention_bytes": -1}
    assert expendable(young_first, now_ms=9001, retention_ms=100, **facts) == 0


def test_offset_checkpoints_are_kafkas_text() -> None:
    offsets = {("orders", 0): 5, ("__consumer_offsets", 49): 12345678901}
    content = checkpoints.format_offsets(offsets)
    assert content == b"0\n2\norders 0 5\n__consumer_offsets 49 12345678901\n"
    assert checkpoints.parse_offsets(content) == offsets


def test_epoch_checkpoints_are_kafkas_text() -> None:
    assert checkpoints.format_epochs(EPOCHS) == b"0\n3\n2 0\n3 10\n5 20\n"
    assert checkpoints.parse_epochs(b"0\n3\n2 0\n3 10\n5 20\n") == EPOCHS


@pytest.mark.parametrize("content", [b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n"])
def test_damaged_checkpoints_are_refused(content: bytes) -> None:
    with pytest.raises(checkpoints.DamagedCheckpoint):
        checkpoints.parse_offsets(content)


def test_a_checkpoint_that_kafka_has_made_and_not_written_yet_names_nothing() -> None:
    assert checkpoints.parse_offsets(b"") == {}


def test_partition_metadata_names_the_topic_id_in_kafkas_base64() -> None:
    topic_id = UUID("b2a1c8e4-0000-4000-8000-00000000ffff")
    content = checkpoints.format_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: sqHI5AAAQACAAAAAAAD__w"
    assert checkpoints.parse_partition_metadata(content) == topic_id


def test_meta_properties_of_kafkas_own_writing_are_read() -> None:
    content = b"#\n#Sat Nov 21 2026\ncluster.id=abc\\=\\=\nversion=1\ndirectory.id=sqHI5AAAQACAAAAAAAD__w\nnode.id=3\n"
    properties = checkpoints.parse_properties(content)
    assert (properties["cluster.id"], properties["node.id"]) == ("abc==", "3")


@pytest.mark.parametrize(
    ("content", "closed"),
    [
        (b'{"version":0,"brokerEpoch":77}', (77, -1)),
        (b'{"version":0,"brokerEpoch":77,"metadataOffset":900}', (77, 900)),
        (b'{"version":0,"brokerEpoch":77,"metadataOffset":"9"}', (-1, -1)),
        (b"", (-1, -1)),
        (b"[]", (-1, -1)),
        (b'{"version":0}', (-1, -1)),
    ],
)
def test_the_clean_shutdown_marker_names_the_broker_epoch_and_the_metadata_that_was_followed(
    content: bytes, closed: tuple[int, int]
) -> None:
    parsed = checkpoints.parse_clean_shutdown(content)
    assert parsed == closed
    assert checkpoints.parse_clean_shutdown(checkpoints.format_clean_shutdown(parsed)) == parsed
