"""One TLS connection with the face of a non-blocking socket: what reads and writes it need not know that it encrypts.

OpenSSL works on memory (ssl.MemoryBIO): a read of the socket takes many records at once, and nothing but this class
reads or writes the socket. Bounds: one read of _READ_BYTES, of which one call decrypts _RECORDS, and the records of
_WRITE_BYTES that the socket does not take yet.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from tailrace.net.tls.record_heads import HEAD_BYTES, RecordHeads

RECORD_BYTES: Final = 17_408  # one record of TLS at its largest, with its head, tag and padding
_READ_BYTES: Final = 131_072
_WRITE_BYTES: Final = 65_536
_CALL_BYTES: Final = 1_048_576  # of one call of `send`, so that a fast reader of much does not keep others waiting
# Of one call that reads: a record that only changes keys has 27 bytes and takes 40 microseconds.
_RECORDS: Final = 32
_FEED_BYTES: Final = 32_768  # given to TLS at a time: its memory stays as large as it once was
# What TLS itself has to say to a client that takes nothing, as an answer to each change of keys.
_UNSENT_MAX_BYTES: Final = 2 * _WRITE_BYTES
_READ_INTO = memoryview(bytearray(_READ_BYTES))  # of the whole process: what is read is copied on at once


class NamedTls(ssl.SSLObject):
    """TLS that keeps the host name which the client asked for (SNI, RFC 6066)."""

    server_name: str | None = None

    @staticmethod
    def keep_names(context: ssl.SSLContext) -> None:
        """From now on the context's objects have their clients' names."""

        def named(tls: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
            assert isinstance(tls, NamedTls)
            tls.server_name = name

        context.sslobject_class = NamedTls
        context.sni_callback = named


class EncryptedSocket:
    """Server's side. `recv_into` and `send` raise BlockingIOError as a socket's do, and OSError where TLS is broken."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.plain = sock
        self.context = context
        self.family = sock.family
        self.type = sock.type
        self.proto = sock.proto
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # Into a buffer it returns a number, which its stub does not know.
        self._read_into = cast(Callable[[int, memoryview], int], self._tls.read)
        self._unsent: bytes | memoryview = b""  # records that the socket did not take
        self._accepted = 0  # bytes that are in these records, and that `send` has not said to be sent
        self._heads = RecordHeads()
        self._came: bytes | memoryview = b""  # from the socket, not with TLS yet: it begins with a record's head
        self._ended = False  # the client has said that no more will come
        self.more = False  # something that came is not decrypted: the socket need not say that it is readable

    def fileno(self) -> int:
        return self.plain.fileno()

    # -- the handshake --------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> bool:
        """Whether records wait for the socket to be writable."""
        return bool(self._unsent)

    def handshake(self, came: bytes) -> bool:
        """Takes what the client sent; whether the handshake is done. Raises ssl.SSLError. Call `flush` afterwards."""
        rest = memoryview(bytes(self._came) + came)
        while True:
            taken, _ = self._heads.cut(rest, _RECORDS, _FEED_BYTES)
            self._incoming.write(rest[:taken])
            rest = self._came = rest[taken:]
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if len(rest) < HEAD_BYTES:
                    return False
            else:
                # What came behind the handshake is in memory: no readiness of the socket tells of it.
                self.more = True
                return True

    @property
    def server_name(self) -> str | None:
        """The host name that the client asked for; None where it gave none, or where contexts do not keep it."""
        return self._tls.server_name if isinstance(self._tls, NamedTls) else None

    def flush(self) -> None:
        """Sends what TLS itself has to say. Raises OSError."""
        with contextlib.suppress(BlockingIOError):
            self._push()

    def peer_certificate(self) -> bytes | None:
        """The client's certificate (DER), verified; None where it showed none."""
        return self._tls.getpeercert(binary_form=True)

    # -- what a socket does ---------------------------------------------------------------------------------------

    def recv_into(self, into: memoryview) -> int:
        """Decrypts what came; 0 is the end. `more` says whether to call again, though the socket is not readable."""
        if self._ended:
            return 0
        rest, dry = self._came, not self.more
        if dry:
            # Most of it fits then. A record that has begun may be in memory already, and comes out with what ends it.
            most = max(len(into) - RECORD_BYTES, RECORD_BYTES)
            begun = len(rest)
            count = self.plain.recv_into(_READ_INTO[begun:], min(most, _READ_BYTES - begun))
            if not count:
                return 0
            _READ_INTO[:begun] = rest
            rest = _READ_INTO[: begun + count]
        filled, left = 0, _RECORDS
        while True:
            if not dry:
                filled, dry = self._decrypt(into, filled)
            if self._ended or not dry or not left or not rest:
                break
            taken, begun = self._heads.cut(rest, left, _FEED_BYTES)
            if not taken:
                break
            self._incoming.write(rest[:taken])
            rest, left, dry = rest[taken:], left - begun, False
        self.more = not self._ended and (not dry or len(rest) >= HEAD_BYTES)
        # Another socket reads into the same memory.
        self._came = memoryview(bytes(rest)) if len(rest) else b""
        if self._outgoing.pending:  # an answer of TLS itself, as to a change of keys
            self.flush()
            if len(self._unsent) > _UNSENT_MAX_BYTES:
                raise ConnectionAbortedError("the client changes keys, and takes no answers")
        if not filled and not self._ended:
            raise BlockingIOError
        return filled

    def _decrypt(self, into: memoryview, filled: int) -> tuple[int, bool]:
        """(bytes in `into`, whether that is all that TLS has been given)."""
        size = len(into)
        read = self._read_into
        try:
            while filled < size:
                count = read(size - filled, into[filled:])
                if not count:
                    self._end(filled)
                    return filled, True
                filled += count
        except ssl.SSLWantReadError:
            return filled, True
        except ssl.SSLZeroReturnError:
            self._end(filled)
            return filled, True
        return filled, False

    def _end(self, filled: int) -> None:
        self._ended = True
        if filled:  # the end is told with the next read, and the socket says that there is one
            with contextlib.suppress(OSError):
                self.plain.shutdown(socket.SHUT_RD)

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        """How many of these bytes are with the kernel. After BlockingIOError the next call must begin with the same.

        They are encrypted already then, and count as sent when their records have left.
        """
        if self._unsent or self._accepted:
            self._push()
            sent, self._accepted = self._accepted, 0
            if sent:
                return sent
        view = memoryview(data)[:_CALL_BYTES]
        sent = taken = 0
        while taken < len(view):
            end = min(len(view), taken + _WRITE_BYTES)
            while taken < end:
                taken += self._tls.write(view[taken:end])
            try:
                self._push()
            except BlockingIOError:
                self._accepted = taken - sent
                if sent:
                    return sent
                raise
            sent = taken
        return sent

    def _push(self) -> None:
        """Sends the records that are ready. Raises BlockingIOError while some are left."""
        if self._outgoing.pending:
            made = self._outgoing.read()
            self._unsent = bytes(self._unsent) + made if self._unsent else made
        while self._unsent:
            sent = self.plain.send(self._unsent)
            self._unsent = memoryview(self._unsent)[sent:] if sent < len(self._unsent) else b""

    def shutdown(self, how: int) -> None:
        """Says the end to the client, as far as the socket takes it, then shuts the socket down."""
        if how != socket.SHUT_RD:
            # SSLWantRead: the client's own end is not waited for. Others: it is broken already.
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._push()
        self.plain.shutdown(how)

    def close(self) -> None:
        """Closes the socket at once."""
        self.plain.close()
