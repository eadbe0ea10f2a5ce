"""Brokers: those registered and not fenced, with the addresses that clients are told."""

from __future__ import annotations

from fastapi import APIRouter

from tailrace.metadata.image import BrokerImage
from tailrace_gateway.rest.errors import not_found
from tailrace_gateway.rest.models import Broker, Listing
from tailrace_gateway.rest.scope import InCluster, Scope

router = APIRouter(prefix="/v3/clusters/{cluster_id}/brokers", tags=["Broker"])


def broker_of(scope: Scope, broker: BrokerImage) -> Broker:
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
        configs=scope.link(*here, "configs"),
        partition_replicas=scope.link(*here, "partition-replicas"),
    )


def live_broker(scope: Scope, broker_id: int) -> BrokerImage:
    """The broker, or 404."""
    broker = scope.image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        raise not_found(f"Broker {broker_id} cannot be found.")
    return broker


@router.get("")
async def list_brokers(scope: InCluster) -> Listing[Broker]:
    """Lists the live brokers."""
    data = [broker_of(scope, broker) for broker in scope.image.live_brokers()]
    return Listing(kind="KafkaBrokerList", metadata=scope.listing("brokers"), data=data)


@router.get("/{broker_id}")
async def get_broker(scope: InCluster, broker_id: int) -> Broker:
    """Describes a broker."""
    return broker_of(scope, live_broker(scope, broker_id))
