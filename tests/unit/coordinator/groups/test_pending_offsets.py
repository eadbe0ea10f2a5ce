"""Offsets of transactions: held against a model that keeps the whole log and looks at it anew each time."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tailrace.coordination.group_records import OffsetCommitted, OffsetRemoved
from tailrace.state import EndOfTransaction, ProducerIdAndEpoch
from tailrace_coordinator.groups.offsets import Offsets


class Step(NamedTuple):
    """kind: write, remove, commit or abort; of producer -1: outside of any transaction."""

    kind: str
    producer_id: int
    partition: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["write", "write", "write", "remove", "commit", "abort"]),
        st.integers(-1, 2),
        st.integers(0, 2),
    ),
    max_size=30,
)


def applied(steps: list[Step]) -> Offsets:
    offsets = Offsets()
    for number, (kind, producer_id, partition) in enumerate(steps):
        committed = OffsetCommitted("g", "t", partition, number)
        if kind == "remove":
            offsets.apply(OffsetRemoved("g", "t", partition))
        elif kind != "write":
            offsets.end(EndOfTransaction(ProducerIdAndEpoch(producer_id, 0), kind == "commit", 0))
        elif producer_id < 0:
            offsets.apply(committed)
        else:
            offsets.pending.hold(ProducerIdAndEpoch(producer_id, 0), committed)
    return offsets


def expected(steps: list[Step]) -> tuple[dict[int, int], set[int]]:
    """What is committed of each partition, and what is pending, from the whole log: the latest record that counts."""
    committed: dict[int, int] = {}
    held: dict[int, dict[int, int]] = {}
    for number, (kind, producer_id, partition) in enumerate(steps):
        if kind == "remove":
            committed.pop(partition, None)
            for pending in held.values():
                pending.pop(partition, None)
        elif kind != "write":
            for which, offset in held.pop(producer_id, {}).items():
                if kind == "commit" and committed.get(which, -1) < offset:
                    committed[which] = offset
        elif producer_id < 0:
            committed[partition] = number
        else:
            held.setdefault(producer_id, {})[partition] = number
    return committed, {partition for pending in held.values() for partition in pending}


@given(STEPS)
def test_the_latest_record_that_counts_is_the_offset(steps: list[Step]) -> None:
    offsets = applied(steps)
    committed, pending = expected(steps)
    assert {index: one.offset for (_, index), one in offsets.of_group("g").items()} == committed
    assert {index for _, index in offsets.pending.of_group("g")} == pending
    assert len({(one.topic, one.partition) for one in offsets.pending}) == len(pending)


@given(STEPS)
def test_nothing_is_kept_once_every_transaction_has_ended(steps: list[Step]) -> None:
    offsets = applied([*steps, *(Step("abort", producer_id, 0) for producer_id in range(3))])
    assert len(offsets.pending) == 0
    assert list(offsets.pending.of_group("g")) == []
