"""Between whom rates are split: gateways and brokers."""

from uuid import UUID

from tailrace.metadata.image import BrokerImage, MetadataImage, ServiceImage
from tailrace.metadata.records import Endpoint
from tailrace.net.members.lease_holders import accepting_count, lease_holders, name_of_holder
from tailrace.quota.entity import Account, ClientQuotas, QuotaKind
from tailrace.quota.leases import FLOOR, Demand, LeaseTable


def broker(node_id: int, listener: str, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(node_id, 1, UUID(int=node_id), (Endpoint(listener, "b", 1),), None, fenced)


def test_gateways_and_live_brokers_hold_leases() -> None:
    services = {
        (role, n): ServiceImage(role, n, 1, UUID(int=n), ())
        for role, n in (("gateway", 0), ("gateway", 2), ("quota", 5))
    }
    brokers = {
        0: broker(0, "CLIENT"),
        1: broker(1, "CLIENT", fenced=True),  # has left, as a gateway that is not registered
        2: broker(2, "UNIX-boot"),  # a gateway may hand clients over to it
    }
    image = MetadataImage(services=services, brokers=brokers)
    holders = lease_holders(image)
    assert len(holders) == 4  # both count from 0
    assert accepting_count(image) == 3  # broker 2 has no listener for clients
    assert sorted(map(name_of_holder, holders)) == ["broker-0", "broker-2", "gateway-0", "gateway-2"]


def test_a_client_at_several_brokers_shares_its_rate() -> None:
    account: Account = (("client-id", "app"),)
    rate, lease_ms = 1000.0, 500.0
    quotas = ClientQuotas({account: {"producer_byte_rate": rate}})
    holders = lease_holders(MetadataImage(brokers={n: broker(n, "UNIX-boot") for n in range(3)}))
    leases = LeaseTable(lease_ms, 10, -lease_ms)
    demand = Demand(account, QuotaKind.PRODUCE, 2 * rate, rate)
    for now_ms in range(0, 3000, 250):
        rates = [leases.acquire((holder, "i"), [demand], quotas, holders, now_ms)[0].rate for holder in (-1, -2, -3)]
        assert leases.leased(account, QuotaKind.PRODUCE, now_ms) <= rate * (1 + FLOOR)
    assert max(rates) <= 0.4 * rate and sum(rates) >= 0.95 * rate
