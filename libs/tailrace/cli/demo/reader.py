"""One member of the consumer group, a process of its own: reads until its stdin ends, reports on stdout.

Lines: {"assigned": [partitions]} after each rebalance, {"tally": [records, bytes, checksum]} after each poll that
brought something. Only records of this run (header "run") count; what an interrupted run left behind is passed over.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

from tailrace.cli.demo.tally import Tally

_POLL_MS = 250


def report(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, topic: str, group: str, run: str) -> None:
    from kafka import KafkaConsumer

    consumer: Any = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=f"demo-reader-{os.getpid()}",
        auto_offset_reset="earliest",
        max_poll_records=2000,
    )
    tally, assigned = Tally(), None
    while not select.select([sys.stdin], [], [], 0)[0]:
        brought = consumer.poll(timeout_ms=_POLL_MS)
        now = sorted(partition.partition for partition in consumer.assignment())
        if now != assigned:
            assigned = now
            report(assigned=assigned)
        before = tally.records
        for records in brought.values():
            for record in records:
                if ("run", run.encode()) in record.headers:
                    tally = tally.plus(record.value)
        if tally.records != before:
            report(tally=list(tally))
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
