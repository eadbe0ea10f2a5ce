"""What is known to differ from Apache Kafka 4.3.1, with the reason; docs/compatibility.md lists it."""

from typing import NamedTuple


class Difference(NamedTuple):
    """One row of the page."""

    what: str
    kafka: str
    tailrace: str
    why: str


DIFFERENCES = (
    Difference(
        "replication factor above 1",
        "creates the replicas",
        "INVALID_REPLICATION_FACTOR",
        "replication comes later; a promise that is not kept would be worse",
    ),
    Difference(
        "a transactional id",
        "transactions",
        "one non-retriable error at once, from FindCoordinator and InitProducerId alike",
        "transactions come later; a retriable error would keep clients waiting for a minute",
    ),
    Difference(
        "KIP-848 groups, share groups, streams groups, SCRAM, ACLs, delegation tokens, telemetry, reassignments",
        "served",
        "not in ApiVersions",
        "an API that is not built is not advertised",
    ),
    Difference(
        "a negative array count, a client id of negative length, text that is not UTF-8",
        "read as something harmless",
        "the connection is closed",
        "what is not the protocol is refused in one place, the decoder",
    ),
)
