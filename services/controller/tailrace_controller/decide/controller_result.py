"""What a decision wants to happen: records to append, and the reply once they are committed. Pure."""

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord

R = TypeVar("R")
MAX_RECORDS: Final = 10_000  # of one request of a user's, as in Kafka: everybody else waits for its decision


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """The reply leaves when the records, and all that the decision saw, are committed."""

    reply: R
    records: tuple[MetadataRecord, ...] = ()


Decision: TypeAlias = Callable[[MetadataImage], ControllerResult[R]]


def check_size(records: Sized, more: int = 0) -> None:
    """Refuses what would change too much at once, with so many more, as Kafka does: POLICY_VIOLATION."""
    if len(records) + more > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
