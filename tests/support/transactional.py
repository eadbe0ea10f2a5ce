"""One transactional id on the wire, asked in the versions that a test names."""

from __future__ import annotations

import time
from typing import Any

from support.raw import Raw, build
from support.stage import Topic, unique
from support.targets import Target
from support.waiting import until
from tailrace.errors import ErrorCode
from tailrace.records.record import Record
from tailrace.records.record import build as build_batch

INIT, ADD, ADD_OFFSETS, END, COMMIT_OFFSETS, DESCRIBE, LIST = 22, 24, 25, 26, 28, 65, 66
_WAIT = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class Transactional:
    """A producer with a transactional id; every call answers the error code."""

    def __init__(self, target: Target, name: str | None = None) -> None:
        self.target = target
        self.name = name or unique("transaction")
        self.node = until(self._find, f"coordinator of {self.name}")[0]
        self.connection: Raw = target.raw(self.node)
        self.producer_id = self.producer_epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def _find(self) -> tuple[int] | None:
        answer = self.target.ask(build(10, key=self.name, key_type=1), 3)
        return None if answer.error_code else (answer.node_id,)

    def init(self, version: int = 4, *, timeout_ms: int = 60_000, known: tuple[int, int] = (-1, -1)) -> ErrorCode:
        """Takes the id and epoch of the answer; waits while the coordinator loads."""

        def ask() -> Any:
            request = build(
                INIT,
                transactional_id=self.name,
                transaction_timeout_ms=timeout_ms,
                producer_id=known[0],
                producer_epoch=known[1],
            )
            answer = self.connection.ask(request, version)
            return None if answer.error_code in _WAIT else answer

        answer = until(ask, "the coordinator")
        if not answer.error_code:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        return ErrorCode(answer.error_code)

    def again(self, version: int = 4, **options: Any) -> ErrorCode:
        """init, again while an earlier transaction is being ended."""

        def ask() -> tuple[ErrorCode] | None:
            code = self.init(version, **options)
            return None if code is ErrorCode.CONCURRENT_TRANSACTIONS else (code,)

        return until(ask, "the end of the transaction")[0]

    @property
    def known(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    def _fields(self, known: tuple[int, int] | None) -> dict[str, Any]:
        producer_id, epoch = known or self.known
        return {"transactional_id": self.name, "producer_id": producer_id, "producer_epoch": epoch}

    def add(
        self, topic: Topic, *partitions: int, version: int = 3, known: tuple[int, int] | None = None
    ) -> list[ErrorCode]:
        fields = {f"v3_and_below_{name}": value for name, value in self._fields(known).items()}
        topics = [{"name": topic.name, "partitions": list(partitions)}]
        answer = self.connection.ask(build(ADD, **fields, v3_and_below_topics=topics), version)
        rows = answer.results_by_topic_v3_and_below[0].results_by_partition
        return [ErrorCode(row.partition_error_code) for row in sorted(rows, key=lambda row: row.partition_index)]

    def begun(self, topic: Topic, *partitions: int, **options: Any) -> list[ErrorCode]:
        """add, again while an earlier transaction is being ended."""

        def ask() -> list[ErrorCode] | None:
            codes = self.add(topic, *partitions, **options)
            return None if ErrorCode.CONCURRENT_TRANSACTIONS in codes else codes

        return until(ask, "the end of the transaction")

    def add_offsets(self, group: str, *, version: int = 3, known: tuple[int, int] | None = None) -> ErrorCode:
        return ErrorCode(
            self.connection.ask(build(ADD_OFFSETS, **self._fields(known), group_id=group), version).error_code
        )

    def end(self, committed: bool, *, version: int = 3, known: tuple[int, int] | None = None) -> ErrorCode:
        """Takes the epoch of the answer from version 5 on."""
        answer = self.connection.ask(build(END, **self._fields(known), committed=committed), version)
        if version >= 5 and not answer.error_code:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        return ErrorCode(answer.error_code)

    def ended(self, committed: bool, **options: Any) -> ErrorCode:
        """end, then again as one that lost the answer, until its markers are written."""

        def ask() -> tuple[ErrorCode] | None:
            code = self.end(committed, **options)
            return None if code is ErrorCode.CONCURRENT_TRANSACTIONS else (code,)

        return until(ask, "the end of the transaction")[0]

    def state(self) -> Any:
        """The row of DescribeTransactions."""
        return self.connection.ask(build(DESCRIBE, transactional_ids=[self.name]), 0).transaction_states[0]

    def wait_for(self, state: str) -> None:
        until(lambda: self.state().transaction_state == state or None, state)

    def produce(
        self,
        topic: Topic,
        value: str,
        *,
        partition: int = 0,
        version: int = 11,
        known: tuple[int, int] | None = None,
        name: str | None = "",
        ago_ms: int = 0,
    ) -> ErrorCode:
        """Appends one record within the transaction; name None: a request without a transactional id."""
        producer_id, epoch = known or self.known
        place = (topic.name, partition)
        sequence = self.sequences.get(place, 0)
        now_ms = int(time.time() * 1000)  # a record of 1970 rolls the log
        record = Record(timestamp=now_ms - ago_ms, key=None, value=value.encode())
        batch = build_batch(
            [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        rows = [{"name": topic.name, "partition_data": [{"index": partition, "records": bytes(batch)}]}]
        transactional_id = self.name if name == "" else name
        request = build(0, transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=rows)
        answer = self.target.ask(request, version, topic.leaders[partition])
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self.sequences[place] = sequence + 1
        return code

    def close(self) -> None:
        self.connection.close()
