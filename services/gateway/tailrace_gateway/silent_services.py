"""Which of the services, and whether the controller, do not answer: ApiVersions v0, which every role serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.net.members.endpoints import address_of
from tailrace.wire.messages import ApiVersionsRequest

ROLES: Final = ("coordinator", "quota")
_VERSION: Final = 0


def addresses_of(image: MetadataImage, boot_id: str) -> dict[tuple[str, int], Address | None]:
    """Where the registered coordinators and quota services are asked, by role and id."""
    services = [service for role in ROLES for service in image.services_of(role)]
    return {(one.role, one.service_id): address_of(one.endpoints, boot_id) for one in services}


async def silent(
    addresses: Mapping[tuple[str, int], Address | None], client_of: Callable[[Address], Client], timeout_ms: float
) -> set[tuple[str, int]]:
    """Which of them do not answer in time."""

    async def answers(address: Address | None) -> bool:
        if address is None:
            return False
        try:
            await client_of(address).ask(ApiVersionsRequest(), timeout_ms=timeout_ms, version=_VERSION)
        except OSError:
            return False
        return True

    found = await asyncio.gather(*map(answers, addresses.values()))
    return {key for key, good in zip(addresses, found, strict=True) if not good}
