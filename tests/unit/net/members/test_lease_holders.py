"""Between whom rates are split: gateways, and brokers that clients can come to."""

from uuid import UUID

from tailrace.metadata.image import BrokerImage, MetadataImage, ServiceImage
from tailrace.metadata.records import Endpoint
from tailrace.net.members.lease_holders import broker_as_holder, lease_holders, name_of_holder


def broker(node_id: int, listener: str, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(node_id, 1, UUID(int=node_id), (Endpoint(listener, "b", 1),), None, fenced)


def test_gateways_and_live_brokers_with_a_client_listener_hold_leases() -> None:
    services = {
        (role, n): ServiceImage(role, n, 1, UUID(int=n), ())
        for role, n in (("gateway", 0), ("gateway", 2), ("quota", 5))
    }
    brokers = {
        0: broker(0, "CLIENT"),
        1: broker(1, "CLIENT", fenced=True),  # has left, as a gateway that is not registered
        2: broker(2, "UNIX-boot"),  # gateway.advertise=gateway: its clients are the gateways'
        3: broker(3, "CLIENT"),
    }
    holders = lease_holders(MetadataImage(services=services, brokers=brokers))
    assert holders == {0, 2, broker_as_holder(0), broker_as_holder(3)}
    assert len(holders) == 4  # both count from 0
    names = ["broker-0", "broker-3", "gateway-0", "gateway-2"]
    assert sorted(map(name_of_holder, holders)) == names
