"""The client's direction of the relay: heads are read, frames routed, nothing lost however the bytes are cut."""

import random
import struct
from collections.abc import Callable

import pytest

from support.sessions import session_of
from tailrace.clock import ManualClock
from tailrace.net.quotas.meter import Meter, Unmetered
from tailrace.net.requests.metrics import RequestMetrics
from tailrace.net.requests.times import RequestTimes
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.codec import Malformed
from tailrace_gateway.relay.requests import HEAD_BYTES, Frame, Requests
from tailrace_gateway.relay.routes import Route, table
from tailrace_gateway.relay.slots import FETCH, FETCH_FLEXIBLE, PASS, LateAnswer, Slots, Throttled

_Topic = m.ProduceRequest.TopicProduceData
_MAX = 1_000_000


def times() -> RequestTimes:
    return RequestTimes(RequestMetrics(ManualClock().monotonic_ms))


def requests(meter: Meter | None = None) -> Requests:
    made = Requests(table(), Slots(), session_of(meter_of=lambda client_id: meter or Unmetered()), _MAX, _MAX, times())
    made.node_open = True
    return made


def produce(correlation_id: int, acks: int = 1, version: int = 9, size: int = 10, client_id: str | None = "c") -> bytes:
    partition = _Topic.PartitionProduceData(index=0, records=b"r" * size)
    request = m.ProduceRequest(acks=acks, timeout_ms=9, topic_data=[_Topic(name="t", partition_data=[partition])])
    return codec.encode_request(request, version, correlation_id, client_id)


def fetch(correlation_id: int, version: int = 12, max_bytes: int = 50_000) -> bytes:
    return codec.encode_request(m.FetchRequest(max_bytes=max_bytes, topics=[]), version, correlation_id, "c")


def metadata(correlation_id: int) -> bytes:
    return codec.encode_request(m.MetadataRequest(topics=[]), 5, correlation_id, "c")


class Drive:
    """Feeds chunks and does what a connection does with what comes out."""

    def __init__(self, scanner: Requests) -> None:
        self.scanner = scanner
        self.tail = b""
        self.to_node = b""
        self.frames: list[Frame] = []

    def feed(self, chunk: bytes) -> None:
        data = bytearray(self.tail + chunk)
        view = memoryview(data)
        consumed, out = self.scanner.scan(view, len(data))
        self.tail = bytes(data[consumed:])
        for item in out:
            if isinstance(item, Frame):
                self.frames.append(item)
            else:
                self.to_node += view[item[0] : item[1]]

    def answer(self) -> None:
        """Answers the held request, which lets reading go on."""
        while self.scanner.held is not None and self.frames and self.frames[-1] is self.scanner.held:
            self.scanner.answered()
            self.feed(b"")


def mixed_stream(seed: int) -> tuple[list[bytes], list[bytes]]:
    """Frames for the node and for others, in one random order."""
    rng = random.Random(seed)
    node, other, stream = [], [], []
    for number in range(40):
        kind = rng.randrange(4)
        if kind == 0:
            other.append(metadata(number))
            stream.append(other[-1])
        else:
            node.append(
                fetch(number, rng.choice([4, 11, 12, 18]))
                if kind == 1
                else produce(number, version=rng.choice([3, 8, 9, 12]), size=rng.choice([0, 5, 5000]))
            )
            stream.append(node[-1])
    return stream, node


@pytest.mark.parametrize("seed", range(20))
def test_every_cut_of_a_stream_routes_the_same_bytes(seed: int) -> None:
    rng = random.Random(seed)
    stream, node = mixed_stream(seed)
    data = b"".join(stream)
    drive = Drive(requests())
    at = 0
    while at < len(data):
        size = rng.choice([1, 2, 3, 7, 13, 14, 100, 6000])
        drive.feed(data[at : at + size])
        drive.answer()
        at += size
    assert drive.to_node == b"".join(node)
    assert [frame.data for frame in drive.frames] == [frame for frame in stream if frame not in node]
    assert not drive.tail


def test_a_stream_cut_at_every_byte_is_routed_before_it_is_whole() -> None:
    frame = produce(1, size=500)
    drive = Drive(requests())
    for at in range(len(frame)):
        drive.feed(frame[at : at + 1])
    assert drive.to_node == frame
    assert list(drive.scanner.slots) == [PASS | 1]


def test_pipelined_frames_for_the_node_are_one_segment() -> None:
    data = bytearray(b"".join(produce(i) for i in range(10)))
    _, out = requests().scan(memoryview(data), len(data))
    assert out == [(0, len(data))]


