"""What a request names twice: a rule for every list of every API, and hundreds of repeats decoded by it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.library import struct_of
from tailrace.wire.messages import DescribeConfigsRequest, ListOffsetsRequest, OffsetFetchRequest
from tailrace.wire.repeats import RULES, KeptRows, Once, lists_of

MANY = 300
ONCE = [(key, path) for key, rules in RULES.items() for path, rule in rules.items() if isinstance(rule, Once)]


def test_every_list_of_every_api_has_a_rule() -> None:
    """A new API fails here until somebody has said what becomes of what it names twice."""
    for key, api in INTERNAL_APIS.items():
        assert set(lists_of(struct_of(api.request))) == set(RULES[ApiKey(key)]), ApiKey(key).name
    assert all(rule.why for rules in RULES.values() for rule in rules.values() if isinstance(rule, KeptRows))


def over_the_wire(request: Any, version: int) -> Any:
    frame = memoryview(codec.encode_request(request, version, 1, "client"))[4:]
    return codec.decode_request(request.API_KEY, version, frame[parse_request_header(frame).body_offset :])


def _value(number: int, kind: str) -> Any:
    return {"string": f"name-{number}", "uuid": UUID(int=number + 1)}.get(kind, number % 100)


def _asking(key: int, path: str, version: int, rule: Once, numbers: list[int]) -> Any:
    """A request with one row for each number in the list at path; equal numbers make equal rows."""
    request: Any = INTERNAL_APIS[key].request()
    owner: Any = request
    struct: Any = struct_of(INTERNAL_APIS[key].request)
    *outer, name = path.split(".")
    for part in outer:
        row = struct.fields[part].array_of.data_class()
        setattr(owner, part, [row])
        owner, struct = row, struct.fields[part].array_of
    kind = struct.fields[name].array_of
    rows = []
    for number in numbers:
        if not rule.by:
            rows.append(_value(number, kind.type_str))
            continue
        row = kind.data_class()
        for by in rule.by:
            if kind.fields[by].for_version_q(version):
                setattr(row, by, _value(number, kind.fields[by].type_str))
        rows.append(row)
    setattr(owner, name, rows)
    return request


def _rows(request: Any, path: str) -> list[Any]:
    *outer, name = path.split(".")
    for part in outer:
        (request,) = getattr(request, part)
    return list(getattr(request, name))


def _versions(key: int, path: str) -> list[int]:
    api, found = INTERNAL_APIS[key], []
    for version in range(api.min_version, api.max_version + 1):
        struct: Any = struct_of(api.request)
        there = True
        for part in path.split("."):
            there = there and struct.fields[part].for_version_q(version)
            struct = struct.fields[part].array_of
        if there:
            found.append(version)
    return [found[0], found[-1]]


@pytest.mark.parametrize(("key", "path"), ONCE, ids=lambda value: getattr(value, "name", value))
def test_a_row_that_is_repeated_hundreds_of_times_is_one_row(key: ApiKey, path: str) -> None:
    rule = RULES[key][path]
    assert isinstance(rule, Once)
    distinct = 100 if path.endswith("resource_types") else MANY  # of one byte each
    for version in _versions(key, path):
        same = over_the_wire(_asking(key, path, version, rule, [7] * MANY), version)
        assert len(_rows(same, path)) == 1, version
        others = over_the_wire(_asking(key, path, version, rule, list(range(distinct))), version)
        assert len(_rows(others, path)) == len({_identity(row, rule) for row in _rows(others, path)}) >= 100, version


def _identity(row: Any, rule: Once) -> Any:
    return tuple(getattr(row, name) for name in rule.by) if rule.by else row


@pytest.mark.parametrize(("key", "path"), ONCE, ids=lambda value: getattr(value, "name", value))
def test_hundreds_of_rows_without_a_name_are_one_row(key: ApiKey, path: str) -> None:
    rule = RULES[key][path]
    assert isinstance(rule, Once)
    for version in _versions(key, path):
        request = _asking(key, path, version, rule, [0] * MANY)
        for row in _rows(request, path):
            for by in rule.by:
                if getattr(row, by, None) == "name-0":
                    setattr(row, by, "")
        assert len(_rows(over_the_wire(request, version), path)) == 1, version


def test_the_partitions_of_a_topic_that_is_named_twice_are_joined() -> None:
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    asked = [topic(name="t", partitions=[partition(partition_index=n, timestamp=-1)]) for n in (0, 1, 0)]
    request = over_the_wire(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=asked), 5)
    (only,) = request.topics
    assert [row.partition_index for row in only.partitions] == [0, 1, 0]  # which ListOffsets refuses by partition


def test_who_asks_for_all_is_answered_with_all() -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics
    some = [topic(name="t", partition_indexes=[3])]
    for lists in ((some, None), (None, some)):
        groups = [group(group_id="g", topics=one) for one in lists]
        request = over_the_wire(OffsetFetchRequest(groups=groups, require_stable=False), 8)
        assert [one.topics for one in request.groups] == [None]
    resource = DescribeConfigsRequest.DescribeConfigsResource
    some_and_all: list[tuple[Any, Any]] = [(["retention.ms"], []), ([], ["retention.ms"]), (["retention.ms"], None)]
    for keys in some_and_all:
        asked = [resource(resource_type=2, resource_name="t", configuration_keys=one) for one in keys]
        request = over_the_wire(DescribeConfigsRequest(resources=asked), 4)
        assert [bool(one.configuration_keys) for one in request.resources] == [False]
