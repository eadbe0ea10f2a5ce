"""Each role has one memory for requests and answers, over all its listeners, and its metrics show it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from support.documented_metrics import ROLES
from support.metric_rules import problems
from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics

SERVICES = Path(__file__).parents[4] / "services"


class Client:
    def give_way(self, why: str) -> None:
        pass


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_one_memory_and_shows_it(role: str) -> None:
    """mypy sees to it that no listener is without one."""
    text = "\n".join(path.read_text() for path in (SERVICES / role).rglob("*.py"))
    assert len(re.findall(r"\bRoleMemory\(", text)) == 1
    assert len(re.findall(r"\bRoleMemoryMetrics\(", text)) == 1
    assert not re.search(r"= (Answer|Request)Memory\(", text)


async def test_the_metrics_show_what_large_answers_take() -> None:
    registry, memory = CollectorRegistry(), RoleMemory(RequestMemory(1_000_000), AnswerMemory(500_000))
    RoleMemoryMetrics(registry, memory)
    client = Client()
    await memory.answers.room(client, 200_000)
    page = generate_latest(registry).decode()
    assert list(problems(page)) == []
    assert "tailrace_response_memory_pool_used 200000.0" in page
    assert "tailrace_response_memory_pool_available 300000.0" in page
    assert "tailrace_response_memory_pool_waits_total 0.0" in page
    assert "tailrace_memory_pool_available 1e+06" in page
    memory.answers.give_back(client)
    assert "tailrace_response_memory_pool_used 0.0" in generate_latest(registry).decode()
