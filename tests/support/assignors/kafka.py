"""Apache Kafka's own assignors, in a JVM (KafkaAssignors.java)."""

from __future__ import annotations

from pathlib import Path

from support.assignors.histories import topic_id, topic_number
from support.java_program import JavaProgram
from tailrace_coordinator.groups.assignors.spec import Assignment, GroupAssignment, GroupSpec


class KafkaAssignors(JavaProgram):
    """The JVM."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).with_name("KafkaAssignors.java"))

    def assign(self, assignor: str, spec: GroupSpec, rounds: int = 1) -> tuple[GroupAssignment, float]:
        """The assignment, and the seconds of the fastest round."""
        members = {
            id: {"subscribed": list(map(topic_number, member.subscribed)), "assigned": _numbered(member.assigned)}
            for id, member in spec.members.items()
        }
        topics = {topic_number(topic): found.partitions for topic, found in spec.topics.items()}
        answer = self.ask({"assignor": assignor, "rounds": rounds, "topics": topics, "members": members})
        found: GroupAssignment = {
            id: {topic_id(int(number)): frozenset(partitions) for number, partitions in held.items()}
            for id, held in answer["members"].items()
        }
        return {id: found.get(id, {}) for id in spec.members}, answer["nanoseconds"] / 1e9


def _numbered(assigned: Assignment) -> dict[int, list[int]]:
    return {topic_number(topic): sorted(partitions) for topic, partitions in assigned.items()}
