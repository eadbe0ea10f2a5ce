"""What the REST API asks of the cluster: an in-process Kafka client that knows where everybody is from the image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tailrace.access.resources import OPERATIONS, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.log.directory.disk_pressure import AUTOMATIC, Marks, marks
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.client import Client, UnservedError
from tailrace.net.identity import Identity
from tailrace.net.large import Large
from tailrace.net.members.endpoints import address_of
from tailrace.net.members.shards import owner_address, shard_of
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.producers import PartitionProducers, decode_describe_producers
from tailrace.wire.messages import ApiMessage, DescribeProducersRequest
from tailrace_gateway.cluster_state import ClusterState, state_of
from tailrace_gateway.forward import unfenced
from tailrace_gateway.forward.controller import READ_ONLY
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.rest.backend import READ_TIMEOUT_MS, ControllerView, Rights, T
from tailrace_gateway.scrape_targets import ScrapeTarget
from tailrace_gateway.silent_services import addresses_of, silent

ASK_TIMEOUT_MS = 10_000
NO_CONTROLLER = "No controller answers: nothing can be changed until one does. Look before you repeat a change."
CLIENT_ID = "tailrace-rest"
_CORRELATION_ID = 0


class OwnConnections:
    """TopicConnections of one request, opened as they are needed."""

    def __init__(self, address_of_node: Callable[[int], Address], secret: Secret | None) -> None:
        self._address_of_node = address_of_node
        self._secret = secret
        self._clients: dict[Address, Client] = {}

    async def ask(self, node_id: int, message: ApiMessage, version: int, timeout_ms: int) -> object:
        address = self._address_of_node(node_id)
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = Client(address, CLIENT_ID, login=self._secret)
        return await client.ask(message, timeout_ms=timeout_ms, version=version)

    async def close(self) -> None:
        for client in self._clients.values():
            client.abort()


class GatewayAdmin:
    """The gateway's AdminBackend. Raises TimeoutError, ConnectionError or ApiError as that says.

    Where no controller answers already, one is waited for as long as one takes over from another, and no longer.
    """

    def __init__(
        self,
        gateway: Gateway,
        node_address: Callable[[], tuple[str, int]],
        min_insync_replicas: int = 1,
        log_dir_marks: Callable[[int], Marks] = lambda total_bytes: marks(total_bytes, AUTOMATIC, AUTOMATIC),
        scrape_targets: Callable[[], list[ScrapeTarget]] = list,
    ) -> None:
        self._gateway = gateway
        self._min_insync_replicas = min_insync_replicas
        self._node_address = node_address
        self._log_dir_marks = log_dir_marks
        self._scrape_targets = scrape_targets
        self._clients: dict[Address, Client] = {}
        self._large = Large()  # not the gateway's: an operator does not wait behind what clients ask for
        self._readings = ThreadPoolExecutor(1, "readings")

    def image(self) -> MetadataImage:
        return self._gateway.image

    def cluster_image(self, api_key: ApiKey) -> MetadataImage:
        return self._gateway.image

    def rights(self, resource_type: ResourceType, name: str) -> Rights:
        return Rights(None, OPERATIONS[resource_type], True)

    def has_topic(self, name: str) -> bool:
        return self._gateway.image.topic(name) is not None

    def leader(self, topic: str, partition: int) -> int:
        return self._gateway.image.leader(topic, partition)

    async def state(self) -> ClusterState:
        return await self.run(partial(state_of, self._gateway.image, self._min_insync_replicas))

    async def run(self, work: Callable[[], T]) -> T:
        return await self._large.run(work)

    async def run_reading(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readings, work)

    def log_dir_marks(self, total_bytes: int) -> Marks:
        return self._log_dir_marks(total_bytes)

    def controller(self) -> ControllerView:
        follower = self._gateway.follower
        address = follower.controller
        return ControllerView(
            follower.controller_id,
            max(follower.controller_epoch, self._gateway.image.epoch),
            None if address is None else str(address),
            follower.stale,
            self._gateway.image.offset,
        )

    async def silent_services(self, timeout_ms: int) -> set[tuple[str, int]]:
        follower, asked = self._gateway.follower, addresses_of(self._gateway.image, self._gateway.boot_id)
        if follower.controller is not None:
            asked["controller", follower.controller_id] = follower.controller
        return await silent(asked, self._client, timeout_ms)

    async def scrape_targets(self) -> list[ScrapeTarget]:
        return await self.run(self._scrape_targets)

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> bool:
        try:
            await self._gateway.follower.wait_for(predicate, ASK_TIMEOUT_MS)
        except TimeoutError:
            return False
        return True

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port that a client at the admin port's host would be told."""
        host, base_port = self._node_address()
        broker = self._gateway.image.brokers.get(node_id)
        identity = Identity(advertised_host=host, base_port=base_port, node_id=node_id)
        found = None if broker is None else self._gateway.endpoint_of(broker, identity)
        return found or identity.endpoint_of(node_id)

    async def ask_controller(
        self, message: ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        gateway = self._gateway
        writes = message.API_KEY not in READ_ONLY
        if message.API_KEY in unfenced.PLACES_REPLICAS:
            await unfenced.up_to_date(gateway)
            if not gateway.has_live_broker(gateway.image):
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, unfenced.sentence(gateway.image))
        answer = await self._ask_controller(message, version, timeout_ms)
        if writes:  # what is asked for next shows what was written
            await gateway.follower.catch_up(gateway.limits.catch_up_ms)
        return answer

    async def _ask_controller(self, message: ApiMessage, version: int | None, timeout_ms: int | None) -> Any:
        follower = self._gateway.follower
        none_answers = follower.stale
        timeout_ms = timeout_ms or (READ_TIMEOUT_MS if none_answers else ASK_TIMEOUT_MS)
        if version is None:
            try:
                return await follower.ask_controller(message, timeout_ms)
            except (TimeoutError, ConnectionError):
                if none_answers and follower.stale:
                    raise ApiError(ErrorCode.NOT_CONTROLLER, NO_CONTROLLER) from None
                raise
        if follower.controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "No controller has answered yet.")
        return await self._ask(follower.controller, message, version, timeout_ms)

    async def ask_broker(
        self, node_id: int, message: ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        return await self._ask(self._address_of(node_id), message, version, timeout_ms or ASK_TIMEOUT_MS)

    async def producers(self, node_id: int, topic: str, partition: int) -> PartitionProducers:
        asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        client = self._client(self._address_of(node_id))
        frame = codec.encode_request(DescribeProducersRequest(topics=[asked]), 0, _CORRELATION_ID, CLIENT_ID)
        answer = await client.ask_raw(frame, timeout_ms=ASK_TIMEOUT_MS)
        topics = decode_describe_producers(codec.response_body(ApiKey.DESCRIBE_PRODUCERS, 0, answer))
        return topics[0][1][0]

    def connect_for(self, topic: str) -> OwnConnections:
        return OwnConnections(self._address_of, self._gateway.secret)

    async def ask_quota(self, message: ApiMessage) -> Any:
        for service in self._gateway.image.services_of("quota"):
            address = address_of(service.endpoints, self._gateway.boot_id)
            if address is None:
                continue
            try:
                return await self._ask(address, message, None, READ_TIMEOUT_MS)
            except UnservedError as other:  # it is there and gives the leases: none beside it knows what is used
                raise ApiError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The quota service cannot tell: {other}."
                ) from None
            except (ConnectionError, TimeoutError):
                continue
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No quota service answers.")

    async def ask_group(self, group_id: str, message: ApiMessage, version: int | None = None) -> Any:
        return await self.ask_owner(GROUP_METADATA_TOPIC, group_id, message, version)

    async def ask_owner(self, topic: str, request_id: str, message: ApiMessage, version: int | None = None) -> Any:
        image = self._gateway.image
        address = owner_address(image, topic, shard_of(image, topic, request_id), self._gateway.boot_id)
        if address is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No coordinator owns the shard.")
        return await self._ask(address, message, version)

    async def ask_coordinators(
        self, message: ApiMessage, version: int | None = None, *, topic: str = GROUP_METADATA_TOPIC
    ) -> list[Any]:
        image = self._gateway.image
        shards: Mapping[tuple[str, int], Any] = image.shards
        owners = [
            owner_address(image, topic, number, self._gateway.boot_id)
            for name, number in sorted(shards)
            if name == topic
        ]
        if None in owners:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Some shards have no owner.")
        return [await self._ask(address, message, version) for address in dict.fromkeys(owners) if address]

    def _address_of(self, node_id: int) -> Address:
        broker = self._gateway.image.brokers.get(node_id)
        address = None if broker is None else address_of(broker.endpoints, self._gateway.boot_id)
        if broker is None or broker.fenced or address is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {node_id} is not there.")
        return address

    def _client(self, address: Address) -> Client:
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = Client(address, CLIENT_ID, login=self._gateway.secret)
        return client

    async def _ask(
        self, address: Address, message: ApiMessage, version: int | None, timeout_ms: int = ASK_TIMEOUT_MS
    ) -> Any:
        return await self._client(address).ask(message, timeout_ms=timeout_ms, version=version)

    async def close(self) -> None:
        self._readings.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            await client.close()
