"""The REST API against a cluster in memory: resources, refusals, links."""

import json
import re
import struct
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.errors import MOST_MESSAGE_CHARS, ApiError, ErrorCode
from tailrace.wire.hot.producers import DescribedProducer, PartitionProducers, pack
from tailrace.wire.messages import ConsumerGroupDescribeResponse, DescribeCleanerResponse, DescribeGroupsResponse

ROOT = "/v3/clusters/memory"
CONFLUENT = Path(__file__).with_name("confluent_v3.tsv")
NO_SUCH_TOPIC = {"error_code": 40403, "message": "This server does not host this topic-partition."}


def refusal(response: httpx.Response) -> tuple[int, int]:
    body = response.json()
    assert set(body) == {"error_code", "message"}
    assert body["message"]
    return response.status_code, body["error_code"]


def assigned(*pairs: tuple[str, int]) -> bytes:
    data = struct.pack(">hi", 1, len(pairs))
    for topic, partition in pairs:
        data += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">ii", 1, partition)
    return data + struct.pack(">i", -1)


async def test_a_sentence_that_quotes_a_very_long_id_is_cut(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"/v3/clusters/{'x' * 32_000}/brokers")
    assert answer.status_code == 404
    assert "xxx" in answer.json()["message"] and len(answer.json()["message"]) == MOST_MESSAGE_CHARS + 1


async def test_the_cluster_names_itself_and_links_to_the_rest(http: httpx.AsyncClient) -> None:
    listing = (await http.get("/v3/clusters")).json()
    assert listing["kind"] == "KafkaClusterList"
    assert listing["metadata"] == {"self": "http://here/v3/clusters", "next": None}
    (cluster,) = listing["data"]
    assert cluster == (await http.get(ROOT)).json()
    assert cluster["cluster_id"] == "memory"
    assert cluster["metadata"] == {"self": f"http://here{ROOT}", "resource_name": "crn:///kafka=memory"}
    assert cluster["topics"] == {"related": f"http://here{ROOT}/topics"}
    assert cluster["controller"] == {"related": f"http://here{ROOT}/brokers/0"}


async def test_another_cluster_is_not_found(http: httpx.AsyncClient) -> None:
    assert refusal(await http.get("/v3/clusters/other/topics")) == (404, 404)


async def test_an_unknown_path_is_not_found_in_the_same_shape(http: httpx.AsyncClient) -> None:
    assert refusal(await http.get("/v4/nothing")) == (404, 404)
    assert refusal(await http.put(f"{ROOT}/topics")) == (405, 405)


async def test_brokers_have_the_addresses_that_clients_are_told(http: httpx.AsyncClient) -> None:
    rows = (await http.get(f"{ROOT}/brokers")).json()["data"]
    assert [(row["broker_id"], row["host"], row["port"]) for row in rows] == [
        (0, "localhost", 9092),
        (1, "localhost", 9093),
    ]
    assert (await http.get(f"{ROOT}/brokers/1")).json() == rows[1]
    assert refusal(await http.get(f"{ROOT}/brokers/7")) == (404, 404)
    assert refusal(await http.get(f"{ROOT}/brokers/seven")) == (400, 400)


async def retention_of(http: httpx.AsyncClient, topic: str) -> tuple[str, bool]:
    """The value of retention.ms, and whether it is the cluster's."""
    row = (await http.get(f"{ROOT}/topics/{topic}/configs/retention.ms")).json()
    return row["value"], row["is_default"]


