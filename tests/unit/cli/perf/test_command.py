"""`tailrace perf` over a cluster of messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes
from tailrace.cli.perf import end_to_end, producing
from tailrace.errors import ErrorCode
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey


class _Sent:
    def add_callback(self, _call: object) -> None:
        pass

    def add_errback(self, _call: object) -> None:
        pass


class _Producer:
    def send(self, _topic: str, *, value: bytes) -> _Sent:
        return _Sent()


@contextmanager
def producer(_bootstrap: str | None, /, **_options: object) -> Iterator[_Producer]:
    yield _Producer()


def test_a_rate_that_takes_longer_than_the_timeout_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "Client", RefusingCluster().client)
    monkeypatch.setattr(producing, "kafka_producer", producer)
    words = ["perf", "produce", "--topic", "orders", "--throughput", "0.01", "--timeout", "0.5"]
    done = CliRunner().invoke(app, [*words, "--bootstrap", "127.0.0.1:9"])
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "not done within 0.5 s" in done.output


class _Unwritable(RefusingCluster):
    """Refuses what is written; another producer's records are there."""

    def answer(self, message: Any) -> Any:
        if message.API_KEY != ApiKey.PRODUCE:
            return super().answer(message)
        topic = m.ProduceResponse.TopicProduceResponse
        row = topic.PartitionProduceResponse(index=0, error_code=ErrorCode.NOT_ENOUGH_REPLICAS, base_offset=-1)
        return m.ProduceResponse(responses=[topic(name="orders", partition_responses=[row])])


def test_another_ones_record_is_not_the_one_that_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Unwritable()
    monkeypatch.setattr(nodes, "Client", cluster.client)
    monkeypatch.setattr(end_to_end, "Client", cluster.client)
    words = ["perf", "end-to-end", "--topic", "orders", "--num-records", "1", "--bootstrap", "127.0.0.1:9"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "NOT_ENOUGH_REPLICAS" in done.output
