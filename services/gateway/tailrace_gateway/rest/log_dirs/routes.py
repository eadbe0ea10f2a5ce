"""Log directories of a broker, and replicas that move between them: start, watch and cancel a move."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter

from tailrace.metadata.moves import Partition
from tailrace_gateway.rest.brokers.routes import live_broker
from tailrace_gateway.rest.errors import not_found
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.log_dirs import kafka
from tailrace_gateway.rest.log_dirs import moves as log_dir_moves
from tailrace_gateway.rest.log_dirs.models import LogDir, LogDirMove, NewLogDirMove
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics.routes import partition_or_404

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


@router.get("/brokers/{broker_id}/log-dirs")
async def list_log_dirs(scope: InCluster, broker_id: int) -> Listing[LogDir]:
    """Lists a live broker's log directories: which are offline, what they hold and how much room there is."""
    live_broker(scope, broker_id)
    here = ("brokers", broker_id, "log-dirs")
    data = [
        LogDir(
            metadata=scope.metadata(*here),
            cluster_id=scope.cluster_id,
            broker_id=broker_id,
            log_dir=held.path,
            state="offline" if held.error_code else "online",
            producers=None if held.level is None else held.level.producers,
            total_bytes=None if held.total_bytes < 0 else held.total_bytes,
            usable_bytes=None if held.usable_bytes < 0 else held.usable_bytes,
            size_bytes=None if held.error_code else held.size_bytes,
            partitions_count=held.partitions,
            moving_here_count=held.moving_here,
        )
        for held in await kafka.describe(scope.backend, broker_id)
    ]
    return Listing(kind="TailraceLogDirList", metadata=scope.listing(*here), data=data)
