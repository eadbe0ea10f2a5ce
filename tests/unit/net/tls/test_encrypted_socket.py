"""An encrypted socket reads and writes as a plain one, whatever the pieces are in which the kernel takes and gives."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.certificates import Authority, Pair
from support.tls_client import TlsClient, client_tls
from support.waiting import HUNG_S
from tailrace.net.tls.encrypted_socket import RECORD_BYTES, EncryptedSocket
from tailrace.net.tls.settings import TlsSettings, server_context

DATA = random.Random(1).randbytes(1_500_000)


class Ends:
    """Both ends of one connection, with a small buffer in between."""

    def __init__(self, authority: Authority, server: Pair, version: str) -> None:
        settings = TlsSettings(keystore_location=str(server.both), protocols=(version,))
        near, far = socket.socketpair()
        near.setblocking(False)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        self.server = EncryptedSocket(near, server_context(settings, 0))
        self.client = TlsClient(far, client_tls(authority.certificate))
        self.thread = ThreadPoolExecutor(1)
        greeted = self.thread.submit(self.client.handshake)
        done = False
        while not done:
            self.wait(read=True)
            done = self.server.handshake(near.recv(1 << 14))
            self.server.flush()
        greeted.result(HUNG_S)

    def wait(self, *, read: bool) -> None:
        fds = [self.server.fileno()]
        assert any(select.select(fds if read else [], [] if read else fds, [], HUNG_S))

    def sent(self, data: bytes) -> None:
        """As a relay's link sends: what was not taken comes again first."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.server.send(rest) :]
            except BlockingIOError:
                self.wait(read=False)

    def received(self, count: int, room: int) -> bytes:
        """Reads until so much is there, or the end, with a buffer of `room` bytes."""
        data, buffer = bytearray(), memoryview(bytearray(room))
        while len(data) < count:
            try:
                came = self.server.recv_into(buffer)
            except BlockingIOError:
                if not self.server.more:
                    self.wait(read=True)
                continue
            if not came:
                break
            data += buffer[:came]
        return bytes(data)


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def ends(request: pytest.FixtureRequest, authority: Authority, server: Pair) -> Iterator[Ends]:
    made = Ends(authority, server, request.param)
    yield made
    made.server.close()
    made.client.socket.close()
    made.thread.shutdown()


def test_what_the_kernel_takes_in_pieces_arrives_whole(ends: Ends) -> None:
    reading = ends.thread.submit(ends.client.read_all)
    ends.sent(DATA)
    ends.sent(b"end")
    ends.server.shutdown(socket.SHUT_RDWR)
    assert reading.result(HUNG_S) == DATA + b"end"


@pytest.mark.parametrize("room", [1000, RECORD_BYTES, 2 * RECORD_BYTES, 262_144])
def test_what_comes_is_read_whatever_room_there_is(ends: Ends, room: int) -> None:
    writing = ends.thread.submit(ends.client.send, DATA)
    assert ends.received(len(DATA), room) == DATA
    writing.result(HUNG_S)


def test_a_client_that_answers_between_two_tries_of_a_write_changes_nothing(ends: Ends) -> None:
    """A read flushes what TLS itself has to say: the write that waits must not be encrypted twice."""
    rest = memoryview(DATA)
    with pytest.raises(BlockingIOError):
        while True:
            rest = rest[ends.server.send(rest) :]
    ends.client.send(b"meanwhile")
    assert ends.received(9, 1 << 18) == b"meanwhile"
    reading = ends.thread.submit(ends.client.read_all)
    while ends.server.unsent:
        ends.wait(read=False)
        ends.server.flush()
    ends.sent(bytes(rest))
    ends.server.shutdown(socket.SHUT_RDWR)
    assert reading.result(HUNG_S) == DATA


@pytest.mark.parametrize("room", [10, 1 << 18])
def test_one_call_decrypts_a_bounded_number_of_records(ends: Ends, room: int) -> None:
    """Each has its price, however little it brings; the end behind them is told last."""
    for at in range(300):
        ends.client.tls.write(DATA[at : at + 1])
    ends.client.say_end()
    ends.wait(read=True)
    first = ends.received(1, room)
    assert len(first) <= 32 and ends.server.more
    assert first + ends.received(1000, room) == DATA[:300]


def changing(authority: Authority, server: Pair, times: int) -> Ends:
    """Ends whose client changes its keys, and takes nothing that it is told of it."""
    ends = Ends(authority, server, "TLSv1.3")
    ends.thread.submit(ends.client.change_keys, times)
    return ends


def test_keys_may_change_between_records(authority: Authority, server: Pair) -> None:
    ends = changing(authority, server, 100)
    writing = ends.thread.submit(ends.client.send, DATA)
    assert ends.received(len(DATA), 1 << 18) == DATA
    writing.result(HUNG_S)
    ends.sent(b"answer")
    assert ends.client.read() == b"answer"
    ends.server.close()
    ends.client.socket.close()


def test_a_client_that_changes_keys_and_takes_no_answer_does_not_fill_the_memory(
    authority: Authority, server: Pair
) -> None:
    ends = changing(authority, server, 8000)
    with pytest.raises(ConnectionAbortedError, match="takes no answers"):
        ends.received(1, 1 << 18)
    ends.server.close()
    ends.client.socket.close()


def test_the_end_of_tls_and_that_of_the_socket_are_the_end(ends: Ends) -> None:
    """A client that says the end and waits for the server's is told behind its last bytes."""
    ends.client.send(b"last")
    ends.client.say_end()
    assert ends.received(4, 1 << 18) == b"last"
    assert ends.received(1, 1 << 18) == b""
    ends.sent(b"answer")
    ends.server.shutdown(socket.SHUT_RDWR)
    assert ends.client.read_all() == b"answer"


def test_bytes_that_are_no_record_break_the_connection(ends: Ends) -> None:
    ends.client.socket.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(OSError, match=r"(?i)mac|decrypt"):
        ends.received(1, 1 << 18)


def test_one_call_sends_a_bounded_part_of_much(authority: Authority, server: Pair) -> None:
    """A reader that is as fast as the writer must not keep the event loop for all of an answer."""
    ends = Ends(authority, server, "TLSv1.3")
    ends.server.plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    reading = ends.thread.submit(ends.client.read_all)
    rest, most = memoryview(DATA * 4), 0
    while rest:
        try:
            sent = ends.server.send(rest)
        except BlockingIOError:
            ends.wait(read=False)
            continue
        most, rest = max(most, sent), rest[sent:]
    ends.server.shutdown(socket.SHUT_RDWR)
    assert reading.result(HUNG_S) == DATA * 4
    assert 0 < most <= 1 << 20
    ends.server.close()
    ends.client.socket.close()
    ends.thread.shutdown()
