"""What the REST API needs of the gateway: the image, and a way to ask each kind of service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from tailrace.access.resources import AclOperation, ResourceType
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.log.directory.disk_pressure import Marks
from tailrace.metadata.image import MetadataImage
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.producers import PartitionProducers
from tailrace.wire.messages import ApiMessage
from tailrace_gateway.cluster_state import ClusterState
from tailrace_gateway.scrape_targets import ScrapeTarget

T = TypeVar("T")
READ_TIMEOUT_MS = 3_000  # for what only one process tells: longer than a controller takes over from another
SPARE_TIMEOUT_MS = 3_000  # for what an answer can do without: who asked has a patience of its own


class ControllerView(NamedTuple):
    """The active controller as this gateway knows it; id -1 and no address before any answered."""

    controller_id: int
    controller_epoch: int
    address: str | None
    stale: bool
    metadata_offset: int


class Rights(NamedTuple):
    """What the user may do with a resource; the user is None where the cluster has no authorizer."""

    user: str | None
    operations: tuple[AclOperation, ...]
    creates_topics: bool  # some at least


class TopicConnections(Protocol):
    """Connections to brokers for one reading of a topic: a Fetch that waits holds up nothing else."""

    async def ask(self, node_id: int, message: ApiMessage, version: int, timeout_ms: int) -> object:
        """As AdminBackend.ask_broker. Refused with TOPIC_AUTHORIZATION_FAILED without READ on the topic."""
        ...

    async def close(self) -> None: ...


class AdminBackend(Protocol):
    """An in-process Kafka client of this gateway.

    Every `ask_` sends the message at `version` (None: the highest that the api table has) and returns the decoded
    response. It gives up after a time of its own with TimeoutError; ConnectionError means that the answer is unknown,
    ApiError that nobody could be asked (COORDINATOR_NOT_AVAILABLE, BROKER_NOT_AVAILABLE, NOT_CONTROLLER).
    """

    def image(self) -> MetadataImage:
        """The newest image, with the topics that the user may describe; it never waits."""
        ...

    def cluster_image(self, api_key: ApiKey) -> MetadataImage:
        """The newest image with all topics, for what counts them.

        Raises CLUSTER_AUTHORIZATION_FAILED where the user may not send that request, which is about the cluster.
        """
        ...

    def rights(self, resource_type: ResourceType, name: str) -> Rights:
        """What the user may do with this resource."""
        ...

    def has_topic(self, name: str) -> bool:
        """Whether there is such a topic, also one that the user may not describe: for what is not told to it."""
        ...

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition of any topic, -1 for none: which one is asked, not what is shown."""
        ...

    async def state(self) -> ClusterState:
        """What the newest image says of brokers and partitions."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """Does long work on what never changes, as an image or an answer, in a thread."""
        ...

    async def run_reading(self, work: Callable[[], T]) -> T:
        """The same for a reading of records, in a thread that readings alone use: others do not wait for a filter."""
        ...

    def log_dir_marks(self, total_bytes: int) -> Marks:
        """Where a broker's disk of that size begins to slow and to refuse its producers."""
        ...

    def controller(self) -> ControllerView:
        """The active controller."""
        ...

    async def silent_services(self, timeout_ms: int) -> set[tuple[str, int]]:
        """Role and id of the controller, coordinators and quota services that do not answer in time."""
        ...

    async def scrape_targets(self) -> list[ScrapeTarget]:
        """The processes of this gateway's run directory that have metrics."""
        ...

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> bool:
        """Returns True when an image meets the predicate, False when none did in time."""
        ...

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port that clients are told for a broker."""
        ...

    async def ask_controller(
        self, message: ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Asks the active controller; with a timeout_ms it gives up then."""
        ...

    async def ask_broker(
        self, node_id: int, message: ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Asks one broker; with a timeout_ms it gives up then."""
        ...

    async def producers(self, node_id: int, topic: str, partition: int) -> PartitionProducers:
        """Asks one broker for a partition's producers (DescribeProducers); they are read as they are needed."""
        ...

    def connect_for(self, topic: str) -> TopicConnections:
        """For reading the topic's records; to be closed."""
        ...

    async def ask_quota(self, message: ApiMessage) -> Any:
        """Asks the quota service that gives leases now: the first by id that answers.

        COORDINATOR_NOT_AVAILABLE also where that one is of a version that does not know the request.
        """
        ...

    async def ask_group(self, group_id: str, message: ApiMessage, version: int | None = None) -> Any:
        """Asks the coordinator that owns the group's shard."""
        ...

    async def ask_owner(self, topic: str, request_id: str, message: ApiMessage, version: int | None = None) -> Any:
        """Asks the coordinator that owns an id's shard of that topic."""
        ...

    async def ask_coordinators(
        self, message: ApiMessage, version: int | None = None, *, topic: str = GROUP_METADATA_TOPIC
    ) -> list[Any]:
        """Asks every coordinator that owns a shard of the topic (ListGroups, ListTransactions)."""
        ...
