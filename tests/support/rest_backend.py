"""A cluster in memory behind the REST API's port: the twin that tests use. It can fail, lag and lead nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4, uuid5

from support.metadata import after
from support.records_field import iterate_all
from tailrace.access.resources import OPERATIONS, ResourceType
from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.kafka.features import SECURITY_VERSION, SUPPORTED
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.log.directory.disk_pressure import AUTOMATIC, Marks, marks
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, ServiceImage, TopicImage
from tailrace.metadata.records import BrokerFeature
from tailrace.records.record import Record, build
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.producers import PartitionProducers
from tailrace_controller.decide import acls, elect_leaders, features, user_scram_credentials
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_gateway.cluster_state import ClusterState, state_of
from tailrace_gateway.rest.backend import ControllerView, Rights, T
from tailrace_gateway.scrape_targets import ScrapeTarget

_NAMES = UUID(int=1)
_ALL = tuple(BrokerFeature(name, *levels) for name, levels in SUPPORTED.items())
_ASK_TIMEOUT_MS = 10_000
_CONFIG = Config.load("controller")
_DEFAULT_CONFIGS = {"retention.ms": "604800000", "max.message.bytes": "1048588", "ssl.keystore.password": None}
_TOPIC_SOURCE, _DEFAULT_SOURCE = 1, 5


@dataclass
class MemoryGroup:
    """A group as its coordinator sees it."""

    state: str = "Empty"
    members: list[Any] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    type: str = "classic"


class MemoryConnections:
    """TopicConnections to a cluster in memory, counted while they are open."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        backend.connections += 1

    async def ask(self, node_id: int, message: m.ApiMessage, version: int, timeout_ms: int) -> Any:
        if isinstance(message, m.FetchRequest) and message.max_wait_ms:
            self._backend.waited_ms = max(self._backend.waited_ms, message.max_wait_ms)
            self._backend.on_wait()
        return await self._backend.ask_broker(node_id, message, version, timeout_ms)

    async def close(self) -> None:
        self._backend.connections -= 1


