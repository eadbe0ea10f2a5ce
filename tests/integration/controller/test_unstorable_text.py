"""Text that PostgreSQL cannot hold: both databases refuse it alike, and no controller resigns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.controllers import WAIT_MS, Node, creation, live_broker
from support.postgres import Postgres
from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.wire.messages import AlterClientQuotasRequest, IncrementalAlterConfigsRequest
from tailrace_controller.decide import reports
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.projection import RowsChange
from tailrace_controller.metadata_log.stored import ContentRefused, ReplayPosition, ReportPart, StoredRecord
from tailrace_controller.store import Store

ODD = "a\0\ud800b"
LONG = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(30_000))  # no compression makes it fit


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.db"
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.url


def quota(name: str) -> AlterClientQuotasRequest:
    entry = AlterClientQuotasRequest.EntryData
    operation = entry.OpData(key="producer_byte_rate", value=1000.0, remove=False)
    entity = entry.EntityData(entity_type="client-id", entity_name=name)
    return AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=[operation])], validate_only=False)


def retention(value: str) -> IncrementalAlterConfigsRequest:
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = row.AlterableConfig(name="retention.ms", config_operation=0, value=value)
    one = row(resource_type=ConfigResource.TOPIC, resource_name="t", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[one], validate_only=False)


async def test_a_request_that_cannot_be_stored_deposes_nobody(url: str, tmp_path: Path) -> None:
    node = Node(tmp_path, settings={"metadata.url": url})
    async with node.controller() as role, node.follower() as follower, await node.listen("broker.sock"):
        await live_broker(node, follower)

        async def ask(request: Any) -> Any:
            return await follower.ask_controller(request, timeout_ms=WAIT_MS)

        assert (await ask(creation("t"))).topics[0].error_code == 0
        for name in ("a\0b", LONG[:10_000], "x" * 30_000):
            assert (await ask(quota(name))).entries[0].error_code == ErrorCode.INVALID_REQUEST
        assert (await ask(retention("5\0"))).responses[0].error_code == ErrorCode.INVALID_CONFIG
        longest = LONG[:170]  # of 510 bytes
        assert (await ask(quota(longest))).entries[0].error_code == 0
        assert (role.controller.epoch, role.controller.resignations) == (1, 0)


def test_content_that_the_database_refuses_leaves_the_log_as_it_was(url: str) -> None:
    store = Store(url, lambda: 0.0, lambda sentence: None)
    assert store.take(Candidate(0), None, ReplayPosition()) is not None
    record = StoredRecord(0, 0, 1, 5, "NoOpRecord", b"\x01\x14\x00\x00")
    odd = RowsChange("config_rows", {"resource_type": "broker", "resource_name": "0", "name": "k"}, {"value": "\ud800"})
    with pytest.raises(ContentRefused):
        store.append(1, [record], [odd])
    store.append(1, [record], [])
    store.close()


def test_a_report_with_odd_and_long_names_is_stored(url: str) -> None:
    offset = {"group_id": ODD, "topic": "t", "partition": 0, "committed_offset": 3, "metadata": ODD}
    told: dict[str, list[dict[str, Any]]] = {
        "groups": [{"group_id": ODD, "state": "Empty"}, {"group_id": LONG, "state": "Empty"}],
        "group_offsets": [offset, {**offset, "group_id": LONG, "topic": "t" * 249}],
        "quota_usage": [
            {"entity": f"client-id={ODD}", "name": "k", "value": 1, "usage": 1, "throttle_time_ms": 0, "throttled": 0}
        ],
    }
    store = Store(url, lambda: 0.0, lambda sentence: None)
    assert store.take(Candidate(0), None, ReplayPosition()) is not None
    for kind, rows in told.items():
        parsed = reports.parse(kind, json.dumps(rows).encode(), 5)
        assert len(parsed) == len(rows)
        store.report(1, 0, ReportPart(kind, parsed, 5, last=True))
    store.close()
