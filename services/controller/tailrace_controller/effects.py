"""What a decision wants to happen: records to append, and the reply once they are committed."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from tailrace.metadata.records import MetadataRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Effects(Generic[R]):
    """The reply leaves when the records, and all that the decision saw, are committed."""

    reply: R
    records: tuple[MetadataRecord, ...] = ()
