"""Every list of every API at its ceiling, and with one row more, in a cluster that the same sender has filled before.

At the ceiling a request is answered and nobody else is refused; above it, it is refused as limits.tsv says. The api
table, the schemas and the ceilings make the requests, so that a new API or list is among them. What is above is sent in
the last version alone: tests/unit/wire/test_limits.py decodes it in every one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from support.abuse import Client, Seen, Watch
from support.largest import Largest, lists_of
from support.raw import ConnectionClosed, build
from support.waiting import until
from tailrace.errors import ErrorCode
from tailrace.testing import Cluster
from tailrace.wire import codec
from tailrace.wire.apis import APIS, Api, ApiKey
from tailrace.wire.limits import CLOSED, CODES
from tailrace.wire.response_errors import response_errors

KEPT, DELETED = "n", "d"  # names begin so: of topics, groups and the transaction (support/largest.py)
MOST_MB = 400
MOST = 9_990  # rows; a topic is a record of its own, and one request may make 10,000
AT_ONCE = 4_000
DELETES = (ApiKey.DELETE_RECORDS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.DELETE_TOPICS)
OF_BROKERS = {(ApiKey.ADD_PARTITIONS_TO_TXN, version) for version in (4, 5)}  # refused to clients, whatever they name
WITH_LISTS = [api for api in APIS.values() if any(lists_of(api, api.max_version))]


def requests_of(api: Api) -> Iterator[Largest]:
    """Each list, in the first and the last version that has it."""
    found: dict[str, list[int]] = {}
    for version in range(api.min_version, api.max_version + 1):
        for path in lists_of(api, version):
            found.setdefault(path, []).append(version)
    for path, versions in found.items():
        for version in sorted({versions[0], versions[-1]}):
            if (api.key, version) not in OF_BROKERS:
                yield Largest(api, path, version, prefix=DELETED if api.key in DELETES else KEPT)


@pytest.fixture(scope="module")
def state(cluster: Cluster, scale: float) -> Mapping[str, Any]:
    """Topics, partitions, offsets, quotas and an open transaction: as many as a few requests can make."""
    most = max(1, int(MOST * scale))
    name = f"{KEPT}-0"
    with Client(cluster) as client:
        for prefix in (KEPT, DELETED):
            _create(client, [f"{prefix}-0"], most)
            for first in range(1, most, AT_ONCE):
                _create(client, [f"{prefix}-{number}" for number in range(first, min(first + AT_ONCE, most))], 1)
        entity = {"entity_type": "client-id"}
        ops = [{"key": "request_percentage", "value": 1e6, "remove": False}]
        entries = [{"entity": [{**entity, "entity_name": f"n-{number}"}], "ops": ops} for number in range(most)]
        client.ask(build(ApiKey.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=False), 1)
        row = {"committed_offset": 1, "committed_metadata": "m" * 100}
        for prefix in (KEPT, DELETED):
            for first in range(0, most, AT_ONCE):
                rows = [{"partition_index": index, **row} for index in range(first, min(first + AT_ONCE, most))]
                topics = [{"name": f"{prefix}-0", "partitions": rows}]
                commit = build(ApiKey.OFFSET_COMMIT, group_id=f"{prefix}-0", topics=topics)
                until(partial(_is_done, client, commit, 7), "the group's offsets")
        client.ask(build(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=[name]), 4)  # which creates its topic
        new = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout_ms": 600_000}
        init = build(ApiKey.INIT_PRODUCER_ID, transactional_id=name, **new)
        producer = until(lambda: _without_error(client.ask(init, 4)), "a producer id")
        who = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        added = [{"name": name, "partitions": list(range(most))}]
        add = {f"v3_and_below_{field}": value for field, value in (who | {"transactional_id": name}).items()}
        adds = build(ApiKey.ADD_PARTITIONS_TO_TXN, **add, v3_and_below_topics=added)
        until(partial(_is_done, client, adds, 3), "the transaction's partitions")
    return who


def _create(client: Client, names: Sequence[str], partitions: int) -> None:
    topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names]
    rows = [{**topic, "assignments": [], "configs": []} for topic in topics]
    request = build(ApiKey.CREATE_TOPICS, topics=rows, timeout_ms=60_000, validate_only=False)
    assert list(response_errors(ApiKey.CREATE_TOPICS, client.ask(request, 7))) == []


def _without_error(answer: Any) -> Any:
    return None if answer.error_code else answer


def _is_done(client: Client, request: Any, version: int) -> bool:
    return not any(response_errors(request.API_KEY, client.ask(request, version)))


@pytest.mark.parametrize("api", WITH_LISTS, ids=lambda api: ApiKey(api.key).name)
def test_a_request_at_its_ceiling_is_served_and_one_above_is_refused(
    cluster: Cluster, watch: Watch, found: list[Seen], state: Mapping[str, Any], api: Api
) -> None:
    wrong: list[tuple[str, int, object]] = []
    last = {largest.path: largest.version for largest in requests_of(api)}
    with watch.over(f"{ApiKey(api.key).name} at its ceilings") as seen:
        for largest in [replace(one, values=state) for one in requests_of(api)]:
            most, above = largest.ceiling
            served = _answered(cluster, largest, most)
            if served is None or ErrorCode.UNKNOWN_SERVER_ERROR in served:
                wrong.append((largest.name, most, served))
            if largest.version < last[largest.path]:
                continue
            refused = _answered(cluster, largest, most + 1)
            if refused != (None if above == CLOSED else {CODES[above]}):
                wrong.append((largest.name, most + 1, refused))
    found.append(seen)
    assert wrong == []
    assert (seen.died, seen.errors, seen.complaints) == ([], [], [])
    assert {role: peak for role, peak in seen.peaks_mb.items() if peak > MOST_MB} == {}


def _answered(cluster: Cluster, largest: Largest, rows: int) -> set[int] | None:
    """The error codes of the answer; None where the connection was closed."""
    with Client(cluster, timeout_s=120) as client, suppress(ConnectionClosed, ConnectionError):
        client.send_bytes(largest.with_rows(rows))
        key, version = largest.api.key, largest.version
        answer = codec.decode_response(key, version, codec.response_body(key, version, client.receive_frame()))
        return {error.code for error in response_errors(key, answer)} or {0}
    return None
