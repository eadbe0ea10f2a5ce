"""What the metrics count of the partitions of a broker."""

from __future__ import annotations

from pathlib import Path

from support.broker import running


async def test_the_metrics_say_what_was_counted_last(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        metrics = node.listener.partition_metrics
        metrics.collect()
        assert metrics.counts.replicas == 0
        await metrics.prepare()
        metrics.collect()
        some = list(node.broker.topics.partitions())
        assert metrics.counts.replicas == metrics.counts.led == len(some) > 1
