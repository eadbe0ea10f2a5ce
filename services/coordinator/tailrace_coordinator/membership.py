"""Which images count: shards are begun when the image shows this life of the coordinator registered.

With all controllers away that may take forever: then the cached image of an earlier life is served. What that life may
still have under way is found by the offsets of the next append.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.coordinator import ROLE, Coordinator

_SERVE_CACHED_MS = 3000


class Images(Protocol):
    """What membership needs of the metadata follower."""

    @property
    def image(self) -> MetadataImage: ...

    def subscribe(self, callback: Callable[[MetadataImage, MetadataImage], None]) -> None: ...


class Membership:
    """Gives the coordinator its images; `ready` is set once an image shows this life."""

    def __init__(self, coordinator: Coordinator, images: Images, clock: Clock, incarnation_id: UUID) -> None:
        self.incarnation_id = incarnation_id
        self.ready = asyncio.Event()
        self._coordinator = coordinator
        self._images = images
        self._serving = False
        images.subscribe(self.on_image)
        self._timer = clock.call_later(_SERVE_CACHED_MS, self._serve_cached)

    def on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Hands the image on, if this life or an earlier one is served."""
        coordinator = self._coordinator
        service = new.services.get((ROLE, coordinator.coordinator_id))
        if service is not None and service.incarnation_id == coordinator.incarnation_id:
            self._serving = True
            self.ready.set()
        if self._serving:
            coordinator.on_image(old, new)

    def on_registered(self) -> None:
        """A controller has taken this life in: shards of another one are not ours any more."""
        self._coordinator.incarnation_id = self.incarnation_id
        self._again()

    def close(self) -> None:
        """Waits no longer for a controller."""
        self._timer.cancel()

    def _serve_cached(self) -> None:
        self._serving = True
        self._again()

    def _again(self) -> None:
        self.on_image(self._images.image, self._images.image)
