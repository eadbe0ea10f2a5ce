"""Between whom a rate is split: every gateway, and every broker whose own listener takes clients.

Where there is none of them, every broker: it may hold clients that a gateway handed over before it ended.

A gateway is known to the quota service by its id, a broker by a number below zero, since both count from 0.
"""

from __future__ import annotations

from tailrace.metadata.image import MetadataImage
from tailrace.quota.leases import Holders

CLIENT_ENDPOINT = "CLIENT"


def broker_as_holder(broker_id: int) -> int:
    """What stands in AcquireLease's gateway_id for a broker."""
    return -1 - broker_id


def name_of_holder(holder_id: int) -> str:
    """As the services are called in logs."""
    return f"gateway-{holder_id}" if holder_id >= 0 else f"broker-{-1 - holder_id}"


def lease_holders(image: MetadataImage) -> frozenset[int]:
    """All that hold client sockets now; a broker that is fenced has left, as a gateway that is not registered."""
    gateways = (service.service_id for service in image.services_of("gateway"))
    brokers = (
        broker_as_holder(broker.broker_id)
        for broker in image.live_brokers()
        if broker.endpoint(CLIENT_ENDPOINT) is not None
    )
    return frozenset((*gateways, *brokers)) or _brokers(image)


def holders_in(image: MetadataImage) -> Holders:
    """All that may keep a lease, and between how many an even share is divided. Any broker may have a limited client:
    one that a gateway handed over, while there is no gateway to take it back.
    """
    sharing = lease_holders(image)
    return Holders(sharing | _brokers(image), sharing)


def _brokers(image: MetadataImage) -> frozenset[int]:
    return frozenset(broker_as_holder(broker.broker_id) for broker in image.live_brokers())
