"""`tailrace group lag`: records and seconds, once and with --watch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey

NOW_MS = 3_500  # the next record is of 1,000


class Clock(ManualClock):
    """Pauses take no time of the test's; the last one is ended by Ctrl-C."""

    def __init__(self) -> None:
        super().__init__(NOW_MS)
        self.pauses = 0

    async def sleep(self, delay_ms: float) -> None:
        self.pauses += 1
        if self.pauses == 3:
            raise KeyboardInterrupt
        self.advance(delay_ms)


class Growing(RefusingCluster):
    """Each look finds ten more records."""

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if isinstance(answer, m.ListOffsetsResponse):
            for part in answer.topics[0].partitions:
                part.offset += 10 * (self.asked.count(ApiKey.LIST_OFFSETS) - 1)
        return answer


def typed(cluster: RefusingCluster, words: list[str], monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr(nodes, "Client", cluster.client)
    monkeypatch.setattr(nodes, "SystemClock", Clock)
    return CliRunner().invoke(app, ["group", "lag", "readers", *words], env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


def test_a_lag_is_shown_in_records_and_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(RefusingCluster(), [], monkeypatch)
    assert [line.split() for line in done.output.splitlines()] == [
        ["readers:", "4", "records", "behind,", "the", "oldest", "is", "2.5", "s", "old"],
        ["topic", "partition", "committed", "end", "offset", "lag", "seconds", "member"],
        ["orders", "0", "3", "5", "2", "2.5", "-"],
        ["orders", "1", "3", "5", "2", "2.5", "-"],
    ]


def test_programs_get_the_names_of_the_rest_api(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(typed(RefusingCluster(), ["--json"], monkeypatch).output)
    assert (said["consumer_group_id"], said["total_lag"], said["max_lag_seconds"]) == ("readers", 4, 2.5)
    assert said["partitions"][1] == {
        "topic_name": "orders",
        "partition_id": 1,
        "consumer_id": None,
        "client_id": None,
        "current_offset": 3,
        "log_end_offset": 5,
        "lag": 2,
        "lag_seconds": 2.5,
        "next_timestamp_ms": 1_000,
        "lag_trend": None,
    }


def test_a_refused_fetch_leaves_the_records_and_takes_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(RefusingCluster):
        def answer(self, message: Any) -> Any:
            answer = super().answer(message)
            if isinstance(answer, m.FetchResponse):
                for part in answer.responses[0].partitions:
                    part.error_code, part.records = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
            return answer

    done = typed(Refusing(), [], monkeypatch)
    assert done.output.splitlines()[0] == "readers: 4 records behind"
    assert done.output.splitlines()[2].split() == ["orders", "0", "3", "5", "2", "-", "-"]


def test_watching_looks_again_and_says_how_fast_the_lag_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Growing(), ["--watch", "--interval", "5"], monkeypatch)
    rows = [line.split() for line in done.output.splitlines() if line.startswith("orders  0")]
    assert [row[4:7] for row in rows] == [["2", "2.5", "-"], ["12", "7.5", "+2.0"], ["22", "12.5", "+2.0"]]
    lines = typed(Growing(), ["--watch", "--json"], monkeypatch).output.splitlines()
    assert [json.loads(line)["partitions"][0]["lag_trend"] for line in lines] == [None, 5.0, 5.0]


@pytest.mark.parametrize(("words", "level"), [([], 0), (["--read-committed"], 1)])
def test_the_end_is_the_last_stable_offset_where_that_is_asked_for(
    words: list[str], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Levels(RefusingCluster):
        def answer(self, message: Any) -> Any:
            if isinstance(message, m.ListOffsetsRequest):
                assert message.isolation_level == level
            return super().answer(message)

    assert typed(Levels(), words, monkeypatch).exit_code == 0