class MemoryBackend:
    """An AdminBackend whose cluster is these attributes. fail_next is raised by the next question."""

    def __init__(self, brokers: int = 1) -> None:
        images = {n: BrokerImage(n, 1, UUID(int=n + 1), fenced=False, features=_ALL) for n in range(brokers)}
        self._image = MetadataImage(
            cluster_id="memory",
            brokers=images,
            features={SECURITY_VERSION: 1},
            services={("coordinator", 0): ServiceImage("coordinator", 0, 1, UUID(int=9))},
        )
        self.records: dict[tuple[str, int], list[Record]] = {}
        self.groups: dict[str, MemoryGroup] = {}
        self.transactions: list[Any] = []  # rows of ListTransactions
        self.quota_usage: list[Any] = []  # rows of DescribeQuotaUsage
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.min_insync_replicas = 1
        self.sizes: dict[tuple[int, str, int], int] = {}
        self.moves: dict[tuple[int, str, int], int] = {}  # what was copied to /second, in bytes
        self.space: dict[int, tuple[int, int]] = {}  # by broker: total and usable bytes
        self.cleaned: dict[int, list[Any]] = {}  # by broker: rows of DescribeCleaner
        self.opened: dict[int, list[Any]] = {}  # by broker: rows of DescribeOpenTransactions
        self.described = PartitionProducers(0, 0)  # what DescribeProducers finds
        self.gone: set[str] = set()  # topics of the image that are deleted already
        self.targets: list[ScrapeTarget] = []  # processes with metrics
        self.silent_roles: set[tuple[str, int]] = set()  # role and id of services that do not answer
        self.silent: set[int] = set()  # brokers that do not answer
        self.with_broken_disk = {0}
        self.no_controller: Exception | None = None
        self.runs = False  # what a thread would do
        self.waited_ms = 0  # the longest that one of them was waited for
        self.connections = 0  # of readings that go on
        self.begins: dict[tuple[str, int], int] = {}  # log start offsets
        self.on_wait: Callable[[], None] = lambda: None  # is called before a Fetch that may wait
        self.fail_next: Exception | None = None
        self.asked: list[tuple[str, Any]] = []

    def image(self) -> MetadataImage:
        return self._image

    def cluster_image(self, api_key: ApiKey) -> MetadataImage:
        return self._image

    def rights(self, resource_type: ResourceType, name: str) -> Rights:
        return Rights(None, OPERATIONS[resource_type], True)

    def has_topic(self, name: str) -> bool:
        return self._image.topic(name) is not None

    def leader(self, topic: str, partition: int) -> int:
        return self._image.leader(topic, partition)

    async def state(self) -> ClusterState:
        return state_of(self._image, self.min_insync_replicas)

    async def run(self, work: Callable[[], T]) -> T:
        self.runs = True
        try:
            return work()
        finally:
            self.runs = False

    async def run_reading(self, work: Callable[[], T]) -> T:
        return await self.run(work)

    def log_dir_marks(self, total_bytes: int) -> Marks:
        return marks(total_bytes, AUTOMATIC, AUTOMATIC)

    def controller(self) -> ControllerView:
        return ControllerView(0, 7, "unix:/run/controller-0.sock", False, self._image.offset)

    async def silent_services(self, timeout_ms: int) -> set[tuple[str, int]]:
        return self.silent_roles

    async def scrape_targets(self) -> list[ScrapeTarget]:
        return self.targets

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> bool:
        return predicate(self._image)

    def address_of(self, node_id: int) -> tuple[str, int]:
        return "localhost", 9092 + node_id

    async def ask_controller(
        self, message: m.ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        if self.no_controller:
            self.waited_ms = max(self.waited_ms, timeout_ms or _ASK_TIMEOUT_MS)
            raise self.no_controller
        return self._ask("controller", message)

    async def ask_broker(
        self, node_id: int, message: m.ApiMessage, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        if node_id in self.silent:
            self.waited_ms = max(self.waited_ms, timeout_ms or _ASK_TIMEOUT_MS)
            raise TimeoutError
        if isinstance(message, m.DescribeLogDirsRequest):
            return self._log_dirs(node_id, message)
        if isinstance(message, m.AlterReplicaLogDirsRequest):
            return self._move(node_id, message)
        if isinstance(message, m.DescribeOpenTransactionsRequest):
            return m.DescribeOpenTransactionsResponse(error_code=0, transactions=self.opened.get(node_id, []))
        if isinstance(message, m.DescribeCleanerRequest):
            return m.DescribeCleanerResponse(error_code=0, partitions=self.cleaned.get(node_id, []))
        return self._ask(f"broker {node_id}", message)

    async def producers(self, node_id: int, topic: str, partition: int) -> PartitionProducers:
        self.asked.append((f"broker {node_id}", (topic, partition)))
        return self.described

    def connect_for(self, topic: str) -> MemoryConnections:
        return MemoryConnections(self)

    async def ask_quota(self, message: m.ApiMessage) -> Any:
        return self._ask("quota", message)

    async def ask_group(self, group_id: str, message: m.ApiMessage, version: int | None = None) -> Any:
        return self._ask("coordinator", message)

    async def ask_owner(self, topic: str, request_id: str, message: m.ApiMessage, version: int | None = None) -> Any:
        return self._ask("coordinator", message)

    async def ask_coordinators(
        self, message: m.ApiMessage, version: int | None = None, *, topic: str = GROUP_METADATA_TOPIC
    ) -> list[Any]:
        return [self._ask("coordinator", message)]

    def set_topic(self, name: str, partitions: int, leader: int = 0) -> None:
        """Creates or changes a topic; leader -1 leaves its partitions without one."""
        images = tuple(PartitionImage((0,), (0,), leader, 0, 0) for _ in range(partitions))
        topic_id = uuid5(_NAMES, name)
        topics = {**self._image.topics, name: TopicImage(name, topic_id, images)}
        self._replace(topics)

    def set_partitions(self, name: str, *partitions: PartitionImage) -> None:
        """Creates or changes a topic, partition by partition."""
        self._replace({**self._image.topics, name: TopicImage(name, uuid5(_NAMES, name), partitions)})

    def set_broker(self, broker: BrokerImage) -> None:
        """Registers or changes a broker."""
        self._image = replace(self._image, brokers={**self._image.brokers, broker.broker_id: broker})

    def _replace(self, topics: dict[str, TopicImage]) -> None:
        names = {topic.topic_id: name for name, topic in topics.items()}
        self._image = replace(self._image, topics=topics, topic_names=names)

    def _ask(self, role: str, message: Any) -> Any:
        self.asked.append((role, message))
        if error := self.fail_next:
            self.fail_next = None
            raise error
        answer: Callable[[Any], Any] = getattr(self, "_on_" + type(message).__name__)
        return answer(message)

    def _on_CreateTopicsRequest(self, request: Any) -> Any:
        (wanted,) = request.topics
        row = m.CreateTopicsResponse.CreatableTopicResult
        if wanted.name in self._image.topics:
            refused = row(name=wanted.name, error_code=36, error_message=f"Topic '{wanted.name}' already exists.")
            return m.CreateTopicsResponse(topics=[refused])
        count = 3 if wanted.num_partitions < 0 else wanted.num_partitions
        if not request.validate_only:
            self.set_topic(wanted.name, count)
            self.configs[2, wanted.name] = {pair.name: pair.value for pair in wanted.configs}
        configs = [
            row.CreatableTopicConfigs(
                name=name, value=value, read_only=False, config_source=_DEFAULT_SOURCE, is_sensitive=value is None
            )
            for name, value in _DEFAULT_CONFIGS.items()
        ]
        made = row(
            name=wanted.name,
            topic_id=uuid5(_NAMES, wanted.name),
            num_partitions=count,
            replication_factor=1,
            configs=configs,
        )
        return m.CreateTopicsResponse(topics=[made])

    def _on_CreatePartitionsRequest(self, request: Any) -> Any:
        (wanted,) = request.topics
        topic = self._image.topic(wanted.name)
        code = ErrorCode.NONE
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif wanted.count <= len(topic.partitions):
            code = ErrorCode.INVALID_PARTITIONS
        else:
            self.set_topic(wanted.name, wanted.count)
        row = m.CreatePartitionsResponse.CreatePartitionsTopicResult(name=wanted.name, error_code=code)
        return m.CreatePartitionsResponse(results=[row])

    def _on_DeleteTopicsRequest(self, request: Any) -> Any:
        (wanted,) = request.topics
        topics = dict(self._image.topics)
        code = ErrorCode.NONE if topics.pop(wanted.name, None) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._replace(topics)
        row = m.DeleteTopicsResponse.DeletableTopicResult(name=wanted.name, error_code=code)
        return m.DeleteTopicsResponse(responses=[row])

    def _on_AlterPartitionReassignmentsRequest(self, request: Any) -> Any:
        """Moves at once and for good; None goes back to what is not being added."""
        row = m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse
        rows = []
        for topic in request.topics:
            parts = list(self._image.topics[topic.name].partitions)
            codes = []
            for part in topic.partitions:
                known = all(node in self._image.brokers for node in part.replicas or ())
                old = parts[part.partition_index]
                if part.replicas is None and not (old.adding_replicas or old.removing_replicas):
                    codes.append(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
                    continue
                codes.append(ErrorCode.NONE if known else ErrorCode.INVALID_REPLICA_ASSIGNMENT)
                new = tuple(part.replicas or (n for n in old.replicas if n not in old.adding_replicas))
                if known:
                    parts[part.partition_index] = replace(
                        old, replicas=new, isr=new, leader=new[0], adding_replicas=(), removing_replicas=()
                    )
            self.set_partitions(topic.name, *parts)
            answers = [
                row.ReassignablePartitionResponse(partition_index=part.partition_index, error_code=code)
                for part, code in zip(topic.partitions, codes, strict=True)
            ]
            rows.append(row(name=topic.name, partitions=answers))
        return m.AlterPartitionReassignmentsResponse(responses=rows)

    def _on_ElectLeadersRequest(self, request: Any) -> Any:
        return self._applied(elect_leaders.elect(self._image, request, _CONFIG))

    def _on_WriteTxnMarkersRequest(self, request: Any) -> Any:
        """Ends what is open in the partition."""
        (marker,) = request.markers
        (topic,) = marker.topics
        result = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
        row = result.WritableTxnMarkerTopicResult
        done = [row.WritableTxnMarkerPartitionResult(partition_index=n) for n in topic.partition_indexes]
        for node, opened in self.opened.items():
            self.opened[node] = [
                one
                for one in opened
                if (one.topic_name, one.producer_id) != (topic.name, marker.producer_id)
                or one.partition_index not in topic.partition_indexes
            ]
        answer = result(producer_id=marker.producer_id, topics=[row(name=topic.name, partitions=done)])
        return m.WriteTxnMarkersResponse(markers=[answer])

    def _on_UnregisterBrokerRequest(self, request: Any) -> Any:
        brokers = dict(self._image.brokers)
        known = brokers.pop(request.broker_id, None)
        self._image = replace(self._image, brokers=brokers)
        return m.UnregisterBrokerResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=None
        )

    def _log_dirs(self, node: int, request: Any) -> Any:
        result = m.DescribeLogDirsResponse.DescribeLogDirsResult
        topic = result.DescribeLogDirsTopic
        row = topic.DescribeLogDirsPartition
        wanted = {(asked.topic, n) for asked in request.topics or () for n in asked.partitions}
        sizes = {(name, n): size for (at, name, n), size in self.sizes.items() if at == node}
        copies = {(name, n): size for (at, name, n), size in self.moves.items() if at == node}
        if request.topics is None:
            wanted = set(copies)
        rows = [
            topic(name=name, partitions=[row(partition_index=n, partition_size=sizes[name, n])])
            for name, n in sorted(wanted & sizes.keys())
        ]
        coming = [
            topic(
                name=name,
                partitions=[row(partition_index=n, partition_size=copies[name, n], offset_lag=9, is_future_key=True)],
            )
            for name, n in sorted(wanted & copies.keys())
        ]
        total, usable = self.space.get(node, (-1, -1))
        found = [result(log_dir="/memory", topics=rows, total_bytes=total, usable_bytes=usable)]
        if coming:
            found.append(result(log_dir="/second", topics=coming, total_bytes=total, usable_bytes=usable))
        if node in self.with_broken_disk:
            found.append(result(log_dir="/broken", error_code=ErrorCode.KAFKA_STORAGE_ERROR, topics=[]))
        return m.DescribeLogDirsResponse(results=found)

    def _move(self, node: int, request: Any) -> Any:
        topic = m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
        (wanted,) = request.dirs
        codes = {"/memory": ErrorCode.NONE, "/second": ErrorCode.NONE, "/broken": ErrorCode.KAFKA_STORAGE_ERROR}
        code = codes.get(wanted.path, ErrorCode.LOG_DIR_NOT_FOUND)
        rows = []
        for asked in wanted.topics:
            for n in asked.partitions:
                if wanted.path == "/second":
                    self.moves[node, asked.name, n] = 0
                elif code == ErrorCode.NONE:
                    self.moves.pop((node, asked.name, n), None)
                part = topic.AlterReplicaLogDirPartitionResult(partition_index=n, error_code=code)
                rows.append(topic(topic_name=asked.name, partitions=[part]))
        return m.AlterReplicaLogDirsResponse(results=rows)

    def _on_DescribeConfigsRequest(self, request: Any) -> Any:
        return m.DescribeConfigsResponse(results=[self._described(wanted) for wanted in request.resources])

    def _described(self, wanted: Any) -> Any:
        row = m.DescribeConfigsResponse.DescribeConfigsResult
        if wanted.resource_name in self.gone:
            return row(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, resource_name=wanted.resource_name, configs=[])
        overrides = self.configs.get((wanted.resource_type, wanted.resource_name), {})
        configs = [
            row.DescribeConfigsResourceResult(
                name=name,
                value=overrides.get(name, default),
                read_only=False,
                config_source=_TOPIC_SOURCE if name in overrides else _DEFAULT_SOURCE,
                is_sensitive=default is None,
                synonyms=[row.DescribeConfigsResourceResult.DescribeConfigsSynonym(name=name, value=default, source=5)],
            )
            for name, default in _DEFAULT_CONFIGS.items()
            if wanted.configuration_keys is None or name in wanted.configuration_keys
        ]
        return row(resource_name=wanted.resource_name, configs=configs)

    def _on_IncrementalAlterConfigsRequest(self, request: Any) -> Any:
        responses = [self._altered(wanted, request.validate_only) for wanted in request.resources]
        return m.IncrementalAlterConfigsResponse(responses=responses)

    def _altered(self, wanted: Any, validate_only: bool) -> Any:
        row = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        unknown = [change.name for change in wanted.configs if change.name not in _DEFAULT_CONFIGS]
        if unknown:
            why = f"Unknown config {unknown[0]}"
            return row(error_code=ErrorCode.INVALID_CONFIG, error_message=why, resource_name=wanted.resource_name)
        overrides = self.configs.setdefault((wanted.resource_type, wanted.resource_name), {})
        for change in [] if validate_only else wanted.configs:
            if change.config_operation == 1:
                overrides.pop(change.name, None)
            else:
                overrides[change.name] = change.value
        return row(resource_name=wanted.resource_name)

    def set_quotas(self, quotas: dict[Any, Any]) -> None:
        self._image = replace(self._image, quotas=quotas)

    def _on_AlterClientQuotasRequest(self, request: Any) -> Any:
        row, quotas, entries = m.AlterClientQuotasResponse.EntryData, dict(self._image.quotas), []
        for entry in request.entries:
            entity = tuple(sorted(((part.entity_type, part.entity_name) for part in entry.entity), key=str))
            wrong = next((op.key for op in entry.ops if not op.remove and op.value <= 0), None)
            code = 42 if wrong else 0
            entries.append(row(error_code=code, error_message=wrong and f"Quota {wrong} must be greater than 0"))
            if not wrong and not request.validate_only:
                values = {**quotas.get(entity, {}), **{op.key: op.value for op in entry.ops}}
                for op in entry.ops:
                    if op.remove:
                        del values[op.key]
                quotas[entity] = values
        self.set_quotas({entity: values for entity, values in quotas.items() if values})
        return m.AlterClientQuotasResponse(entries=entries)

    def _on_DescribeQuotaUsageRequest(self, request: Any) -> Any:
        return m.DescribeQuotaUsageResponse(error_code=0, entries=self.quota_usage[: request.max_entries])

    def _applied(self, result: ControllerResult[Any]) -> Any:
        self._image = after(self._image, *result.records)
        return result.reply

    def _on_DescribeAclsRequest(self, request: Any) -> Any:
        return acls.describe(self._image, request)

    def _on_CreateAclsRequest(self, request: Any) -> Any:
        return self._applied(acls.create(self._image, request, uuid4))

    def _on_DeleteAclsRequest(self, request: Any) -> Any:
        return self._applied(acls.delete(self._image, request))

    def _on_UpdateFeaturesRequest(self, request: Any) -> Any:
        return self._applied(features.update(self._image, request, 0))

    def _on_AlterUserScramCredentialsRequest(self, request: Any) -> Any:
        return self._applied(user_scram_credentials.alter(self._image, request))

    def _on_ListTransactionsRequest(self, request: Any) -> Any:
        return m.ListTransactionsResponse(error_code=0, unknown_state_filters=[], transaction_states=self.transactions)

    def _on_DescribeTransactionsRequest(self, request: Any) -> Any:
        (name,) = request.transactional_ids
        row = m.DescribeTransactionsResponse.TransactionState
        known = next((one for one in self.transactions if one.transactional_id == name), None)
        if known is None:
            found = row(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name)
        else:
            found = row(
                error_code=0,
                transactional_id=name,
                transaction_state=known.transaction_state,
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=5,
                producer_id=known.producer_id,
                producer_epoch=3,
                topics=[row.TopicData(topic="t", partitions=[1])],
            )
        return m.DescribeTransactionsResponse(transaction_states=[found])

    def _on_ListGroupsRequest(self, request: Any) -> Any:
        row = m.ListGroupsResponse.ListedGroup
        listed = [
            row(group_id=name, protocol_type="consumer", group_state=group.state, group_type=group.type)
            for name, group in self.groups.items()
        ]
        return m.ListGroupsResponse(groups=listed)

    def _on_DescribeGroupsRequest(self, request: Any) -> Any:
        (name,) = request.groups
        row = m.DescribeGroupsResponse.DescribedGroup
        group = self.groups.get(name)
        if group is None:
            refused = row(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="Dead")
            return m.DescribeGroupsResponse(groups=[refused])
        if group.type != "classic":
            why = f"Group {name} is not a classic group."
            other = row(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="Dead", error_message=why)
            return m.DescribeGroupsResponse(groups=[other])
        found = row(group_id=name, group_state=group.state, protocol_type="consumer", members=group.members)
        found.protocol_data = "range"
        return m.DescribeGroupsResponse(groups=[found])

    def _on_ConsumerGroupDescribeRequest(self, request: Any) -> Any:
        (name,) = request.group_ids
        group = self.groups[name]
        row = m.ConsumerGroupDescribeResponse.DescribedGroup
        found = row(group_id=name, group_state=group.state, assignor_name="uniform", members=group.members)
        return m.ConsumerGroupDescribeResponse(groups=[found])

    def _on_DeleteGroupsRequest(self, request: Any) -> Any:
        (name,) = request.groups_names
        group = self.groups.get(name)
        code = ErrorCode.NONE
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.members:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            del self.groups[name]
        return m.DeleteGroupsResponse(results=[m.DeleteGroupsResponse.DeletableGroupResult(name, code)])

    def _on_OffsetFetchRequest(self, request: Any) -> Any:
        (wanted,) = request.groups
        row = m.OffsetFetchResponse.OffsetFetchResponseGroup
        topic = row.OffsetFetchResponseTopics
        topics = [
            topic(
                name=name,
                partitions=[topic.OffsetFetchResponsePartitions(partition_index=n, committed_offset=offset)],
            )
            for (name, n), offset in self.groups[wanted.group_id].offsets.items()
        ]
        return m.OffsetFetchResponse(groups=[row(group_id=wanted.group_id, topics=topics)])

    def _on_ListOffsetsRequest(self, request: Any) -> Any:
        row = m.ListOffsetsResponse.ListOffsetsTopicResponse
        topics = [
            row(
                name=topic.name,
                partitions=[
                    row.ListOffsetsPartitionResponse(
                        partition_index=p.partition_index,
                        offset=self._offset_at(topic.name, p.partition_index, p.timestamp),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return m.ListOffsetsResponse(topics=topics)

    def _offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        log = self.log(topic, partition)
        ends = {-1: len(log), -2: self.begins.get((topic, partition), 0)}
        if timestamp in ends:
            return ends[timestamp]
        return next((offset for offset, record in enumerate(log) if record.timestamp >= timestamp), -1)

    def _on_OffsetCommitRequest(self, request: Any) -> Any:
        group = self.groups.setdefault(request.group_id, MemoryGroup())
        topic = m.OffsetCommitResponse.OffsetCommitResponseTopic
        row = topic.OffsetCommitResponsePartition
        for asked in request.topics:
            group.offsets.update({(asked.name, p.partition_index): p.committed_offset for p in asked.partitions})
        return m.OffsetCommitResponse(
            topics=[
                topic(name=asked.name, partitions=[row(partition_index=p.partition_index) for p in asked.partitions])
                for asked in request.topics
            ]
        )

    def _on_DeleteRecordsRequest(self, request: Any) -> Any:
        topic = m.DeleteRecordsResponse.DeleteRecordsTopicResult
        rows = []
        for asked in request.topics:
            for part in asked.partitions:
                key = (asked.name, part.partition_index)
                new = len(self.log(*key)) if part.offset < 0 else part.offset
                self.begins[key] = max(self.begins.get(key, 0), new)
                row = topic.DeleteRecordsPartitionResult(
                    partition_index=part.partition_index, low_watermark=self.begins[key], error_code=0
                )
                rows.append(topic(name=asked.name, partitions=[row]))
        return m.DeleteRecordsResponse(topics=rows)

    def _on_FetchRequest(self, request: Any) -> Any:
        topic = m.FetchResponse.FetchableTopicResponse
        return m.FetchResponse(
            error_code=0,
            responses=[
                topic(topic=asked.topic, partitions=[self._batch(asked.topic, part) for part in asked.partitions])
                for asked in request.topics
            ],
        )

    def _batch(self, topic: str, part: Any) -> Any:
        row = m.FetchResponse.FetchableTopicResponse.PartitionData
        if part.fetch_offset < self.begins.get((topic, part.partition), 0):
            return row(partition_index=part.partition, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")
        records = self.log(topic, part.partition)[part.fetch_offset :][:1]
        data = bytes(build(records, base_offset=part.fetch_offset)) if records else b""
        return row(partition_index=part.partition, records=data)

    def _on_ProduceRequest(self, request: Any) -> Any:
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        log = self.log(topic.name, data.index)
        base = len(log)
        log.extend(iterate_all(data.records))
        row = m.ProduceResponse.TopicProduceResponse
        answer = row.PartitionProduceResponse(index=data.index, base_offset=base, log_append_time_ms=-1)
        return m.ProduceResponse(responses=[row(name=topic.name, partition_responses=[answer])])

    def log(self, topic: str, partition: int) -> list[Record]:
        """The records of a partition."""
        return self.records.setdefault((topic, partition), [])
