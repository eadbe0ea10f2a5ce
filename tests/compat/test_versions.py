"""Every version of every API: the requests of version_table.py must get Kafka's answers, field by field.

Kafka's answers are kept in golden/versions.json, so that they are compared where there is no Java too; where there is,
the run against Kafka shows that the file is still true. `--targets kafka --rewrite-golden` writes it anew.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from compat.differences import DIFFERENT_CONFIGS
from compat.shapes import differing, shape
from compat.version_table import ROWS, Stage, settled
from support.raw import REQUESTS, Raw, build, framed, request_header
from support.stage import metadata_request
from support.targets import Target
from tailrace.wire.apis import APIS
from tailrace_gateway.handlers.api_versions import ADVERTISED_FROM

LIST_GROUPS, CREATE_TOPICS, DESCRIBE_QUORUM = 16, 19, 55
TIMES = ("last_fetch_timestamp", "last_caught_up_timestamp")
GOLDEN = Path(__file__).with_name("golden") / "versions.json"
# What Kafka advertises for librdkafka's sake and closes the connection on (compatibility.md).
ADVERTISED_BUT_CLOSED = {0: (0, 1, 2)}
FOR_BROKERS_ALONE = {24: (4, 5)}  # at Kafka without an authorizer clients are answered, too
CLUSTER_AUTHORIZATION_FAILED = 31
# By the reason; differences.py has the same reasons.
NOT_SERVED = {
    "there are no delegation tokens": (38, 39, 40, 41),
    "there are no share groups": (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
    "there are no streams groups": (88, 89, 93),
    "controllers are members by their settings": (80, 81, 94),
}


def name_of(key: int) -> str:
    return str(REQUESTS[key].__name__).removesuffix("Request")


def golden() -> dict[str, dict[str, Any]]:
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


def one_line_per_answer(found: dict[str, dict[str, Any]]) -> str:
    """The golden file's text: a difference is one line of a diff."""
    apis = []
    for api, versions in sorted(found.items()):
        rows = [f'  "{version}": [\n{lines(shapes)}\n  ]' for version, shapes in versions.items()]
        apis.append(f' "{api}": {{\n' + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(apis) + "\n}\n"


def lines(shapes: list[Any]) -> str:
    return ",\n".join("   " + json.dumps(item, sort_keys=True) for item in shapes)


def plain(stage: Stage, key: int, answer: Any) -> Any:
    """The answer as plain values, without the groups of other scripts."""
    values = answer.to_dict(json=False)
    if key == LIST_GROUPS:
        values["groups"] = [row for row in values["groups"] if row["group_id"] == stage.group]
    if key == DESCRIBE_QUORUM:
        without_what_is_its_own(values)
    for topic in values["topics"] if key == CREATE_TOPICS else []:
        named = topic.get("configs") or []
        topic["configs"] = [row for row in named if row["name"] not in DIFFERENT_CONFIGS]
    return values


def without_what_is_its_own(quorum: Any) -> None:
    """How long the log is, and when that was; one Kafka node is both controller and broker, and listens on TCP."""
    for partition in (row for topic in quorum["topics"] for row in topic["partitions"]):
        partition["observers"] = []
        for count in (partition, *partition["current_voters"]):
            for name in count.keys() & {"high_watermark", "log_end_offset", *TIMES}:
                count[name] = min(count[name], 1)
    for node in quorum.get("nodes") or []:
        node["listeners"] = []


def answers(stage: Stage, key: int) -> dict[str, Any]:
    low, high = stage.target.served()[key]
    found = {}
    for version in range(low, min(high, REQUESTS[key].max_version) + 1):
        if version in ADVERTISED_BUT_CLOSED.get(key, ()):
            continue
        asks = ROWS[key](stage, version)
        if version in FOR_BROKERS_ALONE.get(key, ()) and not stage.target.is_kafka:
            codes = {plain(stage, key, settled(stage, ask, version))["error_code"] for ask in asks}
            assert codes == {CLUSTER_AUTHORIZATION_FAILED}
            continue
        found[str(version)] = [shape(plain(stage, key, settled(stage, ask, version))) for ask in asks]
    return found


@pytest.mark.capability("every served version of every API")
@pytest.mark.only("tailrace3", "kafka")  # each role answers as it does in a cluster of one broker
@pytest.mark.parametrize("key", ROWS, ids=name_of)
def test_every_version_of_an_api_answers_as_kafka_does(stage: Stage, key: int, pytestconfig: pytest.Config) -> None:
    found = answers(stage, key)
    expected = golden()
    if pytestconfig.getoption("--rewrite-golden"):
        assert stage.target.is_kafka, "only Kafka's answers are golden"
        expected[name_of(key)] = found
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(one_line_per_answer(expected))
    wrong = [
        f"v{version}, request {number}: {line}"
        for version, shapes in found.items()
        for number, (got, want) in enumerate(zip(shapes, expected[name_of(key)][version], strict=True))
        for line in differing(got, want)
    ]
    assert not wrong, "\n".join([f"{name_of(key)} differs from Kafka", *wrong[:40]])


@pytest.mark.capability("ApiVersions names only what works")
def test_every_advertised_version_is_one_that_a_script_shows(target: Target) -> None:
    served = target.served()
    if target.is_kafka:
        assert set(ROWS) <= set(served)
        return
    assert set(served) <= set(ROWS)
    for key, (low, high) in served.items():
        assert {str(v) for v in range(low, high + 1)} - {"0", "1", "2"} <= set(golden()[name_of(key)]), name_of(key)


@pytest.mark.only("kafka")
def test_every_version_that_kafka_advertises_is_served(target: Target) -> None:
    kafkas = target.served()
    ours = {key: (ADVERTISED_FROM.get(key, api.min_version), api.max_version) for key, api in APIS.items()}
    assert {key: served for key, served in kafkas.items() if key in ours} == ours
    assert kafkas.keys() - ours.keys() == {key for keys in NOT_SERVED.values() for key in keys}


@pytest.mark.capability("ApiVersions of an unknown version: v0 body, error 35")
def test_an_unknown_version_of_api_versions_is_answered_with_a_v0_body(target: Target) -> None:
    with target.raw() as connection:
        connection.send_bytes(framed(request_header(18, 99, 7, "raw", flexible=True) + b"\2x\2y\0"))
        answer = connection.receive(18, 0, 7)
        assert (answer.error_code, [row.api_key for row in answer.api_keys]) == (35, [18])
        low, high = target.served()[18]
        assert [(row.min_version, row.max_version) for row in answer.api_keys] == [(low, high)]
        assert connection.ask(build(18, client_software_name="raw", client_software_version="1"), 3).error_code == 0


@pytest.mark.capability("a version that is not served closes the connection")
@pytest.mark.parametrize(
    ("key", "version"), [(2, 0), (0, 2), (1, 3), (8, 0), (3, 99), (19, 1), (32, 99), (11, 99), (999, 0), (-1, 0)]
)
def test_a_version_that_is_not_served_closes_the_connection(target: Target, key: int, version: int) -> None:
    with target.raw() as connection:
        assert answers_at_all(connection)
        connection.send_bytes(framed(request_header(key, version, 9, "raw", flexible=False) + bytes(40)))
        assert connection.is_closed_by_server()
    assert target.ask(metadata_request("x"), 5).brokers


def answers_at_all(connection: Raw) -> bool:
    return bool(connection.ask(metadata_request("x"), 5).brokers)
