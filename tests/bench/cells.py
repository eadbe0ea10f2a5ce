"""What is measured: one row per load. An aim is a multiple of Apache Kafka's requests/s in the same run."""

from dataclasses import dataclass, field

KIB = 1024
CONNECTIONS = 4
PARTITIONS = 4
# A fetch topic holds this much per partition: more than the processor's caches, less than the page cache.
FETCH_BYTES = 30_000_000
FETCH_BATCHES = 20_000


@dataclass(frozen=True)
class Cell:
    """One load. size is the record batch's in bytes; options are the load client's own."""

    name: str
    mode: str
    size: int
    options: dict[str, int] = field(default_factory=dict, hash=False)
    aim_direct: float | None = None
    aim_gateway: float | None = None
    aim_handover: float | None = None
    aim_cpu: float | None = None  # the most CPU a request may cost, as a multiple of Kafka's, direct

    def aim(self, target: str) -> float | None:
        """The wanted multiple of Kafka's requests/s for `direct`, `gateway` or `handover`."""
        return {"direct": self.aim_direct, "gateway": self.aim_gateway, "handover": self.aim_handover}.get(target)

    @property
    def has_aim(self) -> bool:
        """Whether it is to be compared with Kafka at all."""
        return any((self.aim_direct, self.aim_gateway, self.aim_handover, self.aim_cpu))


def batch_options(size: int) -> dict[str, int]:
    """One record per batch up to 1 KiB; above, as many records of 1 KiB as fit."""
    return {"record-size": size, "batch-size": 0} if size <= KIB else {"record-size": KIB, "batch-size": size}


def produce(
    name: str,
    size: int,
    in_flight: int,
    direct: float | None = None,
    gateway: float | None = None,
    *,
    cpu: float | None = None,
    **options: int,
) -> Cell:
    """A produce load with acks=1, and its aims."""
    chosen = {**batch_options(size), "in-flight": in_flight, **options}
    return Cell(name, "produce", size, chosen, direct, gateway, aim_cpu=cpu)


def fetch(
    name: str,
    size: int,
    direct: float | None = None,
    gateway: float | None = None,
    *,
    handover: float | None = None,
    **options: int,
) -> Cell:
    """A fetch load: one batch of that size per answer, one request in flight per connection, always hot data."""
    return Cell(name, "fetch", size, options, direct, gateway, aim_handover=handover)


CELLS = (
    produce("produce 100 B", 100, 20),
    produce("produce 1 KiB", KIB, 5, 3.0, 2.0),
    produce("produce 16 KiB", 16 * KIB, 5, 1.5, 1.2, cpu=0.45),
    produce("produce 128 KiB", 128 * KIB, 3, 1.2, 1.1, cpu=0.6),
    produce("produce 900 KiB", 900 * KIB, 2),
    produce("produce 1 KiB, 1 connection, 1 in flight", KIB, 1, connections=1),
    produce("produce 1 KiB at 2,000/s", KIB, 20, rate=2000),
    produce("produce 16 KiB at 2,000/s", 16 * KIB, 20, rate=2000),
    fetch("fetch 100 B", 100),
    fetch("fetch 1 KiB", KIB),
    fetch("fetch 16 KiB", 16 * KIB, 1.3, 1.1),
    fetch("fetch 128 KiB", 128 * KIB, 1.0),
    fetch("fetch 900 KiB", 900 * KIB, 0.9, handover=0.9),
    fetch("fetch 900 KiB, 1 connection", 900 * KIB, 0.9, handover=0.9, connections=1),
)

# Brings a produce topic to what its retention leaves, and its segments to their turn.
TO_RETENTION = produce("to retention", 128 * KIB, 5)

# Three brokers, three replicas, two of which must be in sync. An aim is a multiple of Kafka's requests per CPU-second.
REPLICATED_CELLS = (
    produce("acks=all 100 B", 100, 20, acks=-1),
    produce("acks=all 1 KiB", KIB, 5, 1.5, 1.5, acks=-1),
    produce("acks=all 16 KiB", 16 * KIB, 5, 1.2, 1.2, acks=-1),
    produce("acks=all 128 KiB", 128 * KIB, 3, acks=-1),
    produce("acks=all 1 KiB, 1 connection, 1 in flight", KIB, 1, connections=1, acks=-1),
    produce("acks=all 1 KiB at 1,000/s", KIB, 20, rate=1000, acks=-1),
    produce("acks=1 1 KiB", KIB, 5, 1.5, 1.5, acks=1),
    produce("acks=1 16 KiB", 16 * KIB, 5, 1.2, 1.2, acks=1),
    produce("acks=1 1 KiB at 1,000/s", KIB, 20, rate=1000, acks=1),
)
