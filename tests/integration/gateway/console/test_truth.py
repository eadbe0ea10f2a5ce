"""What the console says of a cluster in memory: never that all is well while something is not, or is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.browser import MemoryGateway, Window
from support.rest_backend import MemoryBackend
from support.waiting import until
from tailrace.metadata.image import BrokerImage, PartitionImage
from tailrace.wire.messages import (
    DescribeOpenTransactionsRequest,
    DescribeOpenTransactionsResponse,
    DescribeQuotaUsageResponse,
    ListTransactionsResponse,
)
from tailrace_gateway.rest.backend import ControllerView
from tailrace_gateway.rest.console import hub


def await_problem(window: Window, sentence: str) -> None:
    """Waits for it by itself: an answer that is late by a machine under load ends the good verdict as well."""
    window.page.locator('[aria-label="Problems"] li', has_text=sentence).wait_for()


def test_all_is_well_where_every_role_answers(window: Window) -> None:
    window.go("overview")
    assert window.verdict("good") == "All is well"
    assert window.row("Partitions by state", "without a leader")[1] == "0"
    until(lambda: [row[1:2] for row in window.rows("Log directories")] == [["/memory"]] * 2, "both directories")
    assert window.page.locator(".age").first.inner_text().startswith("as of ")


def offline(backend: MemoryBackend) -> None:
    backend.set_partitions("lost", PartitionImage((0, 1), (), -1, 0, 0))


def under_replicated(backend: MemoryBackend) -> None:
    backend.set_partitions("behind", PartitionImage((0, 1), (0,), 0, 0, 0))


def fenced(backend: MemoryBackend) -> None:
    backend.set_broker(BrokerImage(1, 1, UUID(int=2), fenced=True))


def silent(backend: MemoryBackend) -> None:
    backend.silent = {1}


def silent_coordinator(backend: MemoryBackend) -> None:
    backend.silent_roles = {("coordinator", 0)}


def without_coordinator(backend: MemoryBackend) -> None:
    image = replace(backend.image(), services={})
    backend.image = lambda: image  # type: ignore[method-assign]


def full(backend: MemoryBackend) -> None:
    backend.space[1] = (10**12, 10**6)


def failed(backend: MemoryBackend) -> None:
    backend.with_broken_disk = {1}


def leaderless(backend: MemoryBackend) -> None:
    stale = ControllerView(0, 7, None, True, 9)
    backend.controller = lambda: stale  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("change", "level", "sentence"),
    [
        (offline, "bad", "1 partition is without a leader (offline). lost-0"),
        (under_replicated, "warn", "1 partition is under-replicated. behind-0"),
        (fenced, "warn", "Broker 1 is fenced."),
        (silent, "bad", "Broker 1 does not answer."),
        (silent_coordinator, "bad", "Coordinator 0 does not answer."),
        (without_coordinator, "bad", "No coordinator is there: groups and transactions stand still."),
        (full, "bad", "Broker 1: /memory is nearly full, producers are refused."),
        (failed, "bad", "Broker 1: the log directory /broken is offline."),
        (leaderless, "bad", "No controller answers: topics, configs and leaders cannot change."),
    ],
)
def test_a_problem_is_named_and_ends_the_good_verdict_while_the_page_is_open(
    window: Window, backend: MemoryBackend, change: Callable[[MemoryBackend], None], level: str, sentence: str
) -> None:
    window.go("overview")
    window.verdict("good")
    change(backend)
    await_problem(window, sentence)
    window.verdict(level)


def test_transactions_that_are_not_known_end_the_good_verdict(window: Window, backend: MemoryBackend) -> None:
    window.go("overview")
    window.verdict("good")
    asked = backend.ask_broker

    async def refused(node_id: int, message: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(message, DescribeOpenTransactionsRequest):
            raise TimeoutError
        return await asked(node_id, message, *arguments, **named)

    backend.ask_broker = refused  # type: ignore[method-assign]
    await_problem(window, "Not known of the partitions of broker 0, 1: no answer.")
    window.verdict("warn")
    backend.ask_broker = asked  # type: ignore[method-assign]
    window.verdict("good")


def test_nothing_is_said_before_transactions_were_looked_at(window: Window, backend: MemoryBackend) -> None:
    asked, never = backend.ask_broker, asyncio.Event()

    async def silent(node_id: int, message: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(message, DescribeOpenTransactionsRequest):
            await never.wait()
        return await asked(node_id, message, *arguments, **named)

    backend.ask_broker = silent  # type: ignore[method-assign]
    page = window.go("overview")
    page.get_by_text("Controller 0").wait_for()
    until(lambda: page.locator(".verdict .text").inner_text() == "Loading", "nothing is said")


def test_a_gateway_that_went_away_is_no_good_verdict_on_any_page(window: Window, gateway: MemoryGateway) -> None:
    window.go("topics")
    window.verdict("good")
    assert window.row("Topics", "orders")
    gateway.stop()
    assert window.verdict("bad").startswith("This gateway does not answer for ")
    assert window.row("Topics", "orders"), "what was known is kept, with its age"


def test_a_part_that_is_refused_says_so_and_the_others_go_on(window: Window, backend: MemoryBackend) -> None:
    async def refused(message: Any, version: int | None = None, *, topic: str = "") -> list[Any]:
        raise TimeoutError

    backend.ask_coordinators = refused  # type: ignore[method-assign]
    window.go("groups")
    window.page.get_by_text("Not seen anew: The cluster did not answer in time").wait_for()
    window.go("topics")
    assert window.row("Topics", "orders")[2] == "2"


def test_the_first_transaction_of_all_that_hangs_is_a_problem(window: Window, backend: MemoryBackend) -> None:
    row = DescribeOpenTransactionsResponse.OpenTransaction
    window.go("overview")
    window.verdict("good")
    backend.opened[1] = [row(topic_name="orders", partition_index=1, producer_id=2, is_late=True, is_hanging=True)]
    await_problem(window, "1 transaction hangs: readers at read_committed wait.")
    window.verdict("warn")


def test_what_another_hub_has_sent_is_asked_for_whole(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    window.go("topics")
    window.row("Topics", "orders")
    revision = "async () => (await import('/static/console/core/state.js')).part('topics').revision"
    assert window.page.evaluate(revision) > 0
    monkeypatch.setattr(hub, "STREAM_MS", 0)
    monkeypatch.setattr(hub, "KEPT_MS", 0)  # each stream has a hub of its own
    window.go("groups")
    window.page.wait_for_function(f"{revision.replace('.revision', '.revision === 0')}")


def test_a_stale_link_says_that_the_topic_is_gone(window: Window) -> None:
    for link in ("topics/gone", "topics/%E0%A4%A"):
        window.go(link)
        window.page.get_by_text("There is no topic of this name, or no longer.").wait_for()


def test_open_transactions_are_shown_and_one_that_hangs_is_a_problem(window: Window, backend: MemoryBackend) -> None:
    row = DescribeOpenTransactionsResponse.OpenTransaction
    known = ListTransactionsResponse.TransactionState(transactional_id="billing-1", producer_id=1)
    backend.transactions = [known]
    backend.opened[0] = [row(topic_name="orders", partition_index=0, producer_id=1, start_offset=7, last_timestamp=0)]
    window.go("transactions")
    shown = window.row("Open transactions", "orders-0")
    assert shown[:5] == ["orders-0", "open", "billing-1", "1", "7"]
    window.verdict("good")
    backend.opened[1] = [row(topic_name="orders", partition_index=1, producer_id=2, is_late=True, is_hanging=True)]
    window.verdict("warn")
    both = [["orders-1", "hanging"], ["orders-0", "open"]]
    until(lambda: [cells[:2] for cells in window.rows("Open transactions")] == both, "both transactions")
    backend.silent = {1}
    window.page.get_by_text("Not known of the partitions of broker 1: no answer.").wait_for()


def test_limited_clients_are_listed_with_what_they_use(window: Window, backend: MemoryBackend) -> None:
    used: dict[str, Any] = {"limit": 2e6, "rate": 1_999_000.4, "throttle_time_ms": 1500.2, "throttled": True}
    row = DescribeQuotaUsageResponse.QuotaUsage
    backend.quota_usage = [row(client_id="app", user=None, ip=None, broker=None, key="producer_byte_rate", **used)]
    window.go("quotas")
    shown = window.row("Limited clients", "app")
    assert shown[4:] == ["producer_byte_rate", "2,000,000", "1,999,000", "100 %", "throttled", "1,500"]