async def test_a_topic_is_created_described_grown_and_deleted(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    wanted = {"topic_name": "orders", "partitions_count": 2, "configs": [{"name": "retention.ms", "value": "1000"}]}
    made = await http.post(f"{ROOT}/topics", json=wanted)
    assert made.status_code == 201
    assert made.headers["location"] == f"http://here{ROOT}/topics/orders"
    assert made.json()["partitions_count"] == 2
    assert (await http.get(f"{ROOT}/topics/orders")).json() == made.json()
    assert await retention_of(http, "orders") == ("1000", False)

    grown = await http.patch(f"{ROOT}/topics/orders", json={"partitions_count": 4})
    assert grown.json()["partitions_count"] == 4
    names = [row["topic_name"] for row in (await http.get(f"{ROOT}/topics")).json()["data"]]
    assert names == ["orders"]

    assert (await http.delete(f"{ROOT}/topics/orders")).status_code == 204
    assert (await http.get(f"{ROOT}/topics/orders")).json() == NO_SUCH_TOPIC


@pytest.mark.parametrize(
    ("method", "place", "body"),
    [
        ("POST", "topics", '{"topic_name": "wide", "partitions_count": 2147483648, "validate_only": true}'),
        ("POST", "topics", '{"topic_name": "safe", "replication_factor": 32768, "validate_only": true}'),
        ("POST", "topics", '{"topic_name": "\\ud800", "validate_only": true}'),
        (
            "POST",
            "topics",
            '{"topic_name": "t", "configs": [{"name": "n", "value": "\\ud800"}], "validate_only": true}',
        ),
        ("PUT", "topics/orders/configs/n", '{"value": "\\ud800"}'),
        ("POST", "topics/orders/configs:alter", '{"data": [{"name": "\\ud800", "value": "1"}]}'),
        ("PUT", "topics/orders/partitions/0/replicas/0/log-dir-move", '{"log_dir": "\\ud800"}'),
        ("PATCH", "topics/orders", '{"partitions_count": -2147483649}'),
        ("PUT", "topics/orders/partitions/0/reassignment", '{"replicas": [0, 2147483648]}'),
    ],
)
async def test_what_no_request_of_kafka_can_hold_is_a_bad_request(
    http: httpx.AsyncClient, backend: MemoryBackend, method: str, place: str, body: str
) -> None:
    backend.set_topic("orders", 1)
    answer = await http.request(method, f"{ROOT}/{place}", content=body, headers={"content-type": "application/json"})
    assert refusal(answer) == (400, 400)
    assert backend.asked == []


async def test_validate_only_creates_nothing(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    answer = await http.post(f"{ROOT}/topics", json={"topic_name": "maybe", "validate_only": True})
    assert (answer.status_code, answer.json()["partitions_count"]) == (200, 3)
    assert backend.image().topic("maybe") is None


async def test_kafkas_refusals_keep_their_message(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("orders", 1)
    again = await http.post(f"{ROOT}/topics", json={"topic_name": "orders"})
    assert again.json() == {"error_code": 40002, "message": "Topic 'orders' already exists."}
    fewer = await http.patch(f"{ROOT}/topics/orders", json={"partitions_count": 1})
    assert refusal(fewer) == (400, 40002)
    assert refusal(await http.delete(f"{ROOT}/topics/none")) == (404, 40403)


@pytest.mark.parametrize("body", ["", "{", "[]", '{"topic_name": 3}', '{"topic_name": "a", "partitions_count": "x"}'])
async def test_a_body_that_is_not_what_was_asked_for_is_refused(http: httpx.AsyncClient, body: str) -> None:
    answer = await http.post(f"{ROOT}/topics", content=body, headers={"content-type": "application/json"})
    assert refusal(answer) == (400, 400)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ApiError(ErrorCode.NOT_CONTROLLER), (503, 50302)),
        (ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (500, 50003)),
        (ApiError(ErrorCode.KAFKA_STORAGE_ERROR), (500, 50003)),
        (ApiError(ErrorCode.UNKNOWN_SERVER_ERROR), (500, 50002)),
        (ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (403, 40301)),
        (ApiError(ErrorCode.MESSAGE_TOO_LARGE), (413, 413)),
        (TimeoutError(), (500, 50003)),
        (ConnectionResetError("gone"), (503, 50302)),
    ],
)
async def test_what_the_cluster_cannot_do_has_a_status(
    http: httpx.AsyncClient, backend: MemoryBackend, error: Exception, expected: tuple[int, int]
) -> None:
    backend.fail_next = error
    assert refusal(await http.post(f"{ROOT}/topics", json={"topic_name": "t"})) == expected


