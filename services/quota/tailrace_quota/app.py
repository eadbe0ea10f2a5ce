"""Opens a quota service: metadata, listener, registration; closed in reverse. Builds every object of the role."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from tailrace.config import Config, ConfigError
from tailrace.net.authentication.metrics import with_logins
from tailrace.net.background import in_background
from tailrace.net.backoff import Backoff
from tailrace.net.dispatch import Service
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics
from tailrace.net.members.internal import advertised_endpoints, internal_address
from tailrace.net.members.registration import ServiceRegistration
from tailrace.net.members.reports import Reports, Source
from tailrace.net.metadata.follower import MetadataFollower, open_metadata_follower
from tailrace.net.server import Server, serve
from tailrace.quota.entity import text_of
from tailrace.quota.usage import Used
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import INTERNAL_APIS
from tailrace_quota.handlers import HANDLERS
from tailrace_quota.metrics import QuotaMetrics
from tailrace_quota.quota import ROLE, Quota
from tailrace_quota.scopes import Scopes
from tailrace_quota.store.memory import MemoryStore
from tailrace_quota.store.port import LeaseStore

_LEAVE_TIMEOUT_MS = 500
_REPORT_TIMEOUT_MS = 5000


class OpenQuota:
    """A quota service that runs; ready as soon as it listens."""

    def __init__(self, quota: Quota, addresses: dict[str, str]) -> None:
        self.quota = quota
        self.addresses = addresses
        self.ready = asyncio.Event()
        self.ready.set()

    def health(self) -> dict[str, bool]:
        """Whether it has ever seen the cluster's quotas; a stale image is no illness."""
        return {"metadata": self.quota.knows_quotas}


@asynccontextmanager
async def open_quota(config: Config, environment: Environment) -> AsyncIterator[OpenQuota]:
    """Yields once the listener is bound; registration follows in the background."""
    clock, log = environment.clock, environment.log
    store = open_store(config, environment)
    metrics, scopes = QuotaMetrics(environment.registry), Scopes(config.quota_scope, log)
    quota = Quota(store, config.quota_lease_ms, config.quota_max_entries, clock, metrics, scopes)
    memory = RoleMemory(RequestMemory(config.queued_max_request_bytes))
    RoleMemoryMetrics(environment.registry, memory)
    service = Service(
        quota,
        HANDLERS,
        INTERNAL_APIS,
        log,
        max_frame_bytes=config.socket_request_max_bytes,
        memory=memory,
    )
    service = with_logins(service, environment.secret, clock, environment.registry)
    async with (
        open_metadata_follower(config, environment, f"{ROLE}-{config.node_id}") as follower,
        contextlib.AsyncExitStack() as stack,
    ):
        stack.push_async_callback(store.close)
        follower.subscribe(quota.on_image)
        quota.on_image(follower.image, follower.image)
        server = await serve(
            [internal_address(config, environment.run_dir, f"{ROLE}-{config.node_id}", environment.secret)], service
        )
        stack.push_async_callback(server.close)
        registration = _registration(config, environment, follower, server)
        reports = Reports(
            clock,
            [Source("quota_usage", quota.usage, row_of, ("entity", "name"))],
            lambda request: follower.ask_controller(request, _REPORT_TIMEOUT_MS),
            lambda: (config.node_id, registration.service_epoch),
            log,
        )
        try:
            async with in_background(reports.run()), in_background(registration.run()):
                yield OpenQuota(quota, {"internal": str(server.addresses[0])})
        finally:
            await registration.leave(_LEAVE_TIMEOUT_MS)


def row_of(used: Used) -> dict[str, object]:
    """A row of the view quota_usage."""
    return {
        "entity": text_of(used.account),
        "name": used.key,
        "value": used.limit,
        "usage": used.rate,
        "throttle_time_ms": round(used.throttle_time_ms),
        "throttled": used.throttled,
    }


def open_store(config: Config, environment: Environment) -> LeaseStore:
    """In memory, or in the Redis of quota.url; there need not be one yet."""
    lease_ms, most = config.quota_lease_ms, config.quota_max_entries
    clock = environment.clock
    if config.quota_url is None:
        return MemoryStore(lease_ms, most, clock.monotonic_ms())
    try:
        redis = importlib.import_module("tailrace_quota.store.redis")  # its library is not always there
        store: LeaseStore = redis.RedisStore(
            config.quota_url, lease_ms, most, clock=clock, random=environment.random, log=environment.log
        )
    except ImportError as missing:
        raise ConfigError(f"quota.url needs a driver (pip install 'tailrace[redis]'): {missing}") from missing
    except ValueError as wrong:
        raise ConfigError(f"quota.url: {wrong}") from wrong
    return store


def _registration(
    config: Config, environment: Environment, follower: MetadataFollower, server: Server
) -> ServiceRegistration:
    return ServiceRegistration(
        follower,
        environment.clock,
        Backoff(environment.clock, environment.random),
        environment.log,
        role=ROLE,
        service_id=config.node_id,
        incarnation_id=UUID(int=environment.random.getrandbits(128), version=4),
        endpoints=advertised_endpoints(config, server.addresses, environment.boot_id),
        interval_ms=config.broker_heartbeat_interval_ms,
    )


role = Role(ROLE, open_quota)
