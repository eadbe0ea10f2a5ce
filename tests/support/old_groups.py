"""A program of the old version of Tailrace: it reads a log of `__consumer_offsets`, does one thing, and tells both.

Input: a line of JSON for each record, with key and value in hexadecimal. Output: one of the group `g`, then the records
that a member's leave adds. Of a second member it tells how a Heartbeat and a JoinGroup are answered. It is run with the
old version's PYTHONPATH, and imports nothing else of the tests.
"""

from __future__ import annotations

import json
import sys

from tailrace.coordination.group_records import decode, encode
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import HeartbeatRequest, JoinGroupRequest
from tailrace_coordinator.groups.classic.join import Join
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
    if len(sys.argv) > 2:
        seen["answers"] = classic_answers(machine, sys.argv[2])
    sys.stdout.write(json.dumps(seen) + "\n")
    for written in machine.leave(NOW_MS, 1, "g", [Leaver(sys.argv[1])]).records:
        key, value = encode(written)  # type: ignore[arg-type]
        sys.stdout.write(json.dumps([key.hex(), None if value is None else value.hex()]) + "\n")


def classic_answers(machine: GroupMachine, member_id: str) -> list[str]:
    """The answers to a classic member's Heartbeat, and to its JoinGroup after that."""
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=45_000, rebalance_timeout_ms=60_000, protocol_type="consumer"
    )
    request.protocols = [protocol]
    ((_, refused),) = machine.heartbeat(NOW_MS, 2, beat).replies
    ((_, joined),) = machine.join(NOW_MS, Join(3, request, 9, "client", "/127.0.0.1", "uuid")).replies
    code = refused if isinstance(refused, ErrorCode) else refused.code
    return [ErrorCode(code).name, ErrorCode(joined.error_code).name]


if __name__ == "__main__":
    main()
