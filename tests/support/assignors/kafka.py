"""Apache Kafka's own assignors, in a JVM (KafkaAssignors.java)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType

from support import kafka_peer
from support.assignors.histories import topic_id, topic_number
from tailrace_coordinator.groups.assignors.spec import Assignment, GroupAssignment, GroupSpec

HEAP_MB = 512


class KafkaAssignors:
    """The JVM; with both of its compilers, because its time is measured."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("KafkaAssignors.java")
        command = ["java", f"-Xmx{HEAP_MB}m", "-cp", f"{kafka_peer.next_libs()}/*", str(program)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> KafkaAssignors:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def assign(self, assignor: str, spec: GroupSpec, rounds: int = 1) -> tuple[GroupAssignment, float]:
        """The assignment, and the seconds of the fastest round."""
        members = {
            id: {"subscribed": list(map(topic_number, member.subscribed)), "assigned": _numbered(member.assigned)}
            for id, member in spec.members.items()
        }
        topics = {topic_number(topic): found.partitions for topic, found in spec.topics.items()}
        request = {"assignor": assignor, "rounds": rounds, "topics": topics, "members": members}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        found: GroupAssignment = {
            id: {topic_id(int(number)): frozenset(partitions) for number, partitions in held.items()}
            for id, held in answer["members"].items()
        }
        return {id: found.get(id, {}) for id in spec.members}, answer["nanoseconds"] / 1e9


def _numbered(assigned: Assignment) -> dict[int, list[int]]:
    return {topic_number(topic): sorted(partitions) for topic, partitions in assigned.items()}
