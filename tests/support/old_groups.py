"""A program of the old version of Tailrace: it reads a log of `__consumer_offsets`, does one thing, and tells both.

Input: a line of JSON for each record, with key and value in hexadecimal. Output: one of the group `g`, then the records
that a member's leave adds. It is run with the old version's PYTHONPATH, and imports nothing else of the tests.
"""

from __future__ import annotations

import json
import sys

from tailrace.coordination.group_records import decode, encode
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.machine import GroupMachine

try:
    from tailrace_coordinator.groups.group import Leaver
except ImportError:  # of the oldest version
    from tailrace_coordinator.groups.classic.leave import Leaver  # type: ignore[attr-defined]

NOW_MS = 1_700_000_100_000


def main() -> None:
    """Reads, tells, and lets the member of the first argument leave."""
    machine = GroupMachine(GroupConfig())
    for line in sys.stdin:
        key, value = (None if text is None else bytes.fromhex(text) for text in json.loads(line))
        record = decode(key or b"", value)
        assert record is not None
        machine.apply(record)
    machine.on_loaded(NOW_MS, MetadataImage())
    group = machine.groups["g"]
    offsets = sorted((topic, index, row.offset) for (topic, index), row in machine.offsets.of_group("g").items())
    listed = group.listed()
    seen = {"type": listed.group_type, "state": listed.state, "members": group.member_count, "offsets": offsets}
    sys.stdout.write(json.dumps(seen) + "\n")
    for written in machine.leave(NOW_MS, 1, "g", [Leaver(sys.argv[1])]).records:
        key, value = encode(written)  # type: ignore[arg-type]
        sys.stdout.write(json.dumps([key.hex(), None if value is None else value.hex()]) + "\n")


if __name__ == "__main__":
    main()
