"""Which topics are compacted, as far as the metadata beside a log directory tells."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tailrace.inspect import kafka_metadata
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata import cache as metadata_cache

_POLICY: Final = "cleanup.policy"


def compacted_topics(log_directory: Path) -> set[str]:
    """The topics whose cleanup.policy has `compact`; none where no metadata lies there or it cannot be read."""
    image = _image(log_directory)
    configs = image.configs.items() if image else ()
    return {
        name
        for (kind, name), values in configs
        if kind == ConfigResource.TOPIC and "compact" in values.get(_POLICY, "")
    }


def _image(log_directory: Path) -> MetadataImage | None:
    """Kafka's own log of it, or the copy that a broker of a Tailrace data directory keeps."""
    if (log_directory / kafka_metadata.DIRECTORY).is_dir():
        try:
            return kafka_metadata.replay(log_directory).image
        except (MalformedRecord, OSError, ValueError, AssertionError, KeyError):
            return None  # what is wrong there is found when its segments are read
    cached = metadata_cache.read(log_directory.parent / "metadata-cache" / f"{log_directory.name}.image")
    return cached.image if cached else None
