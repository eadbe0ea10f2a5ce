"""Leases in a real Redis: killed, started empty, stopped, cut off, slow, failed over to a replica that lost writes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from support.certificates import Authority
from support.ports import HOST, free_ports
from support.redis_server import MISSING, RedisServer
from support.tcp_proxy import TcpProxy
from support.waiting import until
from tailrace.config import Config, ConfigError
from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leases import Demand, Grant
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.config_providers import resolve
from tailrace.runtime.role import Environment
from tailrace_quota.app import open_store
from tailrace_quota.store.port import StoreUnavailable
from tailrace_quota.store.redis import RedisStore

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason=MISSING)
LEASE_MS = 2000.0  # a quarter of it is the patience with Redis
LONG_MS = 40_000.0  # where what was leased must not run out while a busy machine does other things
RATE = 1000.0
ACCOUNT: Account = (("client-id", "app"),)
QUOTAS = ClientQuotas({ACCOUNT: {"producer_byte_rate": RATE}})
CLOCK = SystemClock()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@asynccontextmanager
async def store_at(url: str, seed: int = 1, lines: Any = None, lease_ms: float = LEASE_MS) -> AsyncIterator[RedisStore]:
    log = structlog.wrap_logger(lines or structlog.testing.CapturingLogger(), processors=[])
    store = RedisStore(url, lease_ms, 100, clock=CLOCK, random=Random(seed), log=log)
    store.cluster_id = "c"
    try:
        yield store
    finally:
        await store.close()


async def ask(store: RedisStore, gateway: int = 0, need: float = 5000.0) -> Grant:
    """A lease, as soon as the store gives one: a busy machine may need more than one try."""
    for _ in range(200):
        try:
            demand = Demand(ACCOUNT, QuotaKind.PRODUCE, need)
            (grant,) = await store.acquire((gateway, "i"), [demand], QUOTAS, range(2), CLOCK.monotonic_ms())
        except StoreUnavailable:
            await CLOCK.sleep(20)
        else:
            return grant
    raise AssertionError("the store does not come back")


async def refused(store: RedisStore) -> None:
    with pytest.raises(StoreUnavailable):
        await store.acquire((0, "i"), [Demand(ACCOUNT, QuotaKind.PRODUCE, 1.0)], QUOTAS, [0], CLOCK.monotonic_ms())
    assert not store.available


async def test_redis_over_tls_with_a_password_from_a_file(server: RedisServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("server", "/CN=redis")
    port = free_ports(1)
    files = ("--tls-cert-file", str(pair.certificate), "--tls-key-file", str(pair.key))
    server.kill()
    server.start("--tls-port", str(port), *files, "--tls-ca-cert-file", str(authority.certificate))
    server.ask("CONFIG", "SET", "tls-auth-clients", "no")
    server.ask("ACL", "SETUSER", "tailrace", "on", ">s3cret", "~*", "&*", "+@all")
    (tmp_path / "password").write_text("s3cret\n")

    def url(password: str, ca: Path) -> str:
        text = f"rediss://tailrace:{password}@{HOST}:{port}/0?ssl_ca_certs={ca}"
        config = Config.load("quota", f"config.providers=directory\nquota.url={text}", resolve=resolve)
        return config.quota_url or ""

    of_file = f"${{directory:{tmp_path}:password}}"
    async with store_at(url(of_file, authority.certificate)) as store:
        assert (await ask(store)).rate == RATE / 2
    other = tmp_path / "other"
    other.mkdir()
    for wrong in (url("wrong", authority.certificate), url(of_file, Authority(other).certificate)):
        async with store_at(wrong) as store:
            await refused(store)


async def test_two_services_share_one_rate_and_a_round_is_one_round_trip(server: RedisServer) -> None:
    async with store_at(server.url, lease_ms=LONG_MS) as one, store_at(server.url, 2, lease_ms=LONG_MS) as other:
        assert (await ask(one)).rate == RATE / 2  # the store has just begun
        assert (await ask(other, 1)).rate <= RATE / 2
        before = one.round_trips
        await ask(one)
        assert one.round_trips - before == 2  # the other one wrote
        for _ in range(5):
            await ask(one)
        assert one.round_trips - before == 7
        grants = await asyncio.gather(*(ask(one, gateway) for gateway in range(2) for _ in range(5)))
        assert max(grant.rate for grant in grants) <= RATE
    assert server.ask("KEYS", "*").splitlines()
    assert int(server.ask("PTTL", 'tailrace:{c}:quota:produce:[["client-id","app"]]')) > 0


async def test_a_redis_that_is_killed_refuses_and_one_that_is_started_empty_is_told_again(server: RedisServer) -> None:
    async with store_at(server.url, lease_ms=LONG_MS) as store:
        granted = await ask(store)
        server.kill()
        await refused(store)
        server.start()
        assert (await ask(store, 1)).rate + granted.rate <= RATE * 1.02 and store.available
        assert server.ask("DBSIZE") == "2"


async def test_a_redis_that_does_not_answer_is_given_up_in_time(server: RedisServer) -> None:
    async with store_at(server.url) as store:
        await ask(store)
        server.pause()
        try:
            begun_ms = CLOCK.monotonic_ms()
            await refused(store)
            assert CLOCK.monotonic_ms() - begun_ms >= LEASE_MS / 8
        finally:
            server.resume()
        assert (await ask(store)).limited


async def test_a_link_that_is_cut_or_slow_heals(server: RedisServer) -> None:
    proxy = TcpProxy(server.port)
    try:
        async with store_at(server.url_at(proxy.port)) as store:
            await ask(store)
            proxy.cut()
            await refused(store)
            proxy.mend()
            await ask(store)
            proxy.delay_s = LEASE_MS / 1000
            await refused(store)
            proxy.mend()
            assert (await ask(store)).limited
    finally:
        proxy.close()


async def test_a_replica_that_lost_the_last_writes_learns_them_again(server: RedisServer) -> None:
    proxy = TcpProxy(server.port)
    try:
        with RedisServer() as replica:
            async with store_at(server.url_at(proxy.port), lease_ms=LONG_MS) as store:
                await ask(store, need=10)
                replica.ask("REPLICAOF", "127.0.0.1", str(server.port))
                until(lambda: replica.ask("DBSIZE") == "2", "the replica")
                replica.ask("REPLICAOF", "NO", "ONE")
                granted = await ask(store)  # the replica never hears of it
                proxy.retarget(replica.port)
                server.kill()
                assert (await ask(store, 1)).rate + granted.rate <= RATE * 1.02
                assert store.available
    finally:
        proxy.close()


async def test_a_replica_that_was_not_promoted_gives_no_leases(server: RedisServer) -> None:
    with RedisServer() as replica:
        replica.ask("REPLICAOF", "127.0.0.1", str(server.port))
        async with store_at(replica.url) as store:
            await refused(store)
            replica.ask("REPLICAOF", "NO", "ONE")
            assert (await ask(store)).limited


async def test_several_clusters_may_have_one_redis(server: RedisServer) -> None:
    async with store_at(server.url, lease_ms=LONG_MS) as one, store_at(server.url, 2, lease_ms=LONG_MS) as other:
        other.cluster_id = "another"
        await ask(one)
        await ask(other, 1)
    assert server.ask("DBSIZE") == "4"


async def test_a_password_is_not_logged(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "requirepass", "right")
    lines = structlog.testing.CapturingLogger()
    async with store_at(f"redis://:secret@127.0.0.1:{server.port}/0", lines=lines) as store:
        await refused(store)
    assert "no lease store" in str(lines.calls) and "secret" not in str(lines.calls)


def test_a_url_that_redis_cannot_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    environment = Environment(CLOCK, Random(1), structlog.get_logger(), tmp_path, None, "boot", CollectorRegistry())
    config = Config.load("quota", "quota.url=redis://localhost?db=first")
    with pytest.raises(ConfigError, match=r"quota\.url: Invalid value for 'db' in connection URL"):
        open_store(config, environment)
