"""Which of a service's endpoints can be reached from here, also where one of the two does not tell containers apart."""

import pytest

from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.members.endpoints import INTERNAL, address_of, endpoints_of

SOCKET, TCP = Address("/run/broker-0.sock", -1), Address("10.0.0.1", 9190)


def published(boot_id: str) -> list[Endpoint]:
    return [*endpoints_of(SOCKET, boot_id), *endpoints_of(TCP, boot_id)]


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        ("boot@fe01-2", "boot@fe01-2", SOCKET),
        ("boot@fe01-2", "boot@52-9", TCP),  # another container of this host
        ("boot@fe01-2", "boot", SOCKET),  # an earlier version asks
        ("boot", "boot@fe01-2", SOCKET),  # an earlier version is asked
        ("boot", "boot", SOCKET),
        ("other@fe01-2", "boot@fe01-2", TCP),
        ("other", "boot@fe01-2", TCP),
    ],
)
def test_a_socket_is_used_where_it_can_be_opened(theirs: str, ours: str, found: Address) -> None:
    assert address_of(published(theirs), ours) == found


def test_a_service_on_tcp_alone_is_found_there() -> None:
    assert endpoints_of(TCP, "boot@fe01-2") == [Endpoint(INTERNAL, "10.0.0.1", 9190)]
    assert address_of(endpoints_of(TCP, "boot@fe01-2"), "boot@fe01-2") == TCP
    assert address_of(endpoints_of(SOCKET, "other@fe01-2"), "boot@fe01-2") is None
