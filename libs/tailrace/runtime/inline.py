"""Several roles in one event loop: for debuggers and integration tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tailrace.runtime.role_instance import RoleInstance, run_service


async def run_services(services: Sequence[RoleInstance], stop: asyncio.Event) -> None:
    """Opens all at once, closes them in reverse order once `stop` is set or one of them ended; raises its error."""
    stops = [asyncio.Event() for _ in services]
    tasks = [
        asyncio.create_task(run_service(service, own), name=f"{service.role.name}-{service.service_id}")
        for service, own in zip(services, stops, strict=True)
    ]
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        for task, own in reversed(list(zip(tasks, stops, strict=True))):
            own.set()
            await asyncio.wait([task])
    for task in tasks:
        task.result()