def test_nothing_behind_a_request_answered_elsewhere_is_read() -> None:
    scanner = requests()
    data = bytearray(produce(1) + metadata(2) + produce(3))
    consumed, out = scanner.scan(memoryview(data), len(data))
    assert consumed == len(produce(1) + metadata(2))
    assert isinstance(out[1], Frame)
    assert scanner.held is out[1]
    assert type(scanner.slots[1]) is LateAnswer


def test_a_request_for_the_node_waits_at_the_front_until_there_is_one() -> None:
    scanner = requests()
    scanner.node_open = False
    data = bytearray(produce(1))
    assert scanner.scan(memoryview(data), len(data)) == (0, [])
    assert scanner.node_wanted
    scanner.node_open = True
    assert scanner.scan(memoryview(data), len(data)) == (len(data), [(0, len(data))])


def test_a_request_for_a_node_that_is_away_is_collected() -> None:
    drive = Drive(requests())
    drive.scanner.node_open = False
    drive.scanner.node_refused = True
    drive.feed(produce(1, size=5000))
    assert drive.frames[0].data == produce(1, size=5000)
    assert drive.frames[0].route == Route.NODE


@pytest.mark.parametrize(("version", "kind"), [(4, FETCH), (11, FETCH), (12, FETCH_FLEXIBLE), (18, FETCH_FLEXIBLE)])
def test_a_fetch_leaves_the_mark_of_its_answers_header(version: int, kind: int) -> None:
    drive = Drive(requests())
    drive.feed(fetch(-2, version))
    assert list(drive.scanner.slots) == [kind | 0xFFFFFFFE]


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_acks_0_expects_no_answer(version: int) -> None:
    drive = Drive(requests())
    drive.feed(produce(1, acks=0, version=version) + produce(2, acks=-1, version=version))
    assert list(drive.scanner.slots) == [PASS | 2]
    assert drive.scanner.unanswered_sent


@pytest.mark.parametrize("version", [0, 1, 2, 5])
@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_only_a_producer_id_without_a_transactional_id_is_the_nodes(version: int, transactional_id: str | None) -> None:
    request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=5)
    drive = Drive(requests())
    drive.feed(codec.encode_request(request, version, 1, None))
    assert bool(drive.frames) == (transactional_id is not None)


class Limited(Unmetered):
    """A meter that throttles everything and allows 1,000 bytes a fetch."""

    produce_limited = fetch_limited = True

    def __init__(self) -> None:
        self.charged: list[int] = []

    def produced(self, size_bytes: int) -> int:
        self.charged.append(size_bytes)
        return 70

    def fetched(self, size_bytes: int) -> int:
        self.charged.append(size_bytes)
        return 80

    def fetch_max_bytes(self) -> int:
        return 1000


def test_a_produce_over_quota_is_passed_on_and_stops_reading() -> None:
    meter = Limited()
    drive = Drive(requests(meter))
    drive.feed(produce(1) + produce(2))
    assert drive.to_node == produce(1)
    assert meter.charged == [len(produce(1)) - 4]
    assert drive.scanner.session.throttle_time_ms == 70
    (mark,) = drive.scanner.slots
    assert isinstance(mark, Throttled)
    assert (mark.version, mark.correlation_id, mark.throttle_time_ms) == (9, 1, 70)
    drive.scanner.session.throttle_time_ms = 0
    drive.feed(b"")
    assert drive.to_node == produce(1) + produce(2)


class Indebted(Limited):
    """The meter of a client that has taken too much by another connection."""

    produce_limited = False
    debt_ms = 50

    def indebted(self) -> int:
        return self.debt_ms


@pytest.mark.parametrize("request_of", [produce, fetch])
def test_a_connection_of_a_client_in_debt_passes_no_data_before_it_is_earned(
    request_of: Callable[[int], bytes],
) -> None:
    meter = Indebted()
    drive = Drive(requests(meter))
    drive.feed(request_of(1) + request_of(2))
    assert (drive.to_node, len(drive.scanner.slots), drive.scanner.session.throttle_time_ms) == (b"", 0, 50)
    assert drive.scanner.session.to_be_muted
    meter.debt_ms = drive.scanner.session.throttle_time_ms = 0
    drive.feed(b"")
    assert (len(drive.to_node), len(drive.scanner.slots)) == (len(request_of(1) + request_of(2)), 2)


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
@pytest.mark.parametrize("version", [4, 11, 12, 14, 15, 18])
def test_max_bytes_of_a_fetch_is_capped_in_place(version: int, chunk: int) -> None:
    def fetches(most: int) -> bytes:
        asked = (50_000, 10, 60_000, 70_000)
        return b"".join(fetch(number, version, max_bytes=min(most, size)) for number, size in enumerate(asked))

    drive = Drive(requests(Limited()))
    data = fetches(100_000)
    for at in range(0, len(data), chunk):
        drive.feed(data[at : at + chunk])
    assert drive.to_node == fetches(1000)


