"""The topics: one to produce to and one per size to fetch from, made and filled before anything is timed."""

from kafka.admin import KafkaAdminClient

from bench.cells import CONNECTIONS, FETCH_BATCHES, FETCH_BYTES, PARTITIONS, Cell, batch_options
from bench.client import LoadFailed, load

# Small segments, the old ones dropped: 4 partitions need some 900 MB at most, and their pages are used again.
RECYCLED = {"segment.bytes": "67108864", "retention.bytes": "150000000", "file.delete.delay.ms": "100"}
RECYCLED_BYTES = 300_000_000  # a partition: above what it keeps, its segment being written and those to be deleted
ATTEMPTS = 200  # a fresh topic's leaders may be unknown for some milliseconds


def topic_of(cell: Cell) -> str:
    """The topic that the cell works on."""
    return "bench-produce" if cell.mode == "produce" else f"bench-fetch-{cell.size}"


def create(address: str, cells: tuple[Cell, ...]) -> None:
    """Creates what the cells need."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        wanted = {topic_of(cell): {} if cell.mode == "fetch" else RECYCLED for cell in cells}
        rows = {"num_partitions": PARTITIONS, "replication_factor": 1}
        admin.create_topics({name: {**rows, "configs": configs} for name, configs in wanted.items()})
    finally:
        admin.close()


def settle(address: str, topic: str, *, pin: bool = True, partitions: int = PARTITIONS) -> None:
    """Returns when every partition of the topic takes records, all at the address or each at its leader."""
    options = {"connections": partitions, "requests": partitions, "in-flight": 1, "record-size": 10}
    options |= {"pin": True} if pin else {}
    for attempt in range(ATTEMPTS):
        try:
            load(address, topic, {**options, "warm-up": 0, "seconds": 5})
        except LoadFailed:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


def fill(address: str, cell: Cell) -> int:
    """Fills a cell's topic with batches of its size and answers how many bytes one batch has."""
    size_bytes = FETCH_BYTES if cell.mode == "fetch" else RECYCLED_BYTES
    batches = min(FETCH_BATCHES, -(-size_bytes // cell.size)) * PARTITIONS
    options = {**batch_options(cell.size), "connections": CONNECTIONS, "in-flight": 5, "pin": True}
    done = load(address, topic_of(cell), {**options, "requests": batches, "warm-up": 0, "seconds": 60})
    return int(done["bytes"]) // int(done["requests"])
