"""The console in a browser, over a cluster in memory: what the dot says, and what a broken part does to the others."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from support.plugin import leave_out
from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.metadata.image import BrokerImage, PartitionImage
from tailrace.runtime.clock import SystemClock
from tailrace.wire.messages import (
    DescribeOpenTransactionsResponse,
    DescribeQuotaUsageResponse,
    ListTransactionsResponse,
)
from tailrace_gateway.rest.backend import ControllerView
from tailrace_gateway.rest.server import open_rest

# Milliseconds of the page's own time, which stands still while it waits for an answer.
SHOWN_MS, SHOWN_AGAIN_MS = 1_500, 5_000
BROWSER_S, TRIES = 40, 3


class BrowserHangs(Exception):
    """Headless Chromium did not come to an end: its virtual clock has been seen to stand still for ever, rarely."""


@pytest.fixture(scope="module")
def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    leave_out("apt-get install chromium")
    raise AssertionError


@pytest.fixture
def backend() -> MemoryBackend:
    """Two live brokers, two partitions with two replicas each, a group."""
    cluster = MemoryBackend(brokers=2)
    cluster.with_broken_disk = set()
    for node in (0, 1):
        cluster.space[node] = (10**12, 4 * 10**11)
    cluster.set_partitions("orders", PartitionImage((0, 1), (0, 1), 0, 0, 0), PartitionImage((1, 0), (0, 1), 1, 0, 0))
    cluster.groups["billing"] = MemoryGroup("Stable", [], {("orders", 0): 0})
    return cluster


async def dumped(browser: str, folder: Path, url: str, shown_ms: int = SHOWN_MS) -> str:
    """The page as the browser holds it after that time."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}")
    process = await asyncio.create_subprocess_exec(
        browser,
        *options,
        f"--virtual-time-budget={shown_ms}",
        "--dump-dom",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(BROWSER_S):
            page, _ = await process.communicate()
    except TimeoutError:
        raise BrowserHangs from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return page.decode()


async def tried(show: Callable[[Path], Awaitable[str]], folder: Path) -> str:
    """The page that `show` brings in a fresh folder; shown again where the browser hangs."""
    for number in range(1, TRIES + 1):
        try:
            return await show(folder / str(number))
        except BrowserHangs:
            if number == TRIES:
                raise
    raise AssertionError


async def page_of(browser: str, folder: Path, backend: MemoryBackend, place: str = "") -> str:
    async with open_rest(["127.0.0.1"], 0, backend, SystemClock(), random.Random(1)) as address:
        return await tried(lambda fresh: dumped(browser, fresh, f"http://{address}/{place}"), folder)


def state(page: str) -> tuple[str, str]:
    """The dot's class, and what is said beside it without the time."""
    ((kind, text),) = re.findall(r'<p id="state" class="(\w*)">([^<]*)</p>', page)
    return kind, text.partition(", as of ")[0]


def rows(page: str, table: str) -> list[list[str]]:
    (found,) = re.findall(rf'<table id="{table}">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    lines = re.findall(r"<tr>(.*?)</tr>", found)
    return [[re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)] for line in lines]


async def test_the_dot_is_green_where_all_is_well(browser: str, tmp_path: Path, backend: MemoryBackend) -> None:
    page = await page_of(browser, tmp_path, backend, "#orders")
    assert state(page) == ("good", "all is well")
    assert '<ul id="problems"></ul>' in page
    assert [row[0] for row in rows(page, "partitions")] == ["0", "1"]
    assert rows(page, "groups") == [["billing", "STABLE", "orders / 0", "0"]]


async def test_limited_clients_are_listed_with_what_they_use(
    browser: str, tmp_path: Path, backend: MemoryBackend
) -> None:
    row = DescribeQuotaUsageResponse.QuotaUsage
    told: dict[str, Any] = {
        "limit": 2_000_000.0,
        "rate": 1_999_000.4,
        "total": 1e9,
        "throttle_time_ms": 1500.2,
        "throttled": True,
    }
    backend.quota_usage = [row(client_id="<b>app", user=None, ip=None, broker=None, key="producer_byte_rate", **told)]
    page = await page_of(browser, tmp_path, backend)
    names, used = ["", "&lt;b&gt;app", "", ""], ["2,000,000", "1,999,000", "100 %", "throttled", "1,500"]
    assert rows(page, "quotas") == [[*names, "producer_byte_rate", *used]]
    assert state(page) == ("good", "all is well")


def offline(backend: MemoryBackend) -> None:
    backend.set_partitions("lost", PartitionImage((0, 1), (), -1, 0, 0))


def under_replicated(backend: MemoryBackend) -> None:
    backend.set_partitions("behind", PartitionImage((0, 1), (0,), 0, 0, 0))


def fenced(backend: MemoryBackend) -> None:
    backend.set_broker(BrokerImage(1, 1, UUID(int=2), fenced=True))


def silent(backend: MemoryBackend) -> None:
    backend.silent = {1}


def full(backend: MemoryBackend) -> None:
    backend.space[1] = (10**12, 10**6)


def failed(backend: MemoryBackend) -> None:
    backend.with_broken_disk = {1}


def leaderless(backend: MemoryBackend) -> None:
    stale = ControllerView(0, 7, None, True, 9)
    backend.controller = lambda: stale  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        (offline, "bad", "1 partition is without a leader (offline)."),
        (under_replicated, "warn", "1 partition is under-replicated."),
        (fenced, "warn", "Broker 1 is fenced."),
        (silent, "warn", "Broker 1 does not answer."),
        (full, "bad", "Broker 1: /memory is nearly full, producers are refused."),
        (failed, "bad", "Broker 1: the log directory /broken is offline."),
        (leaderless, "bad", "No controller answers: topics, configs and leaders cannot change."),
    ],
)
async def test_the_dot_is_not_green_and_the_page_says_why(
    browser: str,
    tmp_path: Path,
    backend: MemoryBackend,
    change: Callable[[MemoryBackend], None],
    kind: str,
    sentence: str,
) -> None:
    change(backend)
    page = await page_of(browser, tmp_path, backend)
    assert state(page)[0] == kind
    assert f'<li><span class="{kind}">{sentence}</span></li>' in page
    assert [row[0] for row in rows(page, "groups")] == ["billing"]


