"""A gateway's client over TLS: what one call does not decrypt is read, though the socket tells of it once."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from contextlib import suppress
from pathlib import Path

import structlog

from support.certificates import Authority
from support.gateway import BOOT_ID, ScriptedFollower
from support.sasl import authenticator
from support.tls_client import TlsClient, client_tls
from tailrace.metadata.image import MetadataImage
from tailrace.net.identity import Identity
from tailrace.net.quotas.meter import Unmetered
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.settings import TlsSettings, server_context
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.clients.encrypted_client import EncryptedClientLink
from tailrace_gateway.gateway import Advertised, GatewayLimits, Parts

REQUESTS = 200


def opened_gateway() -> AnsweringGateway:
    return AnsweringGateway(
        Parts(
            follower=ScriptedFollower(MetadataImage(offset=0, epoch=1, cluster_id="c")),
            clock=SystemClock(),
            sasl=authenticator(SystemClock()),
            random=random.Random(1),
            log=structlog.wrap_logger(structlog.testing.CapturingLogger(), processors=[]),
            meter_of=lambda broker_id, client_id, user="": Unmetered(),
            limits=GatewayLimits(),
            advertised=Advertised(),
            boot_id=BOOT_ID,
        )
    )


def ask_all(client: TlsClient) -> list[int]:
    """Many requests, each in records of its own, behind the last message of the handshake; their answers' ids."""
    with client:
        client.handshake(flush=False)
        request = m.ApiVersionsRequest(client_software_name="s", client_software_version="1")
        for number in range(REQUESTS):
            frame = codec.encode_request(request, 3, number, "test")
            client.tls.write(frame[:3])
            client.tls.write(frame[3:])
        client.flush()
        found: list[int] = []
        data = b""
        while len(found) < REQUESTS and (came := client.read()):
            data += came
            while len(data) >= 4 and len(data) >= 4 + struct.unpack_from(">i", data)[0]:
                size, correlation_id = struct.unpack_from(">ii", data)
                found.append(correlation_id)
                data = data[4 + size :]
        return found


async def test_more_records_than_one_call_decrypts_are_all_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.sign("server", "/CN=tailrace")
    near, far = socket.socketpair()
    near.setblocking(False)
    encrypted = EncryptedSocket(near, server_context(TlsSettings(keystore_location=str(server.both)), 0))
    client = TlsClient(far, client_tls(authority.certificate))
    asking = asyncio.create_task(asyncio.to_thread(ask_all, client))
    done = False
    while not done:
        await asyncio.sleep(0)
        with suppress(BlockingIOError):
            done = encrypted.handshake(near.recv(1 << 18))
            encrypted.flush()
    gateway = opened_gateway()
    link = EncryptedClientLink(encrypted, gateway, Identity(node_id=0))
    gateway.connections.add(link)
    link.start()
    assert await asking == list(range(REQUESTS))
    link.close()
