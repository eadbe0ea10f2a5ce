"""Who has another quota.scope than the quota service is said once, by name."""

from __future__ import annotations

from typing import Any

from tailrace.net.members.lease_holders import broker_as_holder
from tailrace.quota.entity import CLIENT_ID, IP, Account, QuotaKind, at_broker
from tailrace.quota.leases import Demand
from tailrace_quota.scopes import Scopes

APP: Account = ((CLIENT_ID, "app"),)
ADDRESS: Account = ((IP, "10.1.2.3"),)


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str, str]] = []

    def warning(self, event: str, *, service: str, its_scope: str, our_scope: str) -> None:
        self.lines.append((event.partition(":")[0], service, its_scope, our_scope))

    info = warning


def a_log() -> Any:
    return Log()


def wanted(*accounts: Account) -> list[Demand]:
    return [Demand(account, QuotaKind.PRODUCE, 1.0) for account in accounts]


def test_one_line_names_the_service_and_both_settings() -> None:
    log = a_log()
    scopes = Scopes("cluster", log)
    for _ in range(2):
        scopes.seen(3, wanted(at_broker(APP, 0)))
        scopes.seen(broker_as_holder(1), wanted(APP))
        scopes.seen(4, [])
    assert log.lines == [("quota.scope differs", "gateway-3", "broker", "cluster")]
    assert scopes.differing([3, 4, -2]) == 1


def test_a_broker_with_the_default_beside_a_quota_service_of_each_broker_is_named() -> None:
    log = a_log()
    scopes = Scopes("broker", log)
    scopes.seen(0, wanted(at_broker(ADDRESS, 0)))
    scopes.seen(broker_as_holder(1), wanted(ADDRESS))
    assert log.lines == [("quota.scope differs", "broker-1", "cluster", "broker")]


def test_one_that_was_mended_is_said_once_more() -> None:
    log = a_log()
    scopes = Scopes("cluster", log)
    scopes.seen(3, wanted(at_broker(APP, 0)))
    scopes.seen(3, wanted(APP))
    scopes.seen(3, wanted(APP))
    assert [line[0] for line in log.lines] == ["quota.scope differs", "quota.scope is alike again"]
    assert scopes.differing([3]) == 0


def test_one_that_has_left_is_counted_no_more() -> None:
    scopes = Scopes("cluster", a_log())
    scopes.seen(3, wanted(at_broker(APP, 0)))
    assert scopes.differing([4]) == 0
