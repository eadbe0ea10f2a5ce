"""What the metrics count of very many partitions: in steps, and each partition once."""

from __future__ import annotations

from pathlib import Path

from support.broker import running
from tailrace.steps import ROWS_A_STEP, whole
from tailrace_broker.partitions.counts import counted


async def test_partitions_are_counted_some_at_a_time_and_the_metrics_say_what_was_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        some = list(node.broker.topics.partitions())
        steps = counted(some * ROWS_A_STEP, node.broker.node_id, 0, 0)
        assert sum(1 for _ in steps) == len(some)
        assert whole(counted(some * 2, node.broker.node_id, 0, 0)).replicas == 2 * len(some)
        metrics = node.broker.metrics
        metrics.counts.steps = lambda: counted(some * 5, node.broker.node_id, 0, 0)
        await metrics.prepare()
        metrics.counts.steps = node.broker.count_partitions
        metrics.collect()
        assert metrics.partitions.replicas == 5 * len(some)  # as prepared, and for one answer only
        metrics.collect()
        assert metrics.partitions.replicas == metrics.partitions.led == len(some)
