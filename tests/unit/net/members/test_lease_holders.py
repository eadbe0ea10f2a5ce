"""Between whom rates are split: gateways, and brokers that clients can come to."""

from uuid import UUID

from tailrace.metadata.image import BrokerImage, MetadataImage, ServiceImage
from tailrace.metadata.records import Endpoint
from tailrace.net.members.lease_holders import broker_as_holder, holders_in, lease_holders, name_of_holder
from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leases import FLOOR, Demand, LeaseTable


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


def test_brokers_that_a_gateway_left_alone_with_its_clients_share_their_rate() -> None:
    account: Account = (("client-id", "app"),)
    rate, lease_ms = 1000.0, 500.0
    quotas = ClientQuotas({account: {"producer_byte_rate": rate}})
    holders = holders_in(MetadataImage(brokers={n: broker(n, "UNIX-boot") for n in range(3)}))
    assert holders.sharing == holders.live == {-1, -2, -3}
    leases = LeaseTable(lease_ms, 10, -lease_ms)
    demand = Demand(account, QuotaKind.PRODUCE, 2 * rate, rate)
    for now_ms in range(0, 3000, 250):
        rates = [leases.acquire((holder, "i"), [demand], quotas, holders, now_ms)[0].rate for holder in (-1, -2, -3)]
        assert leases.leased(account, QuotaKind.PRODUCE, now_ms) <= rate * (1 + FLOOR)
    assert max(rates) <= 0.4 * rate and sum(rates) >= 0.95 * rate


def test_every_live_broker_keeps_its_lease_and_only_those_that_clients_come_to_count_for_an_even_share() -> None:
    services = {("gateway", 0): ServiceImage("gateway", 0, 1, UUID(int=0), ())}
    brokers = {1: broker(1, "UNIX-boot"), 2: broker(2, "UNIX-boot", fenced=True)}
    holders = holders_in(MetadataImage(services=services, brokers=brokers))
    assert (holders.live, holders.sharing) == ({0, broker_as_holder(1)}, {0})
