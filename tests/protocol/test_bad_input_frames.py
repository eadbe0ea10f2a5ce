"""Bad bytes on a client port: Kafka's error where the protocol has one, else the connection is closed; others go on.

The same scripts run against Apache Kafka where it says the same.
"""

import socket
import struct

import pytest

from support.raw import build, framed, request_header
from support.stage import metadata_request
from support.targets import Target
from support.waiting import HUNG_S, until

METADATA = 3
TLS_HELLO = bytes.fromhex("16030100c5010000c10303") + bytes(190)
HTTP = b"GET / HTTP/1.1\r\nHost: localhost:9092\r\nUser-Agent: curl/8.0\r\n\r\n"
CLOSING = {
    "HTTP": HTTP,
    "TLS": TLS_HELLO,
    "negative size": struct.pack(">i", -1) + bytes(50),
    "size of 2 GB": struct.pack(">i", 2**31 - 1) + bytes(50),
    "size above socket.request.max.bytes": struct.pack(">i", 100 * 1024 * 1024 + 1) + bytes(50),
    "size 0": struct.pack(">i", 0),
    "size 3": framed(b"\0\3\0"),
    "header cut inside the client id": framed(struct.pack(">hhih", METADATA, 5, 1, 50) + b"short"),
    "client id of negative length": framed(struct.pack(">hhih", METADATA, 5, 1, -7) + bytes(20)),
    "unknown key": framed(request_header(12345, 0, 1, "bad", flexible=False)),
    "private key": framed(request_header(10_001, 0, 1, "bad", flexible=True) + bytes(100)),
    "unknown version": framed(request_header(METADATA, 99, 1, "bad", flexible=True) + bytes(20)),
    "negative version": framed(request_header(METADATA, -1, 1, "bad", flexible=False) + bytes(20)),
    "body cut": framed(request_header(METADATA, 5, 1, "bad", flexible=False) + struct.pack(">ih", 1, 30) + b"x"),
    "array of 2 billion": framed(
        request_header(METADATA, 5, 1, "bad", flexible=False) + struct.pack(">ib", 2**31 - 1, 0)
    ),
    "array of negative count": framed(
        request_header(METADATA, 5, 1, "bad", flexible=False) + struct.pack(">ib", -9, 0)
    ),
    "compact array of 4 billion": framed(
        request_header(METADATA, 12, 1, "bad", flexible=True) + b"\xff\xff\xff\xff\x0f" + bytes(8)
    ),
    "endless varint": framed(request_header(METADATA, 12, 1, "bad", flexible=True) + b"\xff" * 30),
    "text that is not UTF-8": framed(
        request_header(METADATA, 5, 1, "bad", flexible=False) + struct.pack(">ih", 1, 4) + b"\xff\xfe\xc3\x28\0"
    ),
}
# Kafka reads these as something harmless; Tailrace refuses what is not the protocol.
STRICTER = {
    "client id of negative length",
    "compact array of 4 billion",
    "array of negative count",
    "text that is not UTF-8",
}


def still_serves(target: Target) -> bool:
    return bool(target.ask(metadata_request("x"), 5).brokers)


@pytest.mark.capability("bad bytes close the connection, nothing else")
@pytest.mark.parametrize("what", sorted(set(CLOSING) - STRICTER))
def test_bad_bytes_close_the_connection_and_nothing_else(target: Target, what: str) -> None:
    close_the_connection_and_nothing_else(target, what)


@pytest.mark.capability("bad bytes close the connection, nothing else")
@pytest.mark.only("tailrace1", "tailrace3")
@pytest.mark.parametrize("what", sorted(STRICTER))
def test_what_kafka_lets_pass_closes_the_connection_too(target: Target, what: str) -> None:
    close_the_connection_and_nothing_else(target, what)


def close_the_connection_and_nothing_else(target: Target, what: str) -> None:
    with target.raw() as bystander, target.raw(timeout_s=HUNG_S) as connection:
        assert bystander.ask(metadata_request("x"), 5).brokers
        connection.send_bytes(CLOSING[what])
        assert connection.is_closed_by_server()
        assert bystander.ask(metadata_request("x"), 5).brokers
    assert still_serves(target)


@pytest.mark.capability("a closed connection is logged once, with its client and the reason")
@pytest.mark.only("tailrace1")
@pytest.mark.parametrize("what", ["HTTP", "TLS", "size of 2 GB", "unknown version", "array of 2 billion"])
def test_a_closed_connection_leaves_one_log_line_that_names_the_peer(target: Target, what: str) -> None:
    with target.raw() as connection:
        peer = f"127.0.0.1:{connection.socket.getsockname()[1]}"
        connection.send_bytes(CLOSING[what])
        assert connection.is_closed_by_server()
    lines = until(lambda: lines_of(target, peer), f"a line that names {peer}")
    assert len(lines) == 1, lines


def lines_of(target: Target, peer: str) -> list[str] | None:
    return [line for line in target.log().splitlines() if peer in line] or None


@pytest.mark.capability("frames may come in any pieces")
def test_a_dribbled_frame_is_answered(target: Target) -> None:
    request = metadata_request("x")
    data = framed(request_header(METADATA, 5, 1, "slow", flexible=False) + request.encode(version=5))
    with target.raw() as connection:
        for byte in data:
            connection.send_bytes(bytes([byte]))
        assert connection.receive(METADATA, 5, 1).brokers


@pytest.mark.capability("frames may come in any pieces")
def test_frames_sent_at_once_are_answered_in_order(target: Target) -> None:
    body = metadata_request("x").encode(version=5)
    frames = [framed(request_header(METADATA, 5, n, "many", flexible=False) + body) for n in range(200)]
    with target.raw() as connection:
        connection.send_bytes(b"".join(frames))
        for n in range(200):
            assert connection.receive(METADATA, 5, n).brokers


@pytest.mark.capability("requests before a half-close are answered")
def test_requests_before_a_half_close_are_answered(target: Target) -> None:
    with target.raw() as connection:
        sent = [connection.send(metadata_request("x"), 5) for _ in range(3)]
        connection.socket.shutdown(socket.SHUT_WR)
        for correlation_id in sent:
            assert connection.receive(METADATA, 5, correlation_id).brokers
        assert connection.is_closed_by_server()
    assert still_serves(target)


@pytest.mark.capability("half a frame and then nothing delays no other client")
def test_half_a_frame_holds_up_nobody(target: Target) -> None:
    with target.raw() as connection:
        connection.send_bytes(struct.pack(">i", 5000) + bytes(100))
        assert still_serves(target)
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.is_closed_by_server()


@pytest.mark.capability("unknown topics and partitions get Kafka's errors")
def test_names_that_no_topic_can_have_get_an_error_not_a_crash(target: Target) -> None:
    for name in ("", "x" * 300, "..", "a/b", "\u0000", "sn\u00f6"):
        answer = target.ask(metadata_request(name), 5)
        assert answer.topics[0].error_code == 17, name


@pytest.mark.capability("hostile requests to the group coordinator get errors")
def test_a_join_with_hostile_sizes_is_refused_or_closed(target: Target) -> None:
    protocols = [{"name": f"p{n}", "metadata": b""} for n in range(5000)]
    fields = {"session_timeout_ms": -5, "rebalance_timeout_ms": -5, "member_id": "", "protocol_type": "x"}
    with target.raw() as connection:
        request = build(11, group_id="hostile", protocols=protocols, **fields)
        assert connection.ask(request, 5).error_code in (14, 15, 16, 26)
    assert still_serves(target)