def test_max_bytes_of_a_fetch_is_found_behind_the_tags_of_its_head() -> None:
    def tagged(correlation_id: int, max_bytes: int) -> bytes:
        plain = fetch(correlation_id, max_bytes=max_bytes)
        tags_at = HEAD_BYTES + int.from_bytes(plain[HEAD_BYTES - 2 : HEAD_BYTES])
        assert plain[tags_at] == 0
        frame = plain[4:tags_at] + b"\x01\x63\x03abc" + plain[tags_at + 1 :]
        return struct.pack(">i", len(frame)) + frame

    def fetches(most: int) -> bytes:
        return b"".join(make(n, most) for n, make in enumerate((fetch_of, tagged, tagged, fetch_of, fetch_of)))

    def fetch_of(correlation_id: int, max_bytes: int) -> bytes:
        return fetch(correlation_id, max_bytes=max_bytes)

    drive = Drive(requests(Limited()))
    drive.feed(fetches(50_000))
    assert drive.to_node == fetches(1000)


def test_a_quota_that_comes_between_two_fetches_caps_the_second() -> None:
    meter = Limited()
    meter.fetch_limited = False
    drive = Drive(requests(meter))
    drive.feed(fetch(1) + fetch(2))
    meter.fetch_limited = True
    drive.feed(fetch(3) + fetch(4))
    assert drive.to_node == fetch(1) + fetch(2) + fetch(3, max_bytes=1000) + fetch(4, max_bytes=1000)


def test_a_fetch_too_short_for_its_max_bytes_is_malformed_behind_whole_ones() -> None:
    drive = Drive(requests(Limited()))
    drive.feed(fetch(1))
    cut = fetch(2)[: HEAD_BYTES + 12]
    with pytest.raises(Malformed):
        drive.feed(struct.pack(">i", len(cut) - 4) + cut[4:] + fetch(3))


def test_a_client_that_is_introduced_is_charged_by_the_client_id_of_its_introduction_too() -> None:
    """A broker's preamble has a client id, too: a client of that id would have been charged as another user."""
    drive = Drive(requests())
    drive.feed(codec.encode_request(m.MetadataRequest(topics=[]), 5, 1, "relay"))
    drive.answer()
    meter = Limited()
    drive.scanner.session.meter_by(lambda client_id: meter)
    drive.feed(produce(2, client_id="relay"))
    assert len(meter.charged) == 1


def test_each_client_id_has_its_meter() -> None:
    seen: list[bytes] = []

    def meter_of(client_id: bytes) -> Meter:
        seen.append(client_id)
        return Unmetered()

    scanner = Requests(table(), Slots(), session_of(meter_of=meter_of), _MAX, _MAX, times())
    scanner.node_open = True
    drive = Drive(scanner)
    drive.feed(
        produce(1, client_id="a") + produce(2, client_id="a") + produce(3, client_id="b") + produce(4, client_id=None)
    )
    assert seen == [b"", b"a", b"b", b""]


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">i", 9),
        struct.pack(">i", -1),
        struct.pack(">i", _MAX + 1),
        b"GET / HT",
        struct.pack(">ihhih", 10, 19, 1, 1, -1),  # CreateTopics v1 is not served
        struct.pack(">ihhih", 10, 4, 0, 1, -1),  # LeaderAndIsr
        struct.pack(">ihhih", 10, 62, 0, 1, -1),  # BrokerRegistration: internal
        struct.pack(">ihhih", 10, 3, 0, 1, -2),
        struct.pack(">ihhih", 10, 3, 0, 1, 1),
        struct.pack(">ihhih", 12, 0, 3, 1, -1) + b"\xff\xff",  # Produce that ends before acks
        struct.pack(">ihhih", 12, 0, 9, 1, -1) + b"\x00\xff",
    ],
)
def test_a_head_that_cannot_be_is_malformed(head: bytes) -> None:
    with pytest.raises(Malformed):
        Drive(requests()).feed(head)


