"""The backend as one user may use it: each question is checked as the same request of a Kafka client would be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, cast

from tailrace.access import rules
from tailrace.access.authorizer import Authorizer, Denied
from tailrace.access.checks import Access, Check, RefusedPart, Whole
from tailrace.access.resources import CLUSTER_NAME, FAILED, OPERATIONS, AclOperation, ResourceType
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.log.directory.disk_pressure import Marks
from tailrace.metadata.image import MetadataImage
from tailrace.net.dispatch import joined, topic_names
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.hot.producers import PartitionProducers
from tailrace.wire.messages import ApiMessage, FetchResponse
from tailrace.wire.refuse import refuse
from tailrace_gateway.cluster_state import ClusterState
from tailrace_gateway.rest.access.visible_topics import VisibleNames, VisibleTopics
from tailrace_gateway.rest.backend import AdminBackend, ControllerView, Rights, T, TopicConnections
from tailrace_gateway.scrape_targets import ScrapeTarget

_CLUSTER: Final = ResourceType.CLUSTER
# Of all requests that are sent. What this product alone has is about all topics and clients, and names clients as their
# quotas do.
RULES: Final[Mapping[int, tuple[Check, ...]]] = {
    **rules.OF_BROKERS,
    ApiKey.DESCRIBE_CLEANER: (Whole(_CLUSTER, (AclOperation.DESCRIBE,)),),
    ApiKey.DESCRIBE_OPEN_TRANSACTIONS: (Whole(_CLUSTER, (AclOperation.DESCRIBE,)),),
    ApiKey.DESCRIBE_QUOTA_USAGE: rules.RULES[ApiKey.DESCRIBE_CLIENT_QUOTAS],
}
# Of several resources, each with an answer of its own, as in Kafka.
_BY_ROW: Final = frozenset({ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})


class PermittedAdmin:
    """An AdminBackend for a principal at a host. Raises ApiError with Kafka's code where a right is missing."""

    def __init__(self, backend: AdminBackend, authorizer: Authorizer, principal: str, client_host: str) -> None:
        self._backend = backend
        self._authorizer = authorizer
        self._principal = principal
        self._client_host = client_host
        self._filtered: tuple[MetadataImage, MetadataImage] | None = None  # an image, and as the user may see it

    def _authorized(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        return self._authorizer.authorize(self._principal, self._client_host, operation, resource_type, name)

    def _authorized_by_type(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self._authorizer.authorize_by_resource_type(self._principal, self._client_host, operation, resource_type)

    def _require(self, api_key: ApiKey, right: Denied) -> None:
        """Refuses a question, as that request, without the right."""
        if not self._authorized(*right):
            raise self._refused(api_key, [RefusedPart(None, FAILED[right.resource_type], right)])

    def _refused(self, api_key: int, parts: Sequence[RefusedPart]) -> ApiError:
        """The refusal, which is reported; what an answer hides is not."""
        self._report(api_key, parts)
        return ApiError(parts[0].code)

    def _report(self, api_key: int, parts: Sequence[RefusedPart]) -> None:
        for part in parts:
            if part.denied is not None:
                self._authorizer.on_denied(self._principal, self._client_host, api_key, part.denied)

    def image(self) -> MetadataImage:
        """Without the topics that the user may not describe, and without quotas that it may not see."""
        image = self._backend.image()
        if self._filtered is None or self._filtered[0] is not image:
            self._filtered = image, self._visible(image)
        return self._filtered[1]

    def _visible(self, image: MetadataImage) -> MetadataImage:
        topics = VisibleTopics(image.topics, partial(self._authorized, AclOperation.DESCRIBE, ResourceType.TOPIC))
        names = VisibleNames(image.topic_names, topics)
        sees_quotas = self._authorized(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
        return replace(image, topics=topics, topic_names=names, quotas=image.quotas if sees_quotas else {})

    def cluster_image(self, api_key: ApiKey) -> MetadataImage:
        if refused := rules.before(api_key, None, self._access(0), RULES).refused:
            raise self._refused(api_key, refused)
        return self._backend.image()

    def rights(self, resource_type: ResourceType, name: str) -> Rights:
        operations = (one for one in OPERATIONS[resource_type] if self._authorized(one, resource_type, name))
        creates = self._authorized(AclOperation.CREATE, _CLUSTER, CLUSTER_NAME)
        creates = creates or self._authorized_by_type(AclOperation.CREATE, ResourceType.TOPIC)
        return Rights(self._principal, tuple(operations), creates)

    def has_topic(self, name: str) -> bool:
        return self._backend.has_topic(name)

    def leader(self, topic: str, partition: int) -> int:
        return self._backend.leader(topic, partition)

    async def state(self) -> ClusterState:
        self._require(ApiKey.DESCRIBE_CLUSTER, Denied(AclOperation.DESCRIBE, _CLUSTER, CLUSTER_NAME))
        return await self._backend.state()

    async def run(self, work: Callable[[], T]) -> T:
        return await self._backend.run(work)

    async def run_reading(self, work: Callable[[], T]) -> T:
        return await self._backend.run_reading(work)

    def log_dir_marks(self, total_bytes: int) -> Marks:
        return self._backend.log_dir_marks(total_bytes)

    def controller(self) -> ControllerView:
        return self._backend.controller()

    async def silent_services(self, timeout_ms: int) -> set[tuple[str, int]]:
        self._require(ApiKey.DESCRIBE_CLUSTER, Denied(AclOperation.DESCRIBE, _CLUSTER, CLUSTER_NAME))
        return await self._backend.silent_services(timeout_ms)

    async def scrape_targets(self) -> list[ScrapeTarget]:
        self._require(ApiKey.DESCRIBE_CLUSTER, Denied(AclOperation.DESCRIBE, _CLUSTER, CLUSTER_NAME))
        return await self._backend.scrape_targets()

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> bool:
        return await self._backend.wait_for(predicate)

    def address_of(self, node_id: int) -> tuple[str, int]:
        return self._backend.address_of(node_id)

    async def ask_controller(
        self, message: ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> object:
        return await self._checked(
            message, version, lambda left: self._backend.ask_controller(left, version, timeout_ms)
        )

    async def ask_broker(
        self, node_id: int, message: ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> object:
        return await self._checked(
            message, version, lambda left: self._backend.ask_broker(node_id, left, version, timeout_ms)
        )

    async def producers(self, node_id: int, topic: str, partition: int) -> PartitionProducers:
        self._require(ApiKey.DESCRIBE_PRODUCERS, Denied(AclOperation.READ, ResourceType.TOPIC, topic))
        return await self._backend.producers(node_id, topic, partition)

    def connect_for(self, topic: str) -> TopicConnections:
        right = Denied(AclOperation.READ, ResourceType.TOPIC, topic)
        return _PermittedConnections(self._backend.connect_for(topic), lambda: self._require(ApiKey.FETCH, right))

    async def ask_quota(self, message: ApiMessage) -> object:
        return await self._checked(message, None, self._backend.ask_quota)

    async def ask_group(self, group_id: str, message: ApiMessage, version: int | None = None) -> object:
        return await self._checked(message, version, lambda left: self._backend.ask_group(group_id, left, version))

    async def ask_owner(self, topic: str, request_id: str, message: ApiMessage, version: int | None = None) -> object:
        return await self._checked(
            message, version, lambda left: self._backend.ask_owner(topic, request_id, left, version)
        )

    async def ask_coordinators(
        self, message: ApiMessage, version: int | None = None, *, topic: str = GROUP_METADATA_TOPIC
    ) -> list[object]:
        def ask(left: ApiMessage) -> Awaitable[list[object]]:
            return self._backend.ask_coordinators(left, version, topic=topic)

        answers = await self._checked(message, version, ask)
        assert isinstance(answers, list)
        return answers

    def _access(self, version: int) -> Access:
        return Access(self._authorized, self._authorized_by_type, version, topic_names(self._backend.image))

    async def _checked(
        self, message: ApiMessage, version: int | None, ask: Callable[[ApiMessage], Awaitable[object]]
    ) -> object:
        """Asks what may be asked, and takes from the answer what the user may not know."""
        key = message.API_KEY
        version = INTERNAL_APIS[key].max_version if version is None else version
        access = self._access(version)
        if key not in RULES:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        left = rules.before(key, message, access, RULES)
        if key == ApiKey.FETCH:  # a list of lags has those that may be known
            return FetchResponse(responses=[]) if left.request is None else await ask(cast(ApiMessage, left.request))
        if left.refused and key not in _BY_ROW:  # an operation over HTTP is about one thing: it is done or refused
            raise self._refused(key, left.refused)
        answer: object = None
        if left.request is not None:
            answer = await ask(cast(ApiMessage, left.request))
            for one in answer if isinstance(answer, list) else [answer]:
                rules.after(key, left.request, one, access)
        self._report(key, left.refused)
        for part in left.refused:
            refused = refuse(part.request, key, version, part.code)
            answer = refused if answer is None else joined(answer, refused)
        return answer


class _PermittedConnections:
    """TopicConnections that ask for the right before each request: one may be taken away from a long reading."""

    def __init__(self, connections: TopicConnections, require: Callable[[], None]) -> None:
        self._connections = connections
        self._require = require

    async def ask(self, node_id: int, message: ApiMessage, version: int, timeout_ms: int) -> object:
        self._require()
        return await self._connections.ask(node_id, message, version, timeout_ms)

    async def close(self) -> None:
        await self._connections.close()