async def test_partitions_show_leader_and_replicas(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)
    here = f"{ROOT}/topics/orders/partitions"
    rows = (await http.get(here)).json()["data"]
    assert [row["partition_id"] for row in rows] == [0, 1]
    assert rows[1]["leader"] == {"related": f"http://here{here}/1/replicas/0"}
    assert (await http.get(f"{here}/1")).json() == rows[1]
    (replica,) = (await http.get(f"{here}/1/replicas")).json()["data"]
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (0, True, True)
    assert refusal(await http.get(f"{here}/2")) == (404, 40403)
    backend.set_topic("orders", 2, leader=-1)
    assert (await http.get(f"{here}/0")).json()["leader"] is None


@pytest.mark.parametrize("failed", [TimeoutError(), ConnectionResetError("gone")], ids=["silent", "gone"])
@pytest.mark.parametrize("path", ["topics/orders/configs", "brokers/0/configs/retention.ms", "broker-configs"])
async def test_reading_configs_without_a_controller_is_soon_refused_as_unavailable(
    http: httpx.AsyncClient, backend: MemoryBackend, path: str, failed: Exception
) -> None:
    backend.set_topic("orders", 1)
    backend.no_controller = failed
    answer = await http.get(f"{ROOT}/{path}")
    assert refusal(answer) == (503, 50302)
    assert answer.json()["message"] == "No controller answers, and only they tell configs."
    assert 0 < backend.waited_ms <= 3000


@pytest.mark.parametrize(
    ("path", "kind", "owner"),
    [
        ("topics/orders/configs", "KafkaTopicConfig", {"topic_name": "orders"}),
        ("brokers/1/configs", "KafkaBrokerConfig", {"broker_id": 1}),
        ("broker-configs", "KafkaClusterConfig", {"config_type": "BROKER"}),
    ],
)
async def test_configs_are_listed_set_and_reset(
    http: httpx.AsyncClient, backend: MemoryBackend, path: str, kind: str, owner: dict[str, object]
) -> None:
    backend.set_topic("orders", 1)
    here = f"{ROOT}/{path}"
    listing = (await http.get(here)).json()
    assert listing["kind"] == f"{kind}List"
    assert [row["name"] for row in listing["data"]] == ["max.message.bytes", "retention.ms", "ssl.keystore.password"]
    assert listing["metadata"]["next"] is None
    owners = {"topic_name", "broker_id", "config_type"}
    assert {name: value for name, value in listing["data"][0].items() if name in owners} == owner

    assert (await http.put(f"{here}/retention.ms", json={"value": "5"})).status_code == 204
    row = (await http.get(f"{here}/retention.ms")).json()
    assert (row["value"], row["is_default"], row["source"]) == ("5", False, "DYNAMIC_TOPIC_CONFIG")
    assert row["synonyms"] == [{"name": "retention.ms", "value": "604800000", "source": "DEFAULT_CONFIG"}]
    assert row["metadata"]["self"] == f"http://here{here}/retention.ms"

    assert (await http.delete(f"{here}/retention.ms")).status_code == 204
    assert (await http.get(f"{here}/retention.ms")).json()["is_default"] is True
    assert refusal(await http.get(f"{here}/no.such.key")) == (404, 404)


async def test_configs_of_all_brokers_are_listed(http: httpx.AsyncClient) -> None:
    listing = (await http.get(f"{ROOT}/brokers/-/configs")).json()
    assert listing["kind"] == "KafkaBrokerConfigList"
    assert [(row["broker_id"], row["name"]) for row in listing["data"]][::3] == [
        (0, "max.message.bytes"),
        (1, "max.message.bytes"),
    ]


