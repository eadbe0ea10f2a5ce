"""Between whom a rate is split: every gateway, and every broker, which has clients at its own listener, or such as a
gateway handed over.

A gateway is known to the quota service by its id, a broker by a number below zero, since both count from 0.
"""

from __future__ import annotations

from tailrace.metadata.image import MetadataImage

_CLIENT_ENDPOINT = "CLIENT"


def broker_as_holder(broker_id: int) -> int:
    """What stands in AcquireLease's gateway_id for a broker."""
    return -1 - broker_id


def name_of_holder(holder_id: int) -> str:
    """As the services are called in logs."""
    return f"gateway-{holder_id}" if holder_id >= 0 else f"broker-{-1 - holder_id}"


def lease_holders(image: MetadataImage) -> frozenset[int]:
    """All that may hold client sockets now; a broker that is fenced has left, as a gateway that is not registered."""
    gateways = (service.service_id for service in image.services_of("gateway"))
    brokers = (broker_as_holder(broker.broker_id) for broker in image.live_brokers())
    return frozenset((*gateways, *brokers))


def accepting_count(image: MetadataImage) -> int:
    """How many of them accept connections: every gateway, and a live broker that has a listener for clients.

    What a gateway hands over it has accepted itself.
    """
    listening = sum(broker.endpoint(_CLIENT_ENDPOINT) is not None for broker in image.live_brokers())
    return sum(1 for _ in image.services_of("gateway")) + listening
