"""Brokers: all that are registered, with their state and the addresses that clients are told."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Response

from tailrace.errors import ErrorCode
from tailrace.metadata.image import BrokerImage
from tailrace_gateway.cluster_state import status_of
from tailrace_gateway.rest.brokers.models import Broker
from tailrace_gateway.rest.errors import not_found, translate
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.topics.models import Replica
from tailrace_gateway.rest.topics.routes import replica_of

router = APIRouter(prefix="/v3/clusters/{cluster_id}/brokers", tags=["Broker"])


def broker_of(scope: ClusterScope, broker: BrokerImage) -> Broker:
    """One broker as a resource."""
    here = ("brokers", broker.broker_id)
    host, port = scope.backend.address_of(broker.broker_id)
    return Broker(
        metadata=scope.metadata(*here),
        cluster_id=scope.cluster_id,
        broker_id=broker.broker_id,
        host=host,
        port=port,
        rack=broker.rack,
        state=status_of(broker),
        broker_epoch=broker.broker_epoch,
        configs=scope.link(*here, "configs"),
        partition_replicas=scope.link(*here, "partition-replicas"),
        log_dirs=scope.link(*here, "log-dirs"),
    )


def registered_broker(scope: ClusterScope, broker_id: int) -> BrokerImage:
    """The broker, fenced or not, or 404."""
    broker = scope.image.brokers.get(broker_id)
    if broker is None:
        raise not_found(f"Broker {broker_id} cannot be found.")
    return broker


def live_broker(scope: ClusterScope, broker_id: int) -> BrokerImage:
    """The broker if it can be asked; 404 for one that is not registered, 503 for one that is fenced."""
    broker = registered_broker(scope, broker_id)
    if broker.fenced:
        raise translate(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} is fenced.")
    return broker


@router.get("")
async def list_brokers(scope: InCluster) -> Listing[Broker]:
    """Lists the registered brokers; `state` says which are live."""
    data = [broker_of(scope, broker) for _, broker in sorted(scope.image.brokers.items())]
    return Listing(kind="KafkaBrokerList", metadata=scope.listing("brokers"), data=data)


@router.get("/{broker_id}")
async def get_broker(scope: InCluster, broker_id: int) -> Broker:
    """Describes a broker."""
    return broker_of(scope, registered_broker(scope, broker_id))


@router.get("/{broker_id}/partition-replicas", response_model=Listing[Replica])
async def list_broker_replicas(scope: InCluster, broker_id: int) -> Response:
    """Lists the replicas that a broker holds."""
    registered_broker(scope, broker_id)
    rows = _replicas_on(scope, broker_id)
    return await scope.listed("KafkaReplicaList", ("brokers", broker_id, "partition-replicas"), rows)


def _replicas_on(scope: ClusterScope, broker_id: int) -> Iterator[Replica]:
    for name, topic in sorted(scope.image.topics.items()):
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.replicas:
                yield replica_of(scope, name, index, partition, broker_id)
