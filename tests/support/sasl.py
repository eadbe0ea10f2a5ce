"""SASL for tests: users without a metadata log, authenticators, and tokens as clients send them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from tailrace.access.oauthbearer.server import TokenVerifier
from tailrace.access.scram import ScramMechanism, credential_of, salted
from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import UserScramCredentialRecord
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.sasl.credentials import UserCredentials
from tailrace.net.sasl.settings import SaslSettings
from tailrace.wire import codec
from tailrace.wire.connection import SIZE
from tailrace.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest

ALL: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def user(name: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> MetadataImage:
    """An image with one user."""
    made = credential_of(mechanism, b"salt", salted(mechanism, password, b"salt", 4096), 4096)
    record = UserScramCredentialRecord(name, mechanism, made.salt, made.stored_key, made.server_key, made.iterations)
    return MetadataImage(scram={name: {mechanism: record}})


def authenticator(
    clock: Clock,
    settings: SaslSettings | None = None,
    image: MetadataImage | None = None,
    verifier: TokenVerifier | None = None,
) -> SaslAuthenticator:
    """Without settings clients do not log in."""
    found = MetadataImage() if image is None else image
    credentials = UserCredentials(lambda: found, lambda: b"secret of the test")
    log = structlog.get_logger()
    return SaslAuthenticator(settings or SaslSettings(), credentials, clock, log, verifier=verifier)


def plain_token(name: str, password: str) -> bytes:
    """The one token of PLAIN."""
    return f"\0{name}\0{password}".encode()


def login(name: str, password: str, *, raw: bool) -> bytes:
    """The frames of a login by PLAIN: the handshake, and the token with a request around it or without."""
    handshake = codec.encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0 if raw else 1, 1, "c")
    token = plain_token(name, password)
    if raw:
        return bytes(handshake) + SIZE.pack(len(token)) + token
    return bytes(handshake) + bytes(codec.encode_request(SaslAuthenticateRequest(auth_bytes=token), 2, 2, "c"))


def answers_of(data: bytes) -> list[bytes]:
    """The frames of answers without their sizes."""
    found = []
    while data:
        (size,) = SIZE.unpack_from(data)
        found.append(data[SIZE.size : SIZE.size + size])
        data = data[SIZE.size + size :]
    return found


async def spoken(sock: socket.socket, parts: Iterable[bytes], until: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Sends the parts one by one and returns the answers when they are enough, or the connection was closed."""
    reader, writer = await asyncio.open_connection(sock=sock)
    for part in parts:
        writer.write(part)
        for _ in range(3):  # turns of the loop in which the other end reads it
            await asyncio.sleep(0)
    got = b""
    while (chunk := await reader.read(65_536)) and not until(answers_of(got := got + chunk)):
        pass
    writer.close()
    return answers_of(got)
