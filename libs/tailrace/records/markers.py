"""Transaction markers (KIP-98): the control record that ends a producer's transaction in one partition.

Key and value are ControlRecordType and EndTransactionMarker 0 of Apache Kafka's protocol guide.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

ABORT, COMMIT = 0, 1
MARKER_KEY: Final = Struct(">hh")  # version, type
MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch


def marker_record(committed: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """The key and value of a marker."""
    return MARKER_KEY.pack(0, COMMIT if committed else ABORT), MARKER_VALUE.pack(0, coordinator_epoch)
