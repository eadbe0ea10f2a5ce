"""Replicas that move between the log directories of their broker: start, watch and cancel a move."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter

from tailrace.metadata.moves import Partition
from tailrace_gateway.rest.errors import not_found
from tailrace_gateway.rest.kafka import log_dir_moves
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.replication_models import LogDirMove, NewLogDirMove
from tailrace_gateway.rest.routes.brokers import live_broker
from tailrace_gateway.rest.routes.topics import partition_or_404
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Log directories"])
_MOVE = "/topics/{topic_name}/partitions/{partition_id}/replicas/{broker_id}/log-dir-move"


def _resource(scope: ClusterScope, key: Partition, broker_id: int, move: log_dir_moves.LogDirMove) -> LogDirMove:
    name, index = key
    replica = ("topics", name, "partitions", index, "replicas", broker_id)
    return LogDirMove(
        metadata=scope.metadata(*replica, "log-dir-move"),
        cluster_id=scope.cluster_id,
        topic_name=name,
        partition_id=index,
        broker_id=broker_id,
        source_log_dir=move.source,
        target_log_dir=move.target,
        copied_bytes=move.copied_bytes,
        total_bytes=move.total_bytes,
        offset_lag=move.offset_lag,
        replica=scope.link(*replica),
    )


def _replica_or_404(scope: ClusterScope, name: str, index: int, broker_id: int) -> Partition:
    """The partition, of which the broker has a replica, and the broker can be asked."""
    if broker_id not in partition_or_404(scope, name, index).replicas:
        raise not_found(f"{name}-{index} has no replica on broker {broker_id}.")
    live_broker(scope, broker_id)
    return name, index


async def _move_or_404(scope: ClusterScope, key: Partition, broker_id: int) -> log_dir_moves.LogDirMove:
    move = (await log_dir_moves.moving(scope.backend, broker_id, key)).get(key)
    if move is None:
        raise not_found(f"{key[0]}-{key[1]} is not moved between log directories of broker {broker_id}.")
    return move


@router.get("/brokers/{broker_id}/log-dir-moves")
async def list_log_dir_moves(scope: InCluster, broker_id: int) -> Listing[LogDirMove]:
    """Lists the replicas that a live broker moves between its log directories, with their progress."""
    live_broker(scope, broker_id)
    found = await log_dir_moves.moving(scope.backend, broker_id)
    data = [_resource(scope, key, broker_id, move) for key, move in found.items()]
    return Listing(
        kind="TailraceLogDirMoveList", metadata=scope.listing("brokers", broker_id, "log-dir-moves"), data=data
    )


@router.get(_MOVE)
async def get_log_dir_move(scope: InCluster, topic_name: str, partition_id: int, broker_id: int) -> LogDirMove:
    """Says how far a replica's move is; 404 if it is not moved."""
    key = _replica_or_404(scope, topic_name, partition_id, broker_id)
    return _resource(scope, key, broker_id, await _move_or_404(scope, key, broker_id))


@router.put(_MOVE, status_code=HTTPStatus.NO_CONTENT)
async def move_log_dir(
    scope: InCluster, topic_name: str, partition_id: int, broker_id: int, wanted: NewLogDirMove
) -> None:
    """Starts to move a replica, which serves all the while; nothing happens if it lies there."""
    key = _replica_or_404(scope, topic_name, partition_id, broker_id)
    await log_dir_moves.begin(scope.backend, broker_id, key, wanted.log_dir)


@router.delete(_MOVE, status_code=HTTPStatus.NO_CONTENT)
async def cancel_log_dir_move(scope: InCluster, topic_name: str, partition_id: int, broker_id: int) -> None:
    """Gives a move up: the replica stays where it is, and its copy is removed."""
    key = _replica_or_404(scope, topic_name, partition_id, broker_id)
    move = await _move_or_404(scope, key, broker_id)
    await log_dir_moves.begin(scope.backend, broker_id, key, move.source)
