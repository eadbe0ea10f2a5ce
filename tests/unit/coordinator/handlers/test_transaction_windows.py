"""Every transactional request in every window between an answer and what follows it, beside Apache Kafka's answers.

`testdata/kafka_4_4_0_windows.json` is what Apache Kafka 4.4.0 answered; a frozen broker kept the markers "under way".
Epochs are counted from the one that the transaction was begun with.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.coordinator import settle
from support.transaction_cluster import Cluster, whole
from tailrace.errors import ErrorCode
from tailrace.state import ProducerIdAndEpoch

KAFKA: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "testdata" / "kafka_4_4_0_windows.json").read_text()
)
# Here a commit of the first epoch lost against an abort: PRODUCER_FENCED since KAFKA-20785, INVALID_TXN_STATE before.
ABORTED = (
    "v2 abort complete",
    "v2 abort of nothing",
    *(f"v{v} {by} complete" for v in (2, 0) for by in ("fence", "timeout")),
)
HELD = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100_000  # markers that no partition takes
TIMEOUTS_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms


class Producer:
    """A transactional id in one of the windows; epochs are relative to `first`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.first = ProducerIdAndEpoch(-1, -1)

    async def begin(self, version: int | None, timeout_ms: int = 60_000) -> None:
        """Takes an epoch; version: the client's transaction version, None to begin no transaction."""
        answer = await self.cluster.init(transaction_timeout_ms=timeout_ms)
        self.first = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        if version is not None:
            add = self.cluster.add_for_leader if version else self.cluster.add
            assert await add(self.first) == ErrorCode.NONE

    def later(self, epochs: int) -> ProducerIdAndEpoch:
        return self.first._replace(producer_epoch=self.first.producer_epoch + epochs)

    async def go_to(self, window: str) -> None:
        """From a new transactional id into the window."""
        version = {"v2": 2, "v0": 0}.get(window[:2])
        if window == "v2 abort of nothing":
            await self.begin(None)
            assert (await self.cluster.end(self.first, False, version=5)).error_code == ErrorCode.NONE
            return
        await self.begin(version, timeout_ms=100 if "timeout" in window else 60_000)
        if window == "init again":
            known = self.first._asdict()
            assert (await self.cluster.init(**known)).error_code == ErrorCode.NONE
        self.cluster.codes = HELD.copy() if window.endswith("under way") else []
        if "commit" in window or "abort" in window:
            end = await self.cluster.end(self.first, "commit" in window, version=5 if version else 4)
            assert end.error_code == ErrorCode.NONE
        elif "fence" in window:
            request = self.cluster.init() if window.endswith("under way") else self._fenced()
            assert (await request).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        elif "timeout" in window:
            self.cluster.stage.clock.advance(TIMEOUTS_MS)
        await settle()

    async def _fenced(self) -> Any:
        """The first answer of two: the handler asks again by itself once the markers are written."""
        self.cluster.codes = HELD.copy()
        answer = await self.cluster.init()
        self.cluster.codes = []
        self.cluster.stage.clock.advance(1_000)
        await settle()
        return answer

    async def ask(self, request: str) -> str:
        """The answer as the table of Kafka's answers names it."""
        if request == "init new":
            return self._epoch(await self.cluster.init())
        name, _, epochs = request.rpartition(" +")
        producer = self.later(int(epochs))
        codes: dict[str, Callable[[], Awaitable[int]]] = {
            "add v3": lambda: self.cluster.add(producer),
            "add v5": lambda: self.cluster.add_for_leader(producer),
            "verify v5": lambda: self.cluster.add_for_leader(producer, verify_only=True),
            "add offsets v4": lambda: self.cluster.add_offsets(producer, version=4),
            "commit offsets v4": lambda: self.cluster.commit(producer, 1, version=4),
            "commit offsets v5": lambda: self.cluster.commit(producer, 1, version=5),
        }
        if name in codes:
            return ErrorCode(await codes[name]()).name
        if name == "init":
            return self._epoch(await self.cluster.init(**producer._asdict()))
        _, version, outcome = name.split()
        answer = await self.cluster.end(producer, outcome == "commit", version=int(version[1:]))
        return ErrorCode(answer.error_code).name if version == "v4" else self._epoch(answer)

    def _epoch(self, answer: Any) -> str:
        """The code; of a success that gives an epoch, how many it is after the first."""
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        assert answer.producer_id == self.first.producer_id
        return f"NONE +{answer.producer_epoch - self.first.producer_epoch}"


def by_request(window: str) -> dict[str, str]:
    """Apache Kafka's answers, and what replaces some of them."""
    answers = {request: answer for answer, requests in KAFKA[window].items() for request in requests}
    if window.endswith("ongoing"):  # the handler waits until what it fences is aborted, and asks again by itself
        fenced = by_request(f"{window[:2]} fence complete")
        answers |= {request: answer for request, answer in fenced.items() if request.startswith("init")}
    if window in ABORTED:
        answers["end v5 commit +0"] = "PRODUCER_FENCED"
    return answers


@pytest.mark.parametrize("is_reloaded", [False, True], ids=["live", "reloaded"])
@pytest.mark.parametrize("window", KAFKA)
async def test_each_request_is_answered_as_by_kafka(window: str, is_reloaded: bool) -> None:
    """Reloaded: by the next owner of both shards, which knows what is in the log."""
    expected = by_request(window)
    asyncio.get_running_loop().set_debug(False)  # which takes four fifths of the time
    cluster = await Cluster().start()
    found = {}
    for number, request in enumerate(expected, 2):
        cluster.transactional_id, cluster.codes = request, []
        producer = Producer(cluster)
        await producer.go_to(window)
        if is_reloaded:
            await cluster.stage.become(whole(transaction_epoch=3 + number, offsets_epoch=number))
        found[request] = await producer.ask(request)
    assert found == expected