async def test_altering_is_all_or_none(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("orders", 1)
    here = f"{ROOT}/topics/orders/configs:alter"
    good = {"name": "retention.ms", "value": "5"}
    assert refusal(await http.post(here, json={"data": [good, {"name": "nope", "value": "1"}]})) == (400, 40002)
    assert (await http.post(here, json={"data": [good], "validate_only": True})).status_code == 204
    assert await retention_of(http, "orders") == ("604800000", True)
    assert (await http.post(here, json={"data": [good]})).status_code == 204
    assert await retention_of(http, "orders") == ("5", False)
    assert (await http.post(here, json={"data": [{"name": "retention.ms", "operation": "DELETE"}]})).status_code == 204
    assert await retention_of(http, "orders") == ("604800000", True)
    assert refusal(await http.post(f"{ROOT}/topics/none/configs:alter", json={"data": [good]})) == (404, 40403)


async def test_a_group_of_the_consumer_protocol_has_its_type_its_members_and_what_they_own(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    group = ConsumerGroupDescribeResponse.DescribedGroup
    assignment = group.Member.Assignment
    owned = assignment.TopicPartitions(topic_id=UUID(int=1), topic_name="orders", partitions=[0])
    member = group.Member(
        member_id="m-1",
        client_id="app",
        client_host="/10.0.0.1",
        subscribed_topic_names=["orders"],
        assignment=assignment(topic_partitions=[owned]),
        target_assignment=assignment(topic_partitions=[]),
    )
    backend.groups["modern"] = MemoryGroup("Reconciling", [member], {}, type="consumer")
    here = f"{ROOT}/consumer-groups/modern"
    found = (await http.get(here)).json()
    assert (found["state"], found["type"], found["partition_assignor"]) == ("RECONCILING", "CONSUMER", "uniform")
    (owned_row,) = (await http.get(f"{here}/consumers/m-1/assignments")).json()["data"]
    assert (owned_row["topic_name"], owned_row["partition_id"]) == ("orders", 0)


async def test_a_group_shows_members_assignments_and_lag(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)
    member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id="m-1", client_id="app", client_host="/10.0.0.1", member_assignment=assigned(("orders", 1))
    )
    offsets = {("orders", 0): 2, ("orders", 1): 1, ("deleted", 0): 9}
    backend.groups["billing"] = MemoryGroup("PreparingRebalance", [member], offsets)
    await http.post(f"{ROOT}/topics/orders/records", json={"partition_id": 1, "value": {"data": 1}})
    await http.post(f"{ROOT}/topics/orders/records", json={"partition_id": 1, "value": {"data": 2}})
    here = f"{ROOT}/consumer-groups/billing"

    (listed,) = (await http.get(f"{ROOT}/consumer-groups")).json()["data"]
    described = (await http.get(here)).json()
    assert (listed["state"], described["state"], described["partition_assignor"]) == (
        "PREPARING_REBALANCE",
        "PREPARING_REBALANCE",
        "range",
    )
    (consumer,) = (await http.get(f"{here}/consumers")).json()["data"]
    assert (consumer["consumer_id"], consumer["client_id"]) == ("m-1", "app")
    assert (await http.get(f"{here}/consumers/m-1")).json() == consumer
    assert refusal(await http.get(f"{here}/consumers/m-2")) == (404, 404)
    (assignment,) = (await http.get(f"{here}/consumers/m-1/assignments")).json()["data"]
    assert (assignment["topic_name"], assignment["partition_id"]) == ("orders", 1)

    lags = (await http.get(f"{here}/lags")).json()["data"]
    found = [(r["partition_id"], r["consumer_id"], r["current_offset"], r["log_end_offset"], r["lag"]) for r in lags]
    assert found == [(0, "", 2, 0, 0), (1, "m-1", 1, 2, 1)]
    summary = (await http.get(f"{here}/lag-summary")).json()
    assert (summary["total_lag"], summary["max_lag"], summary["max_lag_partition_id"]) == (1, 1, 1)
    assert summary["max_lag_consumer_id"] == "m-1"
    assert summary["metadata"]["resource_name"] == "crn:///kafka=memory/consumer-group=billing/lag-summary"


async def test_a_group_without_offsets_is_behind_on_nothing(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.groups["empty"] = MemoryGroup()
    assert (await http.get(f"{ROOT}/consumer-groups/empty/lags")).json()["data"] == []
    summary = (await http.get(f"{ROOT}/consumer-groups/empty/lag-summary")).json()
    assert (summary["total_lag"], summary["max_lag"], summary["max_lag_topic_name"]) == (0, 0, None)
    assert summary["max_lag_consumer"] is summary["max_lag_partition"] is None


async def test_lag_on_a_partition_without_a_leader_is_unavailable(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.set_topic("orders", 1, leader=-1)
    backend.groups["g"] = MemoryGroup(offsets={("orders", 0): 0})
    assert refusal(await http.get(f"{ROOT}/consumer-groups/g/lags")) == (503, 50302)


async def test_groups_are_deleted_when_empty(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(member_id="m")
    backend.groups |= {"busy": MemoryGroup("Stable", [member]), "idle": MemoryGroup()}
    assert (await http.delete(f"{ROOT}/consumer-groups/idle")).status_code == 204
    assert refusal(await http.delete(f"{ROOT}/consumer-groups/busy")) == (400, 40002)
    assert refusal(await http.delete(f"{ROOT}/consumer-groups/idle")) == (404, 404)
    assert refusal(await http.get(f"{ROOT}/consumer-groups/idle")) == (404, 404)


async def test_before_the_first_group_there_is_none_and_no_coordinator(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    for expected in ((404, 404), (503, 50302)):
        backend.fail_next = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert refusal(await http.get(f"{ROOT}/consumer-groups/g")) == expected
        backend.set_topic("__consumer_offsets", 1)


@pytest.mark.parametrize("name", ["a b/ü?", "/", "50%", "%2F", "a%2fb", "#x", "a:b", "a;b,c", "+ +", "\u6f22"])
async def test_ids_of_any_characters_are_reached_by_their_links(
    http: httpx.AsyncClient, backend: MemoryBackend, name: str
) -> None:
    backend.set_topic("orders", 1)
    member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id=f"{name}-1", client_id=name, member_assignment=assigned(("orders", 0))
    )
    backend.groups[name] = MemoryGroup("Stable", [member], {("orders", 0): 0})
    (row,) = (await http.get(f"{ROOT}/consumer-groups")).json()["data"]
    group = (await http.get(row["metadata"]["self"])).json()
    assert group["consumer_group_id"] == name
    (consumer,) = (await http.get(group["consumers"]["related"])).json()["data"]
    assert (await http.get(consumer["metadata"]["self"])).json() == consumer
    assert (consumer["consumer_id"], consumer["client_id"]) == (f"{name}-1", name)
    (assignment,) = (await http.get(consumer["assignments"]["related"])).json()["data"]
    assert (await http.get(assignment["metadata"]["self"])).json() == assignment
    assert (await http.get(assignment["lag"]["related"])).json()["consumer_id"] == f"{name}-1"
    backend.groups[name].members.clear()
    assert (await http.delete(row["metadata"]["self"])).status_code == 204


async def test_the_pages_load_nothing_from_elsewhere(http: httpx.AsyncClient) -> None:
    for path in ("/", "/docs", "/static/console/main.js", "/static/docs/docs.js", "/static/page.css"):
        page = await http.get(path)
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "http:" not in page.text
        assert "https:" not in page.text


async def test_every_operation_is_in_the_openapi_document(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert "/v3/clusters/{cluster_id}/topics/{topic_name}/records" in paths
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert all(operation["description"] for operation in operations)
    assert len(operations) == 93


async def test_every_operation_of_confluents_v3_is_served(http: httpx.AsyncClient) -> None:
    """confluent_v3.tsv has those of Confluent's openapi document and the newer ones of its REST Proxy, 52 in all."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    ours = {(method.upper(), re.sub(r"{[^}]+}", "{}", path)) for path, methods in paths.items() for method in methods}
    theirs = [tuple(row.split("\t")) for row in CONFLUENT.read_text().splitlines()[1:]]
    assert [row for row in theirs if row not in ours] == []
    assert len(theirs) == 52


async def test_every_reference_in_the_openapi_document_is_resolved(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    references = re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))
    assert "#/components/schemas/RecordHeader" in references
    for reference in references:
        place = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
        assert place


async def test_a_partition_shows_its_producers_with_open_transactions_first(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.set_topic("written", 2, leader=1)
    heard = [DescribedProducer(n, 0, 5, 1000 + n, -1, -1) for n in range(1200)]
    backend.described = PartitionProducers(
        1, 0, None, pack([*heard, DescribedProducer(7000, 3, -1, 9, 4, 60), DescribedProducer(8000, 1, 0, 8, 0, 50)])
    )
    listing = (await http.get(f"{ROOT}/topics/written/partitions/1/producers")).json()
    assert (listing["kind"], len(listing["data"])) == ("TailraceProducerList", 1000)
    assert backend.asked == [("broker 1", ("written", 1))]
    first, second, third = listing["data"][:3]
    assert [(one["producer_id"], one["current_txn_start_offset"]) for one in (first, second, third)] == [
        (8000, 50),
        (7000, 60),
        (1199, None),
    ]
    assert (second["producer_epoch"], second["last_sequence"], second["coordinator_epoch"]) == (3, None, 4)
    assert (third["last_sequence"], third["last_timestamp_ms"], third["coordinator_epoch"]) == (5, 2199, None)


async def test_a_producers_link_leads_to_it(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("written", 1)
    backend.described = PartitionProducers(
        0, 0, None, pack([DescribedProducer(n, 0, 5, 1000 + n, -1, -1) for n in range(1200)])
    )
    listed = (await http.get(f"{ROOT}/topics/written/partitions/0/producers")).json()["data"][-1]
    alone = await http.get(listed["metadata"]["self"])
    assert (alone.status_code, alone.json()) == (200, listed)
    unlisted = await http.get(f"{ROOT}/topics/written/partitions/0/producers/7")
    assert (unlisted.status_code, unlisted.json()["last_timestamp_ms"]) == (200, 1007)
    assert refusal(await http.get(f"{ROOT}/topics/written/partitions/0/producers/1200")) == (404, 404)


async def test_producers_that_cannot_be_asked_for_are_said_so(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("written", 1)
    backend.set_topic("unled", 1, leader=-1)
    assert (await http.get(f"{ROOT}/topics/none/partitions/0/producers")).status_code == 404
    assert (await http.get(f"{ROOT}/topics/written/partitions/9/producers")).status_code == 404
    assert (await http.get(f"{ROOT}/topics/unled/partitions/0/producers")).status_code == 503
    backend.described = PartitionProducers(0, int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert (await http.get(f"{ROOT}/topics/written/partitions/0/producers")).status_code == 500


async def test_a_compacted_topic_shows_how_dirty_it_is(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("compacted", 1)
    row, cleaned_ms = DescribeCleanerResponse.CleanedPartition, 1_700_000_000_000
    backend.cleaned[0] = [
        row(partition_index=0, dirty_ratio=0.25, cleaned_offset=40, last_cleaned_ms=cleaned_ms, uncleanable=None),
        row(partition_index=1, dirty_ratio=1.0, cleaned_offset=0, last_cleaned_ms=-1, uncleanable="wrong CRC-32C"),
    ]
    path = f"{ROOT}/topics/compacted/partitions/-/compaction"
    listing = (await http.get(path)).json()
    assert listing["kind"] == "TailraceCompactionList"
    clean, stuck = listing["data"]
    assert (clean["partition_id"], clean["broker_id"], clean["dirty_ratio"], clean["cleaned_offset"]) == (
        0,
        0,
        0.25,
        40,
    )
    assert (clean["last_cleaned_ms"], clean["uncleanable"]) == (cleaned_ms, None)
    assert (stuck["last_cleaned_ms"], stuck["uncleanable"]) == (None, "wrong CRC-32C")
    assert (await http.get(f"{ROOT}/topics/none/partitions/-/compaction")).status_code == 404
