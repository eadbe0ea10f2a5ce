"""What the gateway answers from the image: every field a client acts on, every error a handler can give."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
import structlog

from support.authorizers import Asked, Recorder
from support.authorizers import expected as rights_of
from support.sessions import Holder, session_of
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, ServiceImage, ShardImage, TopicImage
from tailrace.metadata.records import Endpoint, UserScramCredentialRecord
from tailrace.net.context import Context
from tailrace.net.dispatch import Service, answer
from tailrace.net.identity import Identity
from tailrace.net.large import Large
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.session import ClientSession
from tailrace.state.partitioner import partition_for
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace_gateway.answering import AnsweringGateway, fenced_now, gone
from tailrace_gateway.encoded_topics import EncodedTopics
from tailrace_gateway.gateway import Advertised, Gateway, GatewayLimits
from tailrace_gateway.handlers import (
    HANDLERS,
    api_versions,
    describe_cluster,
    describe_topic_partitions,
    find_coordinator,
    metadata,
)
from tailrace_gateway.handlers.topics import legal
from tailrace_gateway.relay.routes import table
from tailrace_gateway.suspects import Suspects
from tailrace_gateway.versions import narrowed

ID_A, ID_B = UUID(int=1), UUID(int=2)
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Follower:
    """A metadata follower that hears of nothing new, or of one more image."""

    def __init__(self, stub: "Stub") -> None:
        self.news: MetadataImage | None = None
        self._stub = stub

    async def wait_for(self, predicate: Any, timeout_ms: float) -> MetadataImage:
        if self.news is None or not predicate(self.news):
            raise TimeoutError
        self._stub.show(self.news)
        return self.news


class Stub(AnsweringGateway):
    """A gateway without connections that remembers what it would have created."""

    def __init__(self, image: MetadataImage, advertised: Advertised | None = None) -> None:
        self.advertised = advertised or Advertised()
        self.limits = GatewayLimits()
        self.scripted = Follower(self)
        self.follower: Any = self.scripted
        self.boot_id = "boot"
        self.table = table()
        self.clock = ManualClock()
        self.wanted: list[str] = []
        self.suspects = Suspects(self)
        self.encoded = EncodedTopics()
        self.large = Large()
        self.fenced_at_ms: dict[int, float] = {}
        self._image = image

    @property
    def image(self) -> MetadataImage:
        return self._image

    def show(self, image: MetadataImage) -> None:
        self._image = image

    def _create(self, names: Any) -> None:
        self.wanted += names


@dataclass
class Connection:
    session: ClientSession

    def close(self) -> None: ...

    def give_way(self, why: str) -> None: ...


def context(key: ApiKey, version: int, node_id: int = 0) -> Context:
    identity = Identity(advertised_host="gw.example", base_port=9000, node_id=node_id)
    return Context(key, version, 1, "test", Connection(session_of(identity)))


def broker(node_id: int, fenced: bool = False, rack: str | None = None) -> BrokerImage:
    endpoints = (Endpoint("INTERNAL", "10.0.0.1", 1), Endpoint("CLIENT", f"b{node_id}.example", 7000 + node_id))
    return BrokerImage(node_id, 1, UUID(int=node_id), endpoints, rack, fenced)


def partition(leader: int, *replicas: int) -> PartitionImage:
    replicas = replicas or (leader,)
    return PartitionImage(replicas, replicas if leader >= 0 else (), leader, 5, 6)


def image(**changes: Any) -> MetadataImage:
    topics = {
        "a": TopicImage("a", ID_A, (partition(0), partition(1), partition(-1, 2))),
        "b": TopicImage("b", ID_B, (partition(1),)),
    }
    fields: dict[str, Any] = {
        "offset": 9,
        "cluster_id": "cluster",
        "topics": topics,
        "topic_names": {ID_A: "a", ID_B: "b"},
        "brokers": {0: broker(0), 1: broker(1, rack="r"), 2: broker(2, fenced=True)},
    }
    return MetadataImage(**{**fields, **changes})


def with_offsets_topic(owner: int = 0) -> MetadataImage:
    return with_sharded_topic(OFFSETS, owner)


def with_sharded_topic(name: str, owner: int = 0) -> MetadataImage:
    base = image()
    topic = TopicImage(name, UUID(int=3), (partition(0), partition(1)))
    return image(
        topics={**base.topics, name: topic},
        shards={(name, p): ShardImage(name, p, owner, 1) for p in (0, 1)},
        services={("coordinator", 0): ServiceImage("coordinator", 0, 1, UUID(int=4), (Endpoint("INTERNAL", "h", 1),))},
    )


def encodes(response: Any, key: ApiKey, version: int) -> Any:
    """The response as a client reads it."""
    if isinstance(response, EncodeBuffer):
        return codec.decode_response(key, version, response.body)
    frame = memoryview(codec.encode_response(response, version, 1))[4:]
    return codec.decode_response(key, version, codec.response_body(key, version, frame))


def asking(*names: str) -> list[Any]:
    return [m.MetadataRequest.MetadataRequestTopic(name=name) for name in names]


async def empty_metadata(gateway: Stub, version: int, node_id: int = 0) -> Any:
    """Metadata of no topics."""
    at = context(ApiKey.METADATA, version, node_id)
    return encodes(await metadata.handle(m.MetadataRequest(topics=[]), at, gateway), ApiKey.METADATA, version)


@pytest.mark.parametrize("version", range(14))
async def test_metadata_tells_nodes_topics_and_leaders(version: int) -> None:
    request = m.MetadataRequest(topics=None if version else [])
    answer = encodes(
        await metadata.handle(request, context(ApiKey.METADATA, version), Stub(image())), ApiKey.METADATA, version
    )
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(0, "gw.example", 9000), (1, "gw.example", 9001)]
    assert [t.name for t in answer.topics] == ["a", "b"]
    rows = [(p.partition_index, p.leader_id, p.error_code) for p in answer.topics[0].partitions]
    assert rows == [(0, 0, 0), (1, 1, 0), (2, -1, ErrorCode.LEADER_NOT_AVAILABLE)]
    if version >= 1:
        assert answer.controller_id == 0
        assert answer.brokers[1].rack == "r"
    if version >= 2:
        assert answer.cluster_id == "cluster"
    if version >= 5:
        assert answer.topics[0].partitions[2].offline_replicas == [2]
    if version >= 7:
        assert answer.topics[0].partitions[0].leader_epoch == 5
    if version >= 10:
        assert answer.topics[0].topic_id == ID_A


def replicated(**changes: Any) -> PartitionImage:
    """Three replicas, of which broker 2 is fenced and out of the ISR."""
    fields: dict[str, Any] = {"replicas": (0, 1, 2), "isr": (0, 1), "leader": 0, "leader_epoch": 5}
    return PartitionImage(**{**fields, "partition_epoch": 6, **changes})


def of_one_partition(one: PartitionImage, brokers: Any = None) -> Stub:
    """A gateway whose topic "a" has this partition."""
    base = image(topics={"a": TopicImage("a", ID_A, (one,))}, topic_names={ID_A: "a"})
    return Stub(base if brokers is None else image(topics=base.topics, topic_names=base.topic_names, brokers=brokers))


async def metadata_row(gateway: Stub, version: int) -> Any:
    """The one partition as Metadata tells it."""
    answer = await metadata.handle(m.MetadataRequest(topics=asking("a")), context(ApiKey.METADATA, version), gateway)
    return encodes(answer, ApiKey.METADATA, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(14))
async def test_metadata_tells_replicas_isr_and_who_is_away(version: int) -> None:
    row = await metadata_row(of_one_partition(replicated()), version)
    if version == 0:  # a client of then cannot do with replicas that are not among the brokers
        assert (row.error_code, row.leader_id) == (ErrorCode.REPLICA_NOT_AVAILABLE, 0)
        assert (row.replica_nodes, row.isr_nodes) == ([0, 1], [0, 1])
    else:
        assert (row.error_code, row.leader_id) == (ErrorCode.NONE, 0)
        assert (row.replica_nodes, row.isr_nodes) == ([0, 1, 2], [0, 1])
    if version >= 5:
        assert row.offline_replicas == [2]


@pytest.mark.parametrize("version", range(14))
async def test_a_partition_without_leader_keeps_its_epoch_and_its_replicas(version: int) -> None:
    row = await metadata_row(of_one_partition(replicated(leader=-1, isr=(2,), leader_epoch=7)), version)
    assert (row.error_code, row.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (row.replica_nodes, row.isr_nodes) == (([0, 1], []) if version == 0 else ([0, 1, 2], [2]))
    if version >= 7:
        assert row.leader_epoch == 7


async def test_a_leader_that_was_unregistered_is_none() -> None:
    row = await metadata_row(of_one_partition(replicated(leader=9, replicas=(9,), isr=(9,))), 12)
    assert (row.error_code, row.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert row.offline_replicas == [9]


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
async def test_a_leader_without_an_address_for_this_client_has_no_listener(version: int, code: ErrorCode) -> None:
    hidden = {0: BrokerImage(0, 1, UUID(int=5), fenced=False), 1: broker(1)}
    gateway = of_one_partition(replicated(), hidden)
    gateway.advertised = Advertised(brokers=True)
    row = await metadata_row(gateway, version)
    assert (row.error_code, row.leader_id, row.offline_replicas) == (code, -1, [0, 2])


@pytest.mark.parametrize(("age_ms", "named"), [(0, [0, 1, 2]), (9_999, [0, 1, 2]), (10_000, [0, 1])])
async def test_a_node_that_just_died_is_still_named_where_its_port_is_open(age_ms: float, named: list[int]) -> None:
    gateway = Stub(image())
    gateway.fenced_at_ms[2] = gateway.clock.monotonic_ms() - age_ms
    answer = await empty_metadata(gateway, 12)
    assert [broker.node_id for broker in answer.brokers] == named
    gateway.advertised = Advertised(brokers=True)
    answer = await empty_metadata(gateway, 12)
    assert [broker.node_id for broker in answer.brokers] == [0, 1]


@pytest.mark.parametrize("leader", [0, -1])
async def test_describe_topic_partitions_tells_elr_and_no_error_without_a_leader(leader: int) -> None:
    one = replicated(leader=leader, isr=(0,), eligible_leader_replicas=(1,), last_known_elr=(2,))
    request = m.DescribeTopicPartitionsRequest(
        topics=[m.DescribeTopicPartitionsRequest.TopicRequest(name="a")], response_partition_limit=9, cursor=None
    )
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    answer = await describe_topic_partitions.handle(request, context(key, 0), of_one_partition(one))
    row = encodes(answer, key, 0).topics[0].partitions[0]
    assert (row.error_code, row.leader_id, row.leader_epoch) == (ErrorCode.NONE, leader, 5)
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ([0, 1, 2], [0], [2])
    assert (row.eligible_leader_replicas, row.last_known_elr) == ([1], [2])


async def test_metadata_of_no_topics_lists_none_from_version_1_on() -> None:
    answer = await empty_metadata(Stub(image()), 1)
    assert answer.topics == []


async def test_the_controller_is_the_connections_node_or_a_live_one() -> None:
    for node_id, expected in ((1, 1), (2, 0)):
        answer = await empty_metadata(Stub(image()), 5, node_id)
        assert answer.controller_id == expected


@pytest.mark.parametrize(
    ("version", "allow", "created"), [(1, True, ["new"]), (4, True, ["new"]), (4, False, []), (13, True, ["new"])]
)
async def test_a_missing_topic_is_unknown_and_created_where_allowed(
    version: int, allow: bool, created: list[str]
) -> None:
    gateway = Stub(image())
    request = m.MetadataRequest(topics=asking("new", "a"), allow_auto_topic_creation=allow)
    answer = encodes(
        await metadata.handle(request, context(ApiKey.METADATA, version), gateway), ApiKey.METADATA, version
    )
    codes = {t.name: t.error_code for t in answer.topics}
    assert codes == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a": ErrorCode.NONE}
    assert gateway.wanted == created


async def test_nothing_is_created_where_the_broker_config_forbids_it() -> None:
    gateway = Stub(image(), Advertised(auto_create_topics=False))
    await metadata.handle(m.MetadataRequest(topics=asking("new")), context(ApiKey.METADATA, 9), gateway)
    assert gateway.wanted == []


def restricted(version: int, authorizer: Recorder) -> Context:
    """Metadata of a client that may not do everything."""
    known = context(ApiKey.METADATA, version).connection.session.identity
    session = ClientSession(Holder(), RoleMemory(), known, authorizer=authorizer)
    return Context(ApiKey.METADATA, version, 1, "test", Connection(session))


@pytest.mark.parametrize("version", [1, 9, 12, 13])
async def test_metadata_refuses_topics_that_are_named_and_leaves_out_others(version: int) -> None:
    def may_know_b(asked: Asked) -> bool:
        return asked.name == "b"

    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topics, told in [
        (asking("a", "b", "new"), {"a": refused, "b": ErrorCode.NONE, "new": refused}),
        (None, {"b": ErrorCode.NONE}),
    ]:
        gateway, at = Stub(image()), restricted(version, Recorder(may_know_b))
        answered = await metadata.handle(m.MetadataRequest(topics=topics), at, gateway)
        rows = encodes(answered, ApiKey.METADATA, version).topics
        assert {row.name: row.error_code for row in rows} == told
        assert all(bool(row.partitions) == (not row.error_code) for row in rows) and gateway.wanted == []


async def test_metadata_by_id_does_not_tell_the_name_of_a_topic_that_is_refused() -> None:
    asked = [m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=one) for one in (ID_A, ID_B)]
    at = restricted(12, Recorder(lambda asked: asked.name == "b"))
    answered = await metadata.handle(m.MetadataRequest(topics=asked), at, Stub(image()))
    rows = {row.topic_id: (row.name, row.error_code) for row in encodes(answered, ApiKey.METADATA, 12).topics}
    assert rows == {ID_A: (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED), ID_B: ("b", ErrorCode.NONE)}


@pytest.mark.parametrize(
    ("grants", "created"),
    [({"DESCRIBE"}, []), ({"DESCRIBE", "CREATE"}, ["t"])],
)
async def test_a_missing_topic_is_created_for_a_client_that_may(grants: set[str], created: list[str]) -> None:
    for cluster in (False, True):
        authorizer = Recorder(lambda asked: asked.operation in grants and (cluster or asked.resource == "TOPIC"))  # noqa: B023
        gateway, request = Stub(image()), m.MetadataRequest(topics=asking("t"), allow_auto_topic_creation=True)
        answered = encodes(await metadata.handle(request, restricted(9, authorizer), gateway), ApiKey.METADATA, 9)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if created else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert answered.topics[0].error_code == unknown and gateway.wanted == created
        assert set(authorizer.asked) <= rights_of("METADATA")
        if not cluster:
            assert set(authorizer.asked) == rights_of("METADATA")


async def test_authorized_operations_in_metadata_are_those_that_the_client_has() -> None:
    at = restricted(9, Recorder(lambda asked: asked.operation in {"DESCRIBE", "READ"}))
    gateway = Stub(image())
    request = m.MetadataRequest(
        topics=asking("a"),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
        allow_auto_topic_creation=False,
    )
    answered = encodes(await metadata.handle(request, at, gateway), ApiKey.METADATA, 9)
    assert (answered.topics[0].authorized_operations, answered.authorized_operations) == ({3, 8}, {8})
    at = restricted(9, Recorder(lambda asked: asked.operation == "READ" or asked.resource == "TOPIC"))
    answered = encodes(await metadata.handle(request, at, gateway), ApiKey.METADATA, 9)
    assert answered.authorized_operations == set()  # of a cluster that it may not describe
    everything = encodes(
        await metadata.handle(request, context(ApiKey.METADATA, 9), gateway), ApiKey.METADATA, 9
    )  # what was encoded for one client is not another's
    assert len(everything.topics[0].authorized_operations) == 8


async def test_an_illegal_topic_name_is_invalid_and_not_created() -> None:
    gateway = Stub(image())
    request = m.MetadataRequest(topics=asking("a b"))
    answer = encodes(await metadata.handle(request, context(ApiKey.METADATA, 9), gateway), ApiKey.METADATA, 9)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert gateway.wanted == []


@pytest.mark.parametrize(
    ("version", "name", "topic_id"),
    [(11, None, None), (11, None, ID_B), (10, "a", ID_B), (12, None, None), (13, None, UUID(int=0))],
)
async def test_a_topic_without_a_name_or_an_id_that_counts_is_an_invalid_request(
    version: int, name: str | None, topic_id: UUID | None
) -> None:
    row: Any = m.MetadataRequest.MetadataRequestTopic(name=name)
    row.topic_id = topic_id
    body = codec.encode_response_body(m.MetadataRequest(topics=[row, *asking("a")]), version)
    request = codec.decode_request(ApiKey.METADATA, version, body)
    service = Service(role=Stub(image()), handlers=HANDLERS, apis=APIS, log=structlog.get_logger(), memory=RoleMemory())
    answered = encodes(await answer(service, request, context(ApiKey.METADATA, version)), ApiKey.METADATA, version)
    assert [(topic.name, topic.error_code) for topic in answered.topics] == [
        (name or "", ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.INVALID_REQUEST),
    ]
    assert answered.error_code == (ErrorCode.INVALID_REQUEST if version >= 13 else 0)


@pytest.mark.parametrize("version", [12, 13])
async def test_a_topic_is_found_by_its_id(version: int) -> None:
    by_id = m.MetadataRequest.MetadataRequestTopic
    request = m.MetadataRequest(topics=[by_id(topic_id=ID_B, name=None), by_id(topic_id=UUID(int=99), name=None)])
    answer = encodes(
        await metadata.handle(request, context(ApiKey.METADATA, version), Stub(image())), ApiKey.METADATA, version
    )
    rows = [(t.name, t.topic_id, t.error_code) for t in answer.topics]
    assert rows == [("b", ID_B, 0), (None, UUID(int=99), ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.parametrize(("count", "created"), [(10_000, 10_000), (10_001, 0)])
async def test_a_request_that_names_very_many_topics_creates_none(count: int, created: int) -> None:
    gateway = Stub(image())
    request = m.MetadataRequest(topics=asking(*(f"n{number}" for number in range(count))))
    await metadata.handle(request, context(ApiKey.METADATA, 9), gateway)
    assert len(gateway.wanted) == created


@pytest.mark.parametrize("version", range(14))
async def test_a_topic_named_several_times_is_answered_and_created_once(version: int) -> None:
    gateway = Stub(image())
    request = m.MetadataRequest(topics=asking("b", "a", "b", "new", "a b", "new", "a b", "a"))
    answer = encodes(
        await metadata.handle(request, context(ApiKey.METADATA, version), gateway), ApiKey.METADATA, version
    )
    assert [t.name for t in answer.topics] == ["b", "a", "new", "a b"]
    assert gateway.wanted == ["new"]


async def test_a_topic_id_given_several_times_or_beside_its_name_is_answered_once() -> None:
    row, unknown = m.MetadataRequest.MetadataRequestTopic, UUID(int=99)
    rows = [row(topic_id=ID_B, name=None)] * 2 + [row(topic_id=unknown, name=None)] * 2 + [row(name="b")]
    answer = encodes(
        await metadata.handle(m.MetadataRequest(topics=rows), context(ApiKey.METADATA, 12), Stub(image())),
        ApiKey.METADATA,
        12,
    )
    assert [t.topic_id for t in answer.topics] == [ID_B, unknown]


async def test_a_name_repeated_many_times_is_answered_once() -> None:
    gateway = Stub(image())
    request = m.MetadataRequest(topics=asking("a") * 100_000)
    body = await metadata.handle(request, context(ApiKey.METADATA, 12), gateway)
    assert len(body.body) < 1000


async def test_authorized_operations_come_when_asked_for() -> None:
    request = m.MetadataRequest(
        topics=asking("a", "no"),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
        allow_auto_topic_creation=False,
    )
    answer = encodes(await metadata.handle(request, context(ApiKey.METADATA, 9), Stub(image())), ApiKey.METADATA, 9)
    assert answer.topics[0].authorized_operations == {3, 4, 5, 6, 7, 8, 10, 11}
    assert answer.topics[1].authorized_operations is None
    assert answer.authorized_operations == {5, 7, 8, 9, 10, 11, 12}


async def test_clients_are_told_the_brokers_own_listeners_if_so_configured() -> None:
    gateway = Stub(image(), Advertised(brokers=True))
    answer = await empty_metadata(gateway, 9)
    assert [(b.host, b.port) for b in answer.brokers] == [("b0.example", 7000), ("b1.example", 7001)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", True),
        ("A.b_c-9", True),
        ("x" * 249, True),
        ("x" * 250, False),
        ("", False),
        (".", False),
        ("..", False),
        ("a/b", False),
        ("a\n", False),
        ("ä", False),
    ],
)
def test_topic_names_follow_kafkas_rule(name: str, expected: bool) -> None:
    assert legal(name) == expected


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_describe_cluster_names_live_brokers_and_fenced_ones_on_request(version: int) -> None:
    request = m.DescribeClusterRequest(include_fenced_brokers=True, include_cluster_authorized_operations=True)
    key = ApiKey.DESCRIBE_CLUSTER
    answer = encodes(await describe_cluster.handle(request, context(key, version), Stub(image())), key, version)
    assert [(b.broker_id, b.port) for b in answer.brokers][:2] == [(0, 9000), (1, 9001)]
    assert len(answer.brokers) == (3 if version >= 2 else 2)
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 0)
    assert 9 in answer.authorized_operations


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_controllers_are_not_described(endpoint_type: int, code: ErrorCode) -> None:
    request = m.DescribeClusterRequest(endpoint_type=endpoint_type)
    answer = await describe_cluster.handle(request, context(ApiKey.DESCRIBE_CLUSTER, 1), Stub(image()))
    assert answer.error_code == code


async def test_of_scram_credentials_mechanisms_and_iterations_are_told_and_no_keys() -> None:
    """kafka-configs.sh asks for them before it shows a user's quotas."""
    keys = (b"salt", b"stored", b"server")
    carol = {mechanism: UserScramCredentialRecord("carol", mechanism, *keys, 4096 * mechanism) for mechanism in (2, 1)}
    service: Any = Service(
        Stub(image(scram={"carol": carol})), HANDLERS, APIS, structlog.get_logger(), memory=RoleMemory()
    )
    key, row = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, m.DescribeUserScramCredentialsRequest.UserName
    for users, expected in (
        (None, [("carol", 0, "")]),
        ([], [("carol", 0, "")]),
        (
            ["carol", "alice", "bob", "alice"],
            [
                ("carol", 0, ""),
                ("alice", 92, "Cannot describe SCRAM credentials for the same user twice in a single request: alice"),
                ("bob", 91, "Attempt to describe a user credential that does not exist: bob"),
            ],
        ),
    ):
        request = m.DescribeUserScramCredentialsRequest(
            users=None if users is None else [row(name=name) for name in users]
        )
        told = encodes(await answer(service, request, context(key, 0)), key, 0)
        assert told.error_code == 0
        assert [(one.user, one.error_code, one.error_message) for one in told.results] == expected
        infos = [(info.mechanism, info.iterations) for info in told.results[0].credential_infos]
        assert infos == [(1, 4096), (2, 8192)] and not any(key in str(told).encode() for key in keys)


