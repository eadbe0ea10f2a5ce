"""The node's direction of the relay: answers pass in order, throttle_time_ms is set where it lies."""

import random
import struct
from typing import Any

import pytest

from support.sessions import session_of
from tailrace.net.quotas.meter import Meter, Unmetered
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.codec import Malformed
from tailrace_gateway.relay.answers import Answers, ThrottledAnswer
from tailrace_gateway.relay.node import throttled
from tailrace_gateway.relay.slots import FETCH, FETCH_FLEXIBLE, PASS, LateAnswer, Slots, Throttled

GREETING = struct.pack(">iibhb", 8, 0, 0, 0, 0)


def answers(*slots: Any, meter: Meter | None = None) -> Answers:
    queue = Slots(slots)
    return Answers(queue, session_of(meter_of=lambda client_id: meter or Unmetered()))


def answer(correlation_id: int, size: int = 20) -> bytes:
    return struct.pack(">iI", 4 + size, correlation_id) + bytes(size)


def later(data: bytes | None) -> LateAnswer:
    slot = LateAnswer()
    slot.answer = data
    return slot


class Drive:
    """Feeds chunks and collects what leaves for the client."""

    def __init__(self, scanner: Answers) -> None:
        self.scanner = scanner
        self.tail = b""
        self.sent = b""
        self.pending_throttle: list[ThrottledAnswer] = []

    def feed(self, chunk: bytes) -> None:
        data = bytearray(self.tail + chunk)
        view = memoryview(data)
        consumed, out = self.scanner.scan(view, len(data))
        self.tail = bytes(data[consumed:])
        for item in out:
            if isinstance(item, ThrottledAnswer):
                self.pending_throttle.append(item)
                self.sent += throttled(item)
            elif isinstance(item, bytes):
                self.sent += item
            else:
                self.sent += view[item[0] : item[1]]


@pytest.mark.parametrize("seed", range(20))
def test_every_cut_of_the_answers_sends_the_same_bytes_with_the_others_between(seed: int) -> None:
    rng = random.Random(seed)
    slots: list[Any] = []
    expected = b""
    from_node = GREETING
    for number in range(30):
        if rng.random() < 0.3:
            slots.append(later(b"<other>"))
            expected += b"<other>"
        else:
            slots.append(rng.choice([PASS, FETCH, FETCH_FLEXIBLE]) | number)
            data = answer(number, rng.choice([0, 1, 30, 5000]))
            from_node += data
            expected += data
    drive = Drive(answers(*slots))
    first = b"".join(drive.scanner.slots.release())
    at = 0
    while at < len(from_node):
        size = rng.choice([1, 3, 8, 50, 4000])
        drive.feed(from_node[at : at + size])
        at += size
    assert first + drive.sent == expected
    assert not drive.scanner.slots


def test_an_answer_that_is_not_ready_holds_nothing_before_it() -> None:
    waiting = later(None)
    drive = Drive(answers(PASS | 1, waiting))
    drive.feed(GREETING + answer(1))
    assert drive.sent == answer(1)
    assert list(drive.scanner.slots) == [waiting]


@pytest.mark.parametrize(
    "sent",
    [
        answer(2),  # another correlation id than is due
        answer(1) + answer(2),  # one more than was asked for
        struct.pack(">iibhb", 8, 0, 0, 31, 0),  # the preamble refused
    ],
)
def test_an_answer_nobody_asked_for_breaks_the_connection(sent: bytes) -> None:
    drive = Drive(answers(PASS | 1))
    greeting = b"" if sent[10:12] == b"\x1f\x00" or len(sent) == 12 else GREETING
    with pytest.raises(Malformed):
        drive.feed(greeting + sent)


class Charged(Unmetered):
    """A meter that throttles each fetch by 1,234 ms."""

    produce_limited = fetch_limited = True

    def __init__(self) -> None:
        self.charged: list[int] = []

    def produced(self, size_bytes: int) -> int:
        return 0

    def fetched(self, size_bytes: int) -> int:
        self.charged.append(size_bytes)
        return 1234

    def fetch_max_bytes(self) -> int:
        return 1


@pytest.mark.parametrize("version", [4, 7, 11, 12, 16, 18])
@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_a_throttled_fetch_answer_is_patched_in_place(version: int, chunk: int) -> None:
    meter = Charged()
    kind = FETCH_FLEXIBLE if version >= 12 else FETCH
    drive = Drive(answers(kind | 9, meter=meter))
    topic = m.FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(partition_index=0, high_watermark=5, aborted_transactions=None, records=b"x" * 100)
    response = m.FetchResponse(session_id=3, responses=[topic(topic="t", partitions=[partition])])
    frame = codec.encode_response(response, version, 9)
    data = GREETING + frame
    for at in range(0, len(data), chunk):
        drive.feed(data[at : at + chunk])
    response.throttle_time_ms = 1234
    assert drive.sent == codec.encode_response(response, version, 9)
    assert meter.charged == [len(frame) - 4]
    assert drive.scanner.session.throttle_time_ms == 1234


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_throttled_produce_answer_carries_its_time_and_all_it_said(version: int, chunk: int) -> None:
    topic = m.ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse(index=3, base_offset=77, log_append_time_ms=-1, log_start_offset=5)
    response = m.ProduceResponse(responses=[topic(name="t", partition_responses=[partition])])
    drive = Drive(answers(Throttled(version, 4, 500), PASS | 5))
    data = GREETING + codec.encode_response(response, version, 4) + answer(5)
    for at in range(0, len(data), chunk):
        drive.feed(data[at : at + chunk])
    response.throttle_time_ms = 500
    assert drive.sent == codec.encode_response(response, version, 4) + answer(5)


def test_a_throttled_produce_answer_of_very_many_rows_is_passed_on_as_it_came() -> None:
    """The mute alone does: to decode and encode it takes longer than other clients can be kept waiting."""
    topic = m.ProduceResponse.TopicProduceResponse
    rows = [topic.PartitionProduceResponse(index=index, log_append_time_ms=-1) for index in range(1_500)]
    data = codec.encode_response(m.ProduceResponse(responses=[topic(name="t", partition_responses=rows)]), 9, 4)
    drive = Drive(answers(Throttled(9, 4, 500), PASS | 5))
    drive.feed(GREETING + data + answer(5))
    assert drive.sent == data + answer(5)
    assert drive.pending_throttle == []


def test_a_fetch_without_a_quota_is_not_touched() -> None:
    drive = Drive(answers(FETCH_FLEXIBLE | 9))
    drive.feed(GREETING + answer(9, 100))
    assert drive.sent == answer(9, 100)