async def test_open_transactions_are_shown_and_one_that_hangs_is_a_problem(
    browser: str, tmp_path: Path, backend: MemoryBackend
) -> None:
    row = DescribeOpenTransactionsResponse.OpenTransaction
    opened = row(topic_name="orders", partition_index=0, producer_id=1, start_offset=7, last_timestamp=0)
    known = ListTransactionsResponse.TransactionState(transactional_id="billing-1", producer_id=1)
    backend.transactions, backend.opened[0] = [known], [opened]
    page = await page_of(browser, tmp_path / "open", backend)
    assert state(page) == ("good", "all is well")
    (shown,) = rows(page, "transactions")
    assert shown[:5] == ["orders-0", "open", "billing-1", "1", "7"]
    backend.opened[1] = [row(topic_name="orders", partition_index=1, producer_id=2, is_late=True, is_hanging=True)]
    page = await page_of(browser, tmp_path / "hanging", backend)
    assert state(page) == ("warn", "1 problem")
    said = "1 transaction hangs: readers at read_committed wait at orders-1."
    assert f'<li><span class="warn">{said}</span></li>' in page
    assert [shown[:3] for shown in rows(page, "transactions")] == [
        ["orders-1", "hanging", ""],
        ["orders-0", "open", "billing-1"],
    ]


async def test_open_transactions_of_a_broker_that_does_not_answer_are_not_said_to_be_none(
    browser: str, tmp_path: Path, backend: MemoryBackend
) -> None:
    page = await page_of(browser, tmp_path / "all", backend)
    assert rows(page, "transactions") == [["No transaction is open."]]
    assert 'id="transactions-note"></p>' in page
    backend.silent = {1}
    page = await page_of(browser, tmp_path / "silent", backend)
    assert rows(page, "transactions") == [["No open transaction is known."]]
    assert 'id="transactions-note">Not known of the partitions of broker 1: no answer.</p>' in page


@pytest.mark.parametrize("link", ["#gone", "#%E0%A4%A"], ids=["a deleted topic", "a cut link"])
async def test_a_stale_link_costs_its_own_part_of_the_page_alone(
    browser: str, tmp_path: Path, backend: MemoryBackend, link: str
) -> None:
    page = await page_of(browser, tmp_path, backend, link)
    assert state(page) == ("good", "all is well")
    assert rows(page, "partitions") == [["There is no topic of this name, or no longer."]]
    assert [row[1] for row in rows(page, "log-dirs")] == ["/memory", "/memory"]
    assert rows(page, "groups")[0][0] == "billing"


async def test_a_part_that_is_refused_says_so_and_the_others_go_on(
    browser: str, tmp_path: Path, backend: MemoryBackend
) -> None:
    async def refused(message: Any, version: int | None = None, *, topic: str = "") -> list[Any]:
        raise TimeoutError

    backend.ask_coordinators = refused  # type: ignore[method-assign]
    page = await page_of(browser, tmp_path, backend)
    assert state(page)[0] == "good"
    assert 'id="groups-note">Not shown anew: The cluster did not answer in time' in page
    assert len(rows(page, "topics")) == 1


async def test_a_page_whose_gateway_went_away_says_that_it_is_old(
    browser: str, tmp_path: Path, backend: MemoryBackend
) -> None:
    answered = asyncio.Event()
    state_of = backend.state

    def asked() -> Any:
        answered.set()
        return state_of()

    backend.state = asked  # type: ignore[method-assign]

    async def show(fresh: Path) -> str:
        answered.clear()
        async with open_rest(["127.0.0.1"], 0, backend, SystemClock(), random.Random(1)) as address:
            shown = asyncio.create_task(dumped(browser, fresh, f"http://{address}/", SHOWN_AGAIN_MS))
            await answered.wait()
        return await shown

    page = await tried(show, tmp_path)
    kind, text = state(page)
    assert kind == "bad"
    assert "the gateway cannot be reached" in text
