"""Controller, brokers, services and log directories: which of them answer, and which partitions that hurts."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.moves import Copied, Partition
from tailrace_gateway.cluster_state import BrokerStatus, ClusterState
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.console.hub import LookResult
from tailrace_gateway.rest.console.rows import Row
from tailrace_gateway.rest.log_dirs import kafka as dirs
from tailrace_gateway.rest.log_dirs import space
from tailrace_gateway.rest.replication import reassignments

LOOK_MS: Final = 2_000
ANSWER_MS: Final = 2_000  # with LOOK_MS less than the six seconds within which a silent role is named
NAMED_MAX: Final = 6
MOVES_MAX: Final = 50
LOG_DIRS_MS: Final = 5_000
_PARTITION_MS: Final = 1.0  # waited for each partition that a look told of
_WORDS: Final = ("offline", "under_min_isr", "under_replicated", "at_min_isr", "not_preferred", "reassigning")
_REQUIRED: Final = ("coordinator",)  # roles without which clients fail


class _Known(NamedTuple):
    """What an image says."""

    image: MetadataImage
    state: ClusterState


class StatusLook:
    """The cluster's state, which is worked out of an image once."""

    def __init__(self, backend: AdminBackend) -> None:
        self._backend = backend
        self._known: _Known | None = None

    async def _state(self) -> _Known:
        image = self._backend.image()
        if self._known is None or self._known.image is not image:
            state = await self._backend.state()
            self._known = _Known(image, state)
        return self._known

    async def look(self) -> LookResult:
        """One row for the cluster, for each broker, service and troubled log directory, each count and each move."""
        backend, (_, state) = self._backend, await self._state()
        live = [row.broker_id for row in state.brokers if row.status != BrokerStatus.FENCED]
        moving = state.reassigning[:MOVES_MAX]
        troubled, silent, copied = await asyncio.gather(
            space.troubled(backend, live, ANSWER_MS),
            backend.silent_services(ANSWER_MS),
            reassignments.copied(backend, moving),
        )
        image = backend.image()
        rows: dict[str, Row] = {"cluster": _cluster(backend, state, silent)}
        for word in _WORDS:
            rows[f"count:{word}"] = _count(word, getattr(state, word))
        for broker in state.brokers:
            host, port = backend.address_of(broker.broker_id)
            rows[f"broker:{broker.broker_id}"] = {
                "broker_id": broker.broker_id,
                "address": f"{host}:{port}",
                "rack": broker.rack,
                "state": str(broker.status),
                "silent": broker.broker_id in troubled.silent,
                "leaders": broker.leaders,
                "replicas": broker.replicas,
                "in_sync": broker.in_sync,
                "leaving": broker.leaving,
            }
        for (role, number), service in sorted(image.services.items()):
            row: Row = {"role": role, "id": number, "silent": (role, service.service_id) in silent}
            rows[f"service:{role}-{number}"] = row
        for role in _REQUIRED:
            if not any(image.services_of(role)):
                rows[f"absent:{role}"] = {"role": role}
        for pressed in troubled.pressed:
            pressure: Row = {"broker_id": pressed.broker_id, "log_dir": pressed.log_dir, "producers": pressed.level}
            rows[f"pressed:{pressed.broker_id}:{pressed.log_dir}"] = pressure
        for node, path in troubled.offline:
            rows[f"offline:{node}:{path}"] = {"broker_id": node, "log_dir": path}
        for key in moving:
            rows[f"move:{_name(key)}"] = _move(image, key, copied.get(key))
        return LookResult(rows, LOOK_MS)


def _cluster(backend: AdminBackend, state: ClusterState, silent: set[tuple[str, int]]) -> Row:
    controller = backend.controller()
    return {
        "cluster_id": backend.image().cluster_id,
        "controller_id": controller.controller_id,
        "controller_epoch": controller.controller_epoch,
        "stale": controller.stale or ("controller", controller.controller_id) in silent,
        "topics": state.topics,
        "partitions": state.partitions,
    }


def _name(key: Partition) -> str:
    return f"{key[0]}-{key[1]}"


def _count(word: str, partitions: tuple[Partition, ...]) -> Row:
    names = [_name(key) for key in partitions[:NAMED_MAX]]
    return {"word": word, "count": len(partitions), "names": names}


def _move(image: MetadataImage, key: Partition, copied: Copied | None) -> Row:
    partition = image.partition(*key)
    return {
        "name": _name(key),
        "topic": key[0],
        "partition": key[1],
        "adding": [] if partition is None else list(partition.adding_replicas),
        "removing": [] if partition is None else list(partition.removing_replicas),
        "copied_bytes": None if copied is None else copied.copied_bytes,
        "total_bytes": None if copied is None else copied.total_bytes,
    }


async def log_dirs(backend: AdminBackend) -> LookResult:
    """One row for each log directory of each live broker; a broker that does not answer has one, too."""
    nodes = [node.broker_id for node in backend.image().live_brokers()]
    rows: dict[str, Row] = {}
    partitions = 0

    async def of_one(node: int) -> list[dirs.LogDirRow] | None:
        try:
            return await dirs.describe(backend, node)
        except ApiError as refused:
            if refused.code != ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            return None
        except OSError:
            return None

    for node, found in zip(nodes, await asyncio.gather(*map(of_one, nodes)), strict=True):
        if found is None:
            rows[f"{node}:"] = {"broker_id": node, "silent": True}
        for held in found or ():
            partitions += held.partitions
            rows[f"{node}:{held.path}"] = {
                "broker_id": node,
                "silent": False,
                "log_dir": held.path,
                "state": "offline" if held.error_code else "online",
                "producers": None if held.level is None else held.level.producers,
                "partitions": held.partitions,
                "size_bytes": None if held.error_code else held.size_bytes,
                "usable_bytes": None if held.usable_bytes < 0 else held.usable_bytes,
                "total_bytes": None if held.total_bytes < 0 else held.total_bytes,
            }
    return LookResult(rows, max(LOG_DIRS_MS, partitions * _PARTITION_MS))
