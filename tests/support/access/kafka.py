"""Apache Kafka's own authorizer, in a JVM (KafkaAuthorizer.java)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path

from support.access.random_acls import Question
from support.java_program import JavaProgram
from tailrace.access.acls import Acl
from tailrace.access.filters import AclFilter


class KafkaAuthorizer(JavaProgram):
    """The JVM."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).with_name("KafkaAuthorizer.java"))

    def answers(
        self,
        acls: Sequence[Acl],
        questions: Iterable[Question],
        filters: Iterable[AclFilter] = (),
        *,
        super_users: str = "",
        allow_everyone: bool = False,
    ) -> tuple[list[tuple[bool, bool]], list[set[Acl]]]:
        """For each question, whether it is allowed on the resource and on any of the type; what each filter names."""
        answer = self.ask(
            {
                "acls": [astuple(acl) for acl in acls],
                "questions": [astuple(question) for question in questions],
                "filters": [astuple(wanted) for wanted in filters],
                "super_users": super_users,
                "allow_everyone": str(allow_everyone).lower(),
            }
        )
        verdicts = [(named, some) for named, some in answer["verdicts"]]
        return verdicts, [{acls[number] for number in found} for found in answer["found"]]
