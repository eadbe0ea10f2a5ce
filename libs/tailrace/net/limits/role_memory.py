"""The memory that one role has for its clients, over all its connections and listeners."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.limits.request_memory import RequestMemory


@dataclass(frozen=True)
class RoleMemory:
    """Two budgets: one for requests that have not arrived completely, one for large answers."""

    requests: RequestMemory = field(default_factory=RequestMemory)
    answers: AnswerMemory = field(default_factory=AnswerMemory)
