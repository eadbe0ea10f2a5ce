"""The configs of this broker, with those that the metadata image sets above them (KIP-226, DynamicBrokerConfig)."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.config import LONG_MAX, Config
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata.image import MetadataImage


class DynamicBrokerConfig:
    """`static` is what the broker was started with, `current` what holds now."""

    def __init__(self, static: Config, image: Callable[[], MetadataImage]) -> None:
        self.static = static
        self.current = static
        self._image = image

    def follow(self, old: MetadataImage, new: MetadataImage) -> bool:
        """Takes up the configs of a new image; whether any of this broker's has changed."""
        own = (ConfigResource.BROKER, str(self.static.node_id))
        default = (ConfigResource.BROKER, ALL_BROKERS)
        if all(old.configs.get(key) == new.configs.get(key) for key in (own, default)):
            return False
        self.current = self.static.with_dynamic(new.config(*default), new.config(*own))
        return True

    def rate(self, name: str) -> int:
        """A rate that exists as a dynamic config only (KIP-73): this broker's, else the default one, else no limit."""
        image = self._image()
        for key in (str(self.static.node_id), ALL_BROKERS):
            text = image.config(ConfigResource.BROKER, key).get(name)
            if text is not None:
                return int(text)
        return LONG_MAX
