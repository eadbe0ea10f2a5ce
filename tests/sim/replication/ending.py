"""What must be true when all faults are over: replicas converge, and what was acknowledged is there, once, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sim.replication.checker import TOPIC, Violation
from sim.replication.clients import Producer
from tailrace.log.log import Log
from tailrace.records.batch import Bytes, read_header, split
from tailrace.records.record import iterate

if TYPE_CHECKING:
    from sim.replication.simulation import Cluster


def unsettled(cluster: Cluster) -> str | None:
    """What is still to come; None once everything is at rest."""
    topic = cluster.database.image.topic(TOPIC)
    if topic is None:
        return "there is no topic"
    for index, state in enumerate(topic.partitions):
        if state.leader < 0:
            return f"{TOPIC}-{index} has no leader: {state}"
        if set(state.isr) != set(state.replicas) or state.adding_replicas or state.removing_replicas:
            return f"the ISR of {TOPIC}-{index} is not full: {state}"
        ends = set()
        for broker_id in state.replicas:
            replica = cluster.brokers[broker_id].partitions.get(index)
            if replica is None:
                return f"broker {broker_id} does not know {TOPIC}-{index}"
            ends |= {replica.log.log_end_offset, replica.high_watermark}
        if len(ends) > 1:
            return f"log ends and high watermarks of {TOPIC}-{index} differ: {sorted(ends)}"
        for consumer in cluster.consumers:
            if consumer.partition == index and consumer.position < min(ends):
                return f"{consumer.name} has read {consumer.position} of {min(ends)} in {TOPIC}-{index}"
    for producer in cluster.producers:
        if not producer.done:
            return f"{producer.name} has {len(producer.batches) - len(producer.acknowledged)} batches unacknowledged"
    for idempotent in cluster.idempotent:
        if not idempotent.done and idempotent.fatal is None:
            return f"{idempotent.name} waits for acknowledgements: {idempotent.lanes}"
    return None


def check_end(cluster: Cluster) -> None:
    """Reads everything back."""
    topic = cluster.database.image.topics[TOPIC]
    for index, state in enumerate(topic.partitions):
        contents = {}
        starts = max(cluster.brokers[broker_id].partitions[index].log.log_start_offset for broker_id in state.replicas)
        for broker_id in state.replicas:
            log = cluster.brokers[broker_id].partitions[index].log
            contents[broker_id] = _content(log, starts)
        if len(set(contents.values())) > 1:
            raise Violation(f"the replicas of {TOPIC}-{index} differ")
        ledger = cluster.checker.ledgers[index]
        later = [batch for batch in split(contents[state.leader]) if read_header(batch).base_offset >= ledger.archived]
        values = _values([*ledger.archive, *later])
        for producer in cluster.producers:
            if producer.partition == index and not ledger.lost:
                _check_producer(producer, [v for v in values if v.startswith(producer.name.encode() + b"-")])
        for idempotent in cluster.idempotent:
            if idempotent.fatal is None and not ledger.lost:
                sent = idempotent.lanes[index].sent
                found = [v for v in values if v.startswith(idempotent.name.encode() + b"-")]
                if found != sent:
                    what = f"{idempotent.name} in {TOPIC}-{index}, {idempotent.epochs} epochs"
                    raise Violation(f"{what}: {_difference(sent, found)}")


def _check_producer(producer: Producer, found: list[bytes]) -> None:
    sent = [value for batch in producer.batches for value in batch.values]
    if producer.idempotent:
        if found != sent:
            raise Violation(f"{producer.name}, idempotent: {_difference(sent, found)}")
        return
    if producer.acks == 1:
        return
    if missing := set(sent) - set(found):
        raise Violation(f"{producer.name}: acknowledged and lost: {sorted(missing)[:5]}")
    if producer.window == 1 and list(dict.fromkeys(found)) != sent:
        raise Violation(f"{producer.name}, one at a time: {_difference(sent, list(dict.fromkeys(found)))}")


def _difference(sent: list[bytes], found: list[bytes]) -> str:
    at = next((n for n, (one, other) in enumerate(zip(sent, found, strict=False)) if one != other), len(found))
    return f"sent {len(sent)} records, found {len(found)}; from the {at}th: {sent[at : at + 4]}, {found[at : at + 4]}"


def _content(log: Log, start: int) -> bytes:
    """All batches from the one that holds start; a leader that came later may have heard of fewer deletions."""
    parts, offset = [], start
    while offset < log.log_end_offset:
        part = log.read(offset, 2**30).read()
        parts.append(part)
        offset = list(iterate(split(part)[-1]))[-1].offset + 1
    return b"".join(parts)


def _values(batches: Iterable[Bytes]) -> list[bytes]:
    return [record.value or b"" for batch in batches for record in iterate(batch)]
