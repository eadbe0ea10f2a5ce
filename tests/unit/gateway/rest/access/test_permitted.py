"""The rights of REST's users: each question needs what the same request of a Kafka client needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from support.authorizers import Recorder
from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.access.resources import FAILED
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.described_groups import DescribedGroup
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import PartitionImage
from tailrace.reading import next_records
from tailrace.records.record import Record, build
from tailrace.wire import messages as m
from tailrace_gateway import rest
from tailrace_gateway.rest.access.permitted import RULES, PermittedAdmin
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.groups import kafka as groups
from tailrace_gateway.rest.groups import offset_resets
from tailrace_gateway.rest.groups.models import ResetWish
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.rest.records import kafka as records
from tailrace_gateway.rest.replication import reassignments
from tailrace_gateway.rest.transactions import kafka as transactions

ALICE = "User:alice"
CLUSTER = "kafka-cluster"


@pytest.fixture
def backend() -> MemoryBackend:
    made = MemoryBackend(brokers=2)
    for name in ("orders", "secrets"):
        made.set_topic(name, 1)
    made.groups["g"] = MemoryGroup()
    return made


def admin(backend: MemoryBackend, *granted: tuple[str, str, str]) -> PermittedAdmin:
    """As a user with these rights and no others sees it."""
    return PermittedAdmin(backend, Recorder(lambda asked: tuple(asked) in granted), ALICE, "127.0.0.1")


def test_the_image_has_the_topics_that_the_user_may_describe(backend: MemoryBackend) -> None:
    image = admin(backend, ("DESCRIBE", "TOPIC", "orders")).image()
    assert list(image.topics) == ["orders"]
    assert set(image.topic_names.values()) == {"orders"}
    hidden = backend.image().topics["secrets"].topic_id
    assert image.topic("secrets") is None and image.topic_by_id(hidden) is None


GROUP = DescribedGroup("g", "EMPTY", "CLASSIC", "consumer", "", [])
MANY = 50
LOOPS: list[Callable[[PermittedAdmin], Any]] = [
    lambda to: groups.lags(to, GROUP),
    lambda to: offset_resets.reset(to, "g", ResetWish(to="EARLIEST"), 0),
    lambda to: records.produce(to, to.image().topics["orders"], [(n, Record(timestamp=1)) for n in range(MANY)]),
]


@pytest.mark.parametrize("request_of", LOOPS, ids=["lags", "reset", "produce"])
async def test_a_request_about_many_partitions_asks_for_no_other_topic(
    backend: MemoryBackend, request_of: Callable[[PermittedAdmin], Any]
) -> None:
    backend.set_topic("orders", MANY)
    backend.groups["g"] = MemoryGroup(offsets={("orders", n): 0 for n in range(MANY)})
    authorizer = Recorder(lambda asked: asked.name != "secrets")
    await request_of(PermittedAdmin(backend, authorizer, ALICE, "127.0.0.1"))
    assert "secrets" not in {asked.name for asked in authorizer.asked}


async def test_a_change_of_the_topics_is_seen_within_a_request(backend: MemoryBackend) -> None:
    user = admin(backend, ("DESCRIBE", "TOPIC", "orders"), ("DESCRIBE", "TOPIC", "new"))
    assert set(user.image().topics) == {"orders"}
    backend.set_topic("new", 1)
    assert set(user.image().topics) == {"orders", "new"}


@pytest.fixture
async def operator(backend: MemoryBackend) -> AsyncIterator[httpx.AsyncClient]:
    """A user with ALTER and DESCRIBE of the cluster that may describe no topic."""
    authorizer = Recorder(lambda asked: asked.resource == "CLUSTER" and asked.operation in {"ALTER", "DESCRIBE"})
    access = RestAccess(authorizer=authorizer)
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access=access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here/v3/clusters/memory") as http:
        yield http


async def test_a_broker_with_topics_that_the_user_cannot_see_is_emptied_before_it_is_forgotten(
    backend: MemoryBackend, operator: httpx.AsyncClient
) -> None:
    backend.set_partitions("secrets", PartitionImage((1,), (1,), 1, 0, 0, removing_replicas=(1,)))
    backend.set_broker(replace(backend.image().brokers[1], fenced=True))
    assert (await operator.get("remove-broker-tasks/1")).json()["partitions_left"] == 1
    assert [row["broker_id"] for row in (await operator.get("remove-broker-tasks")).json()["data"]] == [1]
    assert (await operator.post("brokers/1:unregister")).status_code == 409
    backend.set_partitions("secrets", PartitionImage((1,), (1,), 1, 0, 0))
    assert (await operator.delete("brokers/1")).status_code == 202
    assert backend.image().topics["secrets"].partitions[0].replicas == (0,)
    assert (await operator.post("brokers/1:unregister")).status_code == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "remove-broker-tasks"),
        ("GET", "remove-broker-tasks/1"),
        ("DELETE", "brokers/1"),
        ("POST", "brokers/1:unregister"),
    ],
)
async def test_what_a_broker_holds_is_told_to_those_that_may_know_the_cluster(
    backend: MemoryBackend, method: str, path: str
) -> None:
    access = RestAccess(authorizer=Recorder())
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access=access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here/v3/clusters/memory") as http:
        assert (await http.request(method, path)).status_code == 403
    assert backend.asked == [] and 1 in backend.image().brokers


@pytest.mark.parametrize(
    ("topic", "describe"),
    [(GROUP_METADATA_TOPIC, groups.describe), (TRANSACTION_STATE_TOPIC, transactions.described)],
)
async def test_a_coordinator_that_is_away_is_not_taken_for_a_group_that_is_not_there(
    backend: MemoryBackend, topic: str, describe: Callable[[AdminBackend, str], Any]
) -> None:
    backend.set_topic(topic, 1)
    user = admin(backend, ("DESCRIBE", "GROUP", "g"), ("DESCRIBE", "TRANSACTIONAL_ID", "g"))
    backend.fail_next = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert await refusal(lambda: describe(user, "g")) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("may", [True, False])
async def test_quotas_need_the_right_to_describe_configs(backend: MemoryBackend, may: bool) -> None:
    entry = m.AlterClientQuotasRequest.EntryData
    ops = [entry.OpData(key="producer_byte_rate", value=1.0, remove=False)]
    wanted = entry(entity=[entry.EntityData(entity_type="user", entity_name="bob")], ops=ops)
    await backend.ask_controller(m.AlterClientQuotasRequest(entries=[wanted], validate_only=False))
    rights = [("DESCRIBE_CONFIGS", "CLUSTER", CLUSTER)] if may else []
    assert bool(admin(backend, *rights).image().quotas) is may


async def refusal(asked: Callable[[], Any]) -> ErrorCode | None:
    try:
        await asked()
    except ApiError as refused:
        return ErrorCode(refused.code)
    return None


CREATE = m.CreateTopicsRequest(
    topics=[m.CreateTopicsRequest.CreatableTopic(name="new", num_partitions=1, replication_factor=1)], timeout_ms=1
)
ROW = m.ProduceRequest.TopicProduceData
RECORDS = ROW.PartitionProduceData(index=0, records=bytes(build([Record(timestamp=1, value=b"v")])))
PRODUCE = m.ProduceRequest(acks=-1, timeout_ms=1, topic_data=[ROW(name="orders", partition_data=[RECORDS])])
FETCHED = m.FetchRequest.FetchTopic
FETCH = m.FetchRequest(
    max_wait_ms=0,
    topics=[FETCHED(topic="orders", partitions=[FETCHED.FetchPartition(partition=0, fetch_offset=0)])],
)
QUESTIONS: list[tuple[Callable[[PermittedAdmin], Any], tuple[str, str, str], ErrorCode]] = [
    (lambda to: to.ask_controller(CREATE), ("CREATE", "TOPIC", "new"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (lambda to: to.ask_controller(CREATE), ("CREATE", "CLUSTER", CLUSTER), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (lambda to: to.ask_broker(0, PRODUCE, 8), ("WRITE", "TOPIC", "orders"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (
        lambda to: to.connect_for("orders").ask(0, FETCH, 12, 1),
        ("READ", "TOPIC", "orders"),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ),
    (lambda to: to.producers(0, "orders", 0), ("READ", "TOPIC", "orders"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (
        lambda to: to.ask_quota(m.DescribeQuotaUsageRequest(max_entries=1)),
        ("DESCRIBE_CONFIGS", "CLUSTER", CLUSTER),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    (lambda to: to.state(), ("DESCRIBE", "CLUSTER", CLUSTER), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    (
        lambda to: to.ask_group("g", m.DescribeGroupsRequest(groups=["g"])),
        ("DESCRIBE", "GROUP", "g"),
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ),
]


@pytest.mark.parametrize(("ask", "right", "code"), QUESTIONS)
async def test_a_question_needs_a_right_and_is_not_asked_without(
    backend: MemoryBackend,
    ask: Callable[[PermittedAdmin], Any],
    right: tuple[str, str, str],
    code: ErrorCode,
) -> None:
    assert await refusal(lambda: ask(admin(backend))) == code
    assert backend.asked == []
    assert await refusal(lambda: ask(admin(backend, right, ("DESCRIBE_CONFIGS", "TOPIC", "new")))) is None


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        *((ask, code) for ask, _, code in QUESTIONS),
        (lambda to: reassignments.drain(to, 1, shrink=False), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
async def test_a_refusal_is_reported_once(
    backend: MemoryBackend, ask: Callable[[PermittedAdmin], Any], code: ErrorCode
) -> None:
    authorizer = Recorder()
    assert await refusal(lambda: ask(PermittedAdmin(backend, authorizer, ALICE, "127.0.0.1"))) == code
    ((_, denied),) = authorizer.denied
    assert FAILED[denied.resource_type] == code


async def test_what_an_answer_hides_is_no_refusal(backend: MemoryBackend) -> None:
    authorizer = Recorder()
    user = PermittedAdmin(backend, authorizer, ALICE, "127.0.0.1")
    assert not user.image().topics and not await next_records.next_timestamps(user.ask_broker, UNREAD)
    assert authorizer.denied == []


UNREAD = {
    0: {("orders", 0): next_records.Unread(0, 1), ("secrets", 0): next_records.Unread(0, 1)},
    1: {("secrets", 0): next_records.Unread(0, 1)},
}
READ_ORDERS = ("READ", "TOPIC", "orders")


@pytest.mark.parametrize(
    ("rights", "found"),
    [([READ_ORDERS], {("orders", 0): 7}), ([("ALTER", "CLUSTER", CLUSTER)], {})],
    ids=["reader", "operator"],
)
async def test_the_time_of_the_next_record_is_told_of_the_topics_that_the_user_may_read(
    backend: MemoryBackend, rights: list[tuple[str, str, str]], found: dict[tuple[str, int], int]
) -> None:
    for name in ("orders", "secrets"):
        backend.log(name, 0).append(Record(timestamp=7, value=b"v"))
    assert await next_records.next_timestamps(admin(backend, *rights).ask_broker, UNREAD) == found
    fetched = [topic.topic for _, request in backend.asked for topic in request.topics]
    assert set(fetched) == {topic for topic, _ in found}


MACHINERY = ("tailrace.wire.descriptors", "tailrace.wire.messages", "tailrace.net.")  # of all messages


def requests_of_rest() -> set[type[m.ApiMessage]]:
    """What the modules of the REST API, and those of the libraries that they import, send to the cluster."""
    names = [name for _, name, _ in pkgutil.walk_packages(rest.__path__, f"{rest.__name__}.")]
    imported = [value for name in names for value in vars(importlib.import_module(name)).values()]
    used = {str(getattr(value, "__name__" if inspect.ismodule(value) else "__module__", "")) for value in imported}
    libraries = [name for name in used if name.startswith("tailrace.") and not name.startswith(MACHINERY)]
    for name in libraries:
        imported += vars(importlib.import_module(name)).values()
    found = [value for value in imported if inspect.isclass(value) and issubclass(value, m.ApiMessage)]
    return {one for one in found if one.__name__.endswith("Request")}


def test_each_request_that_is_sent_has_its_rule() -> None:
    sent = requests_of_rest()
    assert {m.FetchRequest, m.ListOffsetsRequest, m.OffsetCommitRequest, m.DescribeQuotaUsageRequest} <= sent
    answered_here = {m.MetadataRequest}  # the reader's, from the image (reading/nodes.py)
    assert [one.__name__ for one in sent - answered_here if one.API_KEY not in RULES] == []


async def test_a_request_without_a_rule_is_not_sent(backend: MemoryBackend) -> None:
    user = PermittedAdmin(backend, Recorder(lambda asked: True), ALICE, "127.0.0.1")
    assert await refusal(lambda: user.ask_broker(0, m.ApiVersionsRequest())) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert backend.asked == []


async def test_what_the_user_may_not_know_is_taken_from_an_answer(backend: MemoryBackend) -> None:
    backend.groups = {"mine": MemoryGroup(), "other": MemoryGroup()}
    (answer,) = await admin(backend, ("DESCRIBE", "GROUP", "mine")).ask_coordinators(m.ListGroupsRequest())
    assert isinstance(answer, m.ListGroupsResponse)
    assert [group.group_id for group in answer.groups] == ["mine"]


def test_each_question_is_of_the_user_at_its_address(backend: MemoryBackend) -> None:
    asked = set()

    class Remembers(Recorder):
        def authorize(self, principal: str, client_host: str, *_: object) -> bool:
            asked.add((principal, client_host))
            return True

    PermittedAdmin(backend, Remembers(), ALICE, "10.0.0.9").image()
    assert asked == {(ALICE, "10.0.0.9")}
