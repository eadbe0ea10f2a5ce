"""How Kafka names a partition, and how it writes an id as text."""

import base64
import binascii
from functools import lru_cache
from typing import TypeAlias
from uuid import UUID

TopicPartition: TypeAlias = tuple[str, int]


@lru_cache(maxsize=4096)  # the ids of topics: a change of thousands of partitions writes each of few of them often
def format_uuid(uuid: UUID) -> str:
    """URL-safe base64 without padding, as org.apache.kafka.common.Uuid writes an id."""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """Reads what format_uuid wrote; ValueError for anything else."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except binascii.Error as wrong:
        raise ValueError(f"{text!r} is no id of Kafka's") from wrong
