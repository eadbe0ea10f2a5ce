"""One address: its name, its port, its certificate."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from support.certificates import Authority
from support.ports import free_ports
from tailrace.cli.doctor.probe import Probed, probe, speaks_tls
from tailrace.net.address import Address


async def probed(authority: Path | None, server: ssl.SSLContext | None, host: str = "127.0.0.1") -> Probed:
    """What is found at a server of one connection, by a client that trusts the authority (None: without TLS)."""
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=server) as opened:
        port = opened.sockets[0].getsockname()[1]
        trusting = None if authority is None else ssl.create_default_context(cafile=str(authority))
        found = await probe(Address(host, port), trusting)
        assert await speaks_tls(Address("127.0.0.1", port)) is (server is not None)
        return found


def context(authority: Authority, *, names: str = "IP:127.0.0.1", days: int = 2) -> ssl.SSLContext:
    pair = authority.sign("server", "/CN=server", names=names, days=days)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.certificate, pair.key)
    return made


async def test_a_port_without_tls() -> None:
    assert await probed(None, None) == Probed(("127.0.0.1",))


async def test_a_certificate_that_is_trusted_is_shown_with_its_names_and_end(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    found = await probed(authority.certificate, context(authority))
    assert found.trouble is None and found.names == ["127.0.0.1"] and found.ends_ms


@pytest.mark.parametrize(
    ("names", "days", "said", "advice"),
    [
        ("DNS:kafka.example", 2, "is not for 127.0.0.1, but for kafka.example", "cert renew --name 127.0.0.1"),
        ("IP:127.0.0.1", -1, "has expired", "tailrace cert renew"),
    ],
)
async def test_a_certificate_that_is_refused_says_why(
    names: str, days: int, said: str, advice: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    trouble = (await probed(authority.certificate, context(authority, names=names, days=days))).trouble
    assert trouble is not None and said in trouble.sentence and advice in trouble.advice


async def test_an_authority_that_is_not_trusted(tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    trouble = (await probed(other.certificate, context(Authority(tmp_path)))).trouble
    assert trouble is not None and "is not trusted" in trouble.sentence


async def test_a_port_without_tls_for_a_client_with_it(tmp_path: Path) -> None:
    trouble = (await probed(Authority(tmp_path).certificate, None)).trouble
    assert trouble is not None and "TLS handshake" in trouble.sentence and "security.protocol" in trouble.advice


async def test_a_port_that_nothing_listens_at_and_a_name_that_is_none() -> None:
    (port,) = {free_ports(1)}
    refused = (await probe(Address("127.0.0.1", port), None)).trouble
    unknown = (await probe(Address("no-such-host.invalid", port), None)).trouble
    no_name = (await probe(Address("a..b", port), None)).trouble
    assert (
        no_name is not None and no_name.sentence == "the name a..b is not known on this machine (it is not a host name)"
    )
    assert refused is not None and refused.sentence == f"nothing listens at 127.0.0.1:{port}"
    assert unknown is not None and unknown.sentence.startswith("the name no-such-host.invalid is not known")