async def pages(
    limit: int, *names: str, at: Context | None = None, cursor: Any = None
) -> list[list[tuple[str, list[int]]]]:
    """All pages, from the cursor on: topic and partition numbers."""
    gateway, at = Stub(image()), at or context(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    found = []
    while True:
        topics = [m.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
        asked = None
        if cursor is not None:
            asked = m.DescribeTopicPartitionsRequest.Cursor(
                topic_name=cursor.topic_name, partition_index=cursor.partition_index
            )
        request = m.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=asked)
        answer = encodes(
            await describe_topic_partitions.handle(request, at, gateway), ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0
        )
        found.append([(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics])
        cursor = answer.next_cursor
        if cursor is None:
            return found


async def test_topic_partitions_come_in_pages() -> None:
    assert await pages(2000) == [[("a", [0, 1, 2]), ("b", [0])]]
    assert await pages(2) == [[("a", [0, 1])], [("a", [2]), ("b", [0])]]
    assert await pages(3) == [[("a", [0, 1, 2])], [("b", [0])]]
    assert await pages(1, "b") == [[("b", [0])]]


async def test_neither_topics_nor_cursors_tell_of_topics_that_may_not_be_described() -> None:
    cursor = m.DescribeTopicPartitionsRequest.Cursor(topic_name="a", partition_index=2)
    for known, first, expected in (
        ((), None, [[]]),
        ((), cursor, [[]]),
        (("b",), None, [[("b", [0])]]),
        (("b",), cursor, [[("b", [0])]]),
        (("a",), None, [[("a", [0])], [("a", [1])], [("a", [2])]]),
        (("a", "b"), cursor, [[("a", [2])], [("b", [0])]]),
    ):
        at = restricted(0, Recorder(lambda asked: asked.name in known))  # noqa: B023
        assert await pages(1, at=at, cursor=first) == expected


async def test_a_named_topic_that_is_not_there_is_unknown_and_an_illegal_one_invalid() -> None:
    topics = [m.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in ("no", "a b")]
    request = m.DescribeTopicPartitionsRequest(topics=topics, cursor=None)
    at = context(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    answer = await describe_topic_partitions.handle(request, at, Stub(image()))
    codes = {t.name: t.error_code for t in answer.topics}
    assert codes == {"no": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a b": ErrorCode.INVALID_TOPIC_EXCEPTION}


@pytest.mark.parametrize(
    ("names", "cursor"),
    [([], ("a", -1)), (["a"], ("a", -1)), (["a"], ("b", 0)), (["a"], ("", 0)), (["a", "no"], ("c", 0))],
)
async def test_a_cursor_at_no_partition_or_at_a_topic_not_asked_for_is_refused(
    names: list[str], cursor: tuple[str, int]
) -> None:
    topics = [m.DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
    at = m.DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    request = m.DescribeTopicPartitionsRequest(topics=topics, cursor=at)
    with pytest.raises(ApiError) as refused:
        await describe_topic_partitions.handle(request, context(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0), Stub(image()))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


async def find(version: int, gateway: Gateway, key: str, key_type: int = 0) -> Any:
    """One coordinator in the shape of version 3."""
    request = m.FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    at = context(ApiKey.FIND_COORDINATOR, version)
    answer = encodes(await find_coordinator.handle(request, at, gateway), ApiKey.FIND_COORDINATOR, version)
    return answer.coordinators[0] if version >= 4 else answer


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_is_the_leader_of_the_groups_offsets_partition(version: int) -> None:
    for group in ("g1", "g2", "g3", "g4"):
        found = await find(version, Stub(with_offsets_topic()), group)
        leader = partition_for(group, 2)
        assert (found.error_code, found.node_id, found.port) == (0, leader, 9000 + leader)


@pytest.mark.parametrize("version", [0, 3, 4, 6])
async def test_the_offsets_topic_is_created_on_the_first_need(version: int) -> None:
    gateway = Stub(image())
    found = await find(version, gateway, "g")
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert gateway.wanted == [OFFSETS]


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("before", [image(), with_offsets_topic(owner=-1)], ids=["no topic", "no owner"])
async def test_a_coordinator_on_its_way_is_waited_for(version: int, before: MetadataImage) -> None:
    gateway = Stub(before)
    gateway.scripted.news = with_offsets_topic()
    assert (await find(version, gateway, "g")).error_code == ErrorCode.NONE


async def test_a_shard_without_owner_has_no_coordinator_yet() -> None:
    found = await find(4, Stub(with_offsets_topic(owner=-1)), "g")
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("key", ["t1", "t2", "t3", ""])
async def test_the_coordinator_of_a_transactional_id_leads_its_partition_of_the_transactions_topic(
    version: int, key: str
) -> None:
    found = await find(version, Stub(with_sharded_topic(TRANSACTIONS)), key, key_type=1)
    leader = partition_for(key, 2)
    assert (found.error_code, found.node_id, found.port) == (0, leader, 9000 + leader)


async def test_the_transactions_topic_is_created_on_the_first_need_and_no_other() -> None:
    gateway = Stub(with_sharded_topic(OFFSETS))
    found = await find(3, gateway, "t", key_type=1)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert gateway.wanted == [TRANSACTIONS]


async def test_a_key_type_that_is_not_served_creates_nothing() -> None:
    gateway = Stub(image())
    assert (await find(4, gateway, "x", key_type=7)).error_code == ErrorCode.INVALID_REQUEST
    assert gateway.wanted == []


async def test_a_share_group_key_is_invalid() -> None:
    found = await find(6, Stub(with_offsets_topic()), "g:t:0", key_type=2)
    assert found.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_lists_the_routes_and_the_finalized_features(version: int) -> None:
    request = m.ApiVersionsRequest(client_software_name="a-b", client_software_version="1.2")
    elr = "eligible.leader.replicas.version"
    gateway = Stub(image(features={"metadata.version": 25, elr: 1, "off": 0}))
    key = ApiKey.API_VERSIONS
    answer = encodes(await api_versions.handle(request, context(key, version), gateway), key, version)
    rows = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert rows[ApiKey.PRODUCE] == (0, APIS[ApiKey.PRODUCE].max_version)
    assert rows[ApiKey.FIND_COORDINATOR][0] == rows[ApiKey.JOIN_GROUP][0] == rows[ApiKey.INIT_PRODUCER_ID][0] == 0
    assert all(key < 10_000 for key in rows)
    if version >= 3:
        assert answer.finalized_features_epoch == 9
        assert [(f.name, f.max_version_level) for f in answer.finalized_features] == [
            (elr, 1),
            ("metadata.version", 25),
        ]
        supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
        # As Kafka 4.4.0: no metadata.version below 3.3-IV3, and what may be off is told from version 4 on only.
        may_be_off = {"group.version": (0, 1), "security.version": (0, 1), "transaction.version": (0, 2)}
        assert supported == {elr: (1, 1), "metadata.version": (7, 25), **(may_be_off if version >= 4 else {})}


@pytest.mark.parametrize(("name", "software_version"), [("", "1"), ("-a", "1"), ("a", "1-"), ("a b", "1")])
async def test_client_software_that_is_not_a_word_is_refused(name: str, software_version: str) -> None:
    request = m.ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    with pytest.raises(ApiError) as refused:
        await api_versions.handle(request, context(ApiKey.API_VERSIONS, 3), Stub(image()))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


NOT_CHECKED = (None, -1)


@pytest.mark.parametrize(
    ("named", "reached", "expected"),
    [
        (NOT_CHECKED, 2, ErrorCode.NONE),
        (("here", 2), 2, ErrorCode.NONE),
        (("here", 3), 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (("here", -2), 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (("elsewhere", 2), 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (("", 2), 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (("here", -1), 2, ErrorCode.INVALID_REQUEST),
        ((None, 2), 2, ErrorCode.INVALID_REQUEST),
        (("here", 7), -1, ErrorCode.NONE),  # by a port that belongs to no node
        (("elsewhere", 7), -1, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_a_client_that_means_another_cluster_or_node_is_told_to_bootstrap_again(
    named: tuple[str | None, int], reached: int, expected: ErrorCode
) -> None:
    """KIP-1242; Apache Kafka 4.4.0 gave these answers on the port of node 2."""
    cluster_id, node_id = named
    request = m.ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    code = ErrorCode.NONE
    try:
        await api_versions.handle(
            request, context(ApiKey.API_VERSIONS, 5, node_id=reached), Stub(image(cluster_id="here"))
        )
    except ApiError as refused:
        code = refused.code
    assert code == expected


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    answer = encodes(api_versions.unsupported(), ApiKey.API_VERSIONS, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in answer.api_keys] == [(18, 0, 5)]


def test_two_members_of_a_role_serve_what_both_serve() -> None:
    assert narrowed({1: (0, 5), 2: (0, 1), 3: (0, 1)}, {1: (2, 9), 2: (2, 3)}) == {1: (2, 5)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (broker(0), broker(0), False),
        (broker(0), broker(0, fenced=True), True),
        (broker(0), None, True),
        (None, broker(0, fenced=True), False),
        (broker(0, fenced=True), broker(0), False),
        (broker(0), BrokerImage(0, 2, UUID(int=9), (), None, True), False),
    ],
)
def test_a_broker_is_given_up_when_its_life_is_fenced(old: Any, new: Any, expected: bool) -> None:
    assert fenced_now(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (broker(0), broker(0), False),
        (broker(0), broker(0, fenced=True), True),
        (broker(0), None, True),
        (broker(0, fenced=True), broker(0), False),
        (broker(0), BrokerImage(0, 2, UUID(int=9), (), None, True), True),
    ],
)
def test_a_broker_is_named_on_for_a_while_when_it_does_not_live_any_more(old: Any, new: Any, expected: bool) -> None:
    assert gone(old, new) == expected
