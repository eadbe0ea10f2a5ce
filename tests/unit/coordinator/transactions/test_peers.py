"""Where a coordinator reaches the brokers: as the image has them now."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace_coordinator.transactions.peers import Peers


def test_the_address_of_a_broker_follows_the_image() -> None:
    known = BrokerImage(1, 1, UUID(int=1), endpoints=(Endpoint("INTERNAL", "a", 9),))
    images = [MetadataImage(brokers={1: known})]
    peers = Peers(lambda: images[-1], "boot")
    assert [peers.broker(1), peers.broker(1), peers.broker(2)] == [Address("a", 9), Address("a", 9), None]
    images.append(MetadataImage(brokers={1: replace(known, endpoints=(Endpoint("INTERNAL", "b", 9),))}))
    assert peers.broker(1) == Address("b", 9)
    images.append(MetadataImage())
    assert peers.broker(1) is None
