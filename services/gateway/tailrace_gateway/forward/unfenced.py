"""A cluster without an unfenced broker answers no client: as with an Apache Kafka that cannot be reached.

An answer that names no broker makes clients wait for minutes (librdkafka's AdminClient waits for a controller) or
forget every node they knew (librdkafka 2.10 and newer, KIP-1102); a topic is refused for its replication factor. Apache
Kafka's brokers take requests only once they are unfenced (KIP-631), so no client ever sees such an answer.
Here the port is open earlier. Requests wait on their connections until a broker is unfenced, and are answered at once
then: a refused connection would send its client into a backoff that goes on after the cluster is ready. After
Limits.unfenced_wait_ms, which is below the 30 s that most clients wait for an answer, the connection is closed, and its
client comes again. It is no shorter, because librdkafka's AdminClient fails a request whose connection was closed.
"""

from __future__ import annotations

from tailrace.metadata.image import MetadataImage
from tailrace.wire.apis import ApiKey
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.requests import Frame
from tailrace_gateway.relay.routes import Route

# What the gateway answers from an image and would answer wrongly from one without brokers.
_FROM_THE_IMAGE = frozenset(
    {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS}
)

# What a controller refuses for good where no broker can hold a replica or lead a partition.
PLACES_REPLICAS = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    }
)


def needs_broker(route: int, key: int) -> bool:
    """Whether a request must wait while no broker is unfenced.

    Data requests wait for their node by themselves (absent.py). A group's requests go to its coordinator: a member that
    says that it lives must be heard (a session may end before a broker comes back).
    """
    return route == Route.CONTROLLER or key in _FROM_THE_IMAGE


async def broker_there(gateway: Gateway, connection: ClientLink, frame: Frame) -> bool:
    """Whether the request may be answered now; else it waited in vain, and its connection is closed."""
    if not needs_broker(frame.route, frame.key):
        return True
    if frame.key in PLACES_REPLICAS:
        await up_to_date(gateway)
    if gateway.has_live_broker(gateway.image):
        return True
    try:
        await gateway.follower.wait_for(gateway.has_live_broker, gateway.limits.unfenced_wait_ms)
    except TimeoutError:
        connection.close()  # without a line for each: one said that the last broker was fenced
        return False
    return True


async def up_to_date(gateway: Gateway) -> None:
    """A gateway that has just started may have an old image, in which brokers live that the controller has fenced."""
    if gateway.follower.stale:
        await gateway.follower.catch_up(gateway.limits.catch_up_ms)


def sentence(image: MetadataImage) -> str:
    """Says to a person why nothing can be done."""
    count = len(image.brokers)
    return "No broker is unfenced: " + (f"{count} registered, all fenced." if count else "none has registered yet.")