def test_a_frame_whose_first_fields_never_end_is_malformed() -> None:
    head = struct.pack(">ihhih", 900_000, 0, 9, 1, -1) + b"\x00\xff\xff\xff\xff\x07"
    drive = Drive(requests())
    with pytest.raises(Malformed):
        for _ in range(30):
            drive.feed(head if not drive.tail else b"x" * 4096)


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_never_raise_anything_but_malformed(seed: int) -> None:
    rng = random.Random(seed)
    drive = Drive(requests(Limited()))
    try:
        for _ in range(50):
            size = rng.randrange(4, 60)
            key = rng.choice([0, 1, 2, 3, 22, rng.randrange(100)])
            frame = struct.pack(">ihh", size, key, rng.randrange(14)) + rng.randbytes(size - 4)
            drive.feed(frame)
            drive.scanner.session.throttle_time_ms = 0
            drive.answer()
    except Malformed:
        pass


def test_an_api_is_clamped_to_what_its_role_serves_and_left_out_where_nothing_remains() -> None:
    rows = table({"broker": {0: (3, 10), 1: (20, 30)}, "coordinator": {}})
    assert rows[0][1:3] == (3, 10)
    assert 1 not in rows
    assert 2 not in rows
    assert rows[11][1:3] == (0, 9)


def test_private_and_internal_apis_have_no_route() -> None:
    assert all(key < 10_000 and key not in {59, 62, 63, 67} for key in table())


class Switch(Limited):
    """A meter whose quota is set while the connection is open."""

    produce_limited = fetch_limited = False


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (produce(2), [PASS | 1, PASS | 2]),
        (produce(2, acks=0), [PASS | 1]),
        (produce(2, size=0), [PASS | 1, PASS | 2]),
        (produce(2, client_id="d"), [PASS | 1, PASS | 2]),
        (produce(2, version=8), [PASS | 1, PASS | 2]),
        (fetch(2), [PASS | 1, FETCH_FLEXIBLE | 2]),
    ],
)
@pytest.mark.parametrize("chunk", [1, 20, 10_000])
def test_a_head_like_the_last_one_is_taken_for_what_it_is(second: bytes, expected: list[int], chunk: int) -> None:
    drive = Drive(requests())
    data = produce(1) + second
    for at in range(0, len(data), chunk):
        drive.feed(data[at : at + chunk])
    assert list(drive.scanner.slots) == expected
    assert drive.to_node == data
    assert drive.scanner.unanswered_sent == (len(expected) == 1)


def test_a_quota_set_meanwhile_is_charged_from_the_next_request_on() -> None:
    meter = Switch()
    drive = Drive(requests(meter))
    drive.feed(produce(1) + produce(2))
    assert meter.charged == []
    meter.produce_limited = True
    drive.feed(produce(3))
    assert len(meter.charged) == 1
    assert drive.scanner.session.throttle_time_ms == 70
    mark = drive.scanner.slots[-1]  # its head was taken for the last one's
    assert isinstance(mark, Throttled)
    assert (mark.version, mark.correlation_id, mark.throttle_time_ms) == (9, 3, 70)


def test_a_head_like_the_last_one_waits_for_the_node_as_the_first_did() -> None:
    drive = Drive(requests())
    drive.feed(produce(1))
    drive.scanner.node_open = False
    drive.feed(produce(2))
    assert drive.to_node == produce(1)
    assert drive.scanner.node_wanted


@pytest.mark.parametrize("size", [9, 20, _MAX + 1, -1])
def test_a_head_like_the_last_one_has_its_size_checked(size: int) -> None:
    drive = Drive(requests())
    drive.feed(produce(1))
    with pytest.raises(Malformed):
        drive.feed(struct.pack(">i", size) + produce(2)[4:])


def test_a_large_request_is_collected_in_whatever_pieces_it_comes() -> None:
    group = m.DescribeGroupsRequest(groups=["g" * 30_000] * 100)
    frame = codec.encode_request(group, 3, 5, "c")
    drive = Drive(Requests(table(), Slots(), session_of(), 10 * _MAX, 10 * _MAX, times()))
    chance = random.Random(1)
    at = 0
    while at < len(frame):
        taken = chance.randrange(1, 300_000)
        drive.feed(frame[at : at + taken])
        at += taken
        assert drive.scanner.collected_bytes == (-1 if at >= len(frame) else at)
    (collected,) = drive.frames
    assert collected.data == frame


def test_what_has_come_of_a_request_can_be_forgotten() -> None:
    scanner = Requests(table(), Slots(), session_of(), 10 * _MAX, 10 * _MAX, times())
    frame = codec.encode_request(m.DescribeGroupsRequest(groups=["g" * 30_000] * 100), 3, 5, "c")
    Drive(scanner).feed(frame[:200_000])
    scanner.drop()
    assert (scanner.collected_bytes, scanner.collecting_bytes) == (-1, 0)
