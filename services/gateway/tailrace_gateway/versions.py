"""Learns what the roles behind serve, so that ApiVersions never promises what one of them cannot do.

Each new life of a broker, coordinator or controller is asked once; what is advertised is what all of a role's members
serve (a rolling upgrade shows the older one's versions). A member that does not answer does not narrow anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected
from tailrace.net.members.endpoints import address_of
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import ApiVersionsRequest
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.node import CLIENT_ID
from tailrace_gateway.relay.routes import Versions

_ASK_TIMEOUT_MS = 3000.0
Member: TypeAlias = tuple[str, int, int]  # role, id, epoch of this life


class ServedVersions:
    """Follows the image; asks in the background."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._known: dict[Member, Versions | None] = {}  # None: asked, no answer yet

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Asks who is new, forgets who is gone."""
        members = dict(self._members(new))
        gone = [member for member in self._known if member not in members]
        for member in gone:
            del self._known[member]
        for member, address in members.items():
            if member not in self._known:
                self._known[member] = None
                self._gateway.run_in_background(self._ask(member, address))
        if gone:
            self._clamp()

    def _members(self, image: MetadataImage) -> Iterator[tuple[Member, Address]]:
        boot_id = self._gateway.boot_id
        for broker in image.live_brokers():
            if (address := address_of(broker.endpoints, boot_id)) is not None:
                yield ("broker", broker.broker_id, broker.broker_epoch), address
        for service in image.services_of("coordinator"):
            if (address := address_of(service.endpoints, boot_id)) is not None:
                yield ("coordinator", service.service_id, service.service_epoch), address
        if (controller := self._gateway.follower.controller) is not None:
            yield ("controller", 0, image.epoch), controller

    async def _ask(self, member: Member, address: Address) -> None:
        client = Client(address, CLIENT_ID, login=self._gateway.secret)
        try:
            request = ApiVersionsRequest(client_software_name="tailrace", client_software_version="1")
            answer = await client.ask(request, timeout_ms=_ASK_TIMEOUT_MS)
        except (Disconnected, TimeoutError, Malformed):
            return
        finally:
            await client.close()
        if answer.error_code == ErrorCode.NONE and member in self._known:
            self._known[member] = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
            self._clamp()

    def _clamp(self) -> None:
        served: dict[str, Versions] = {}
        for (role, _, _), versions in self._known.items():
            if versions is not None:
                served[role] = narrowed(served[role], versions) if role in served else versions
        self._gateway.serve_versions(served)


def narrowed(one: Versions, other: Versions) -> Versions:
    """What both serve."""
    both = {
        key: (max(low, other[key][0]), min(high, other[key][1])) for key, (low, high) in one.items() if key in other
    }
    return {key: (low, high) for key, (low, high) in both.items() if low <= high}
