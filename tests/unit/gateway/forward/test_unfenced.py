"""Which requests wait while no broker is unfenced, and which image has one of which clients can be told."""

from uuid import UUID

import pytest

from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.wire.apis import ApiKey
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.forward import unfenced
from tailrace_gateway.gateway import Advertised
from tailrace_gateway.relay.routes import ROUTES, Route

AT_ONCE = {
    ApiKey.API_VERSIONS,  # a client says hello before it asks for anything
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
}


@pytest.mark.parametrize("key", ROUTES)
def test_what_an_image_without_brokers_would_answer_wrongly_waits(key: ApiKey) -> None:
    answered_here = {
        Route.HERE: key not in AT_ONCE,
        Route.CONTROLLER: True,
        Route.NODE: False,
        Route.COORDINATOR: False,
    }
    assert unfenced.needs_broker(ROUTES[key], key) == answered_here[ROUTES[key]]


class Knows(AnsweringGateway):
    """A gateway that knows only what clients are told."""

    def __init__(self, advertised: Advertised) -> None:
        self.advertised = advertised


def broker(node_id: int, *, fenced: bool = False, client: bool = True) -> BrokerImage:
    endpoints = (Endpoint("CLIENT", "b", 1),) if client else (Endpoint("INTERNAL", "b", 1),)
    return BrokerImage(node_id, 1, UUID(int=node_id), endpoints, None, fenced)


@pytest.mark.parametrize(
    ("brokers", "by_gateway", "by_brokers"),
    [
        ([], False, False),
        ([broker(0, fenced=True)], False, False),
        ([broker(0, fenced=True), broker(1)], True, True),
        ([broker(0, client=False)], True, False),
    ],
)
def test_a_live_broker_is_one_that_clients_can_be_told_of(
    brokers: list[BrokerImage], by_gateway: bool, by_brokers: bool
) -> None:
    image = MetadataImage(brokers={each.broker_id: each for each in brokers})
    assert Knows(Advertised()).has_live_broker(image) == by_gateway
    assert Knows(Advertised(brokers=True)).has_live_broker(image) == by_brokers


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ([], "No broker is unfenced: none has registered yet."),
        ([broker(0, fenced=True)], "No broker is unfenced: 1 registered, all fenced."),
    ],
)
def test_a_person_is_told_why(brokers: list[BrokerImage], expected: str) -> None:
    assert unfenced.sentence(MetadataImage(brokers={each.broker_id: each for each in brokers})) == expected
