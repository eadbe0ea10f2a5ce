"""Lines of every format to the one schema, and what is no line to a reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from support.spark_frames import ARRIVED, plan_of, record, records
from tailrace_spark.logs import parse

SYSLOG = "<34>Nov 21 15:02:03 web-1 sshd[812]: Failed password for root from 10.0.0.9"
RFC5424 = '<165>1 2026-11-21T15:02:03.003Z web-2 billing 77 ID47 [ex@1 order="9" note="a \\"b\\""] payment refused'
ACCESS = '10.1.2.3 - ann [21/Nov/2026:16:02:03 +0100] "GET /cart?id=7 HTTP/1.1" 503 2326 "https://x/" "curl/8.1"'
LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "RFC 3164": (
        SYSLOG,
        {
            "format": "syslog",
            "host": "web-1",
            "service": "sshd",
            "severity": "crit",
            "message": "Failed password for root from 10.0.0.9",
            "fields": {"pid": "812", "facility": "4"},
        },
    ),
    "RFC 3164, day of one digit, last year": (
        "<13>Dec  1 00:00:00 web-1 cron: ran",
        {"timestamp": datetime(2025, 12, 1, tzinfo=UTC), "severity": "notice"},
    ),
    "RFC 5424": (
        RFC5424,
        {
            "format": "rfc5424",
            "timestamp": datetime(2026, 11, 21, 15, 2, 3, 3000, tzinfo=UTC),
            "host": "web-2",
            "service": "billing",
            "severity": "notice",
            "message": "payment refused",
            "fields": {"pid": "77", "msgid": "ID47", "order": "9", "note": 'a "b"', "facility": "20"},
        },
    ),
    "RFC 5424, nothing said": (
        "<165>1 - - - - - - \ufeffonly this",
        {"timestamp": ARRIVED, "host": None, "service": None, "message": "only this", "fields": {"facility": "20"}},
    ),
    "syslog in a file": (
        "Nov 21 15:02:03 web-1 kernel: Out of memory: error",
        {"format": "syslog", "service": "kernel", "severity": "error", "fields": {}},
    ),
    "rsyslog's newer files": (
        "2026-11-21T15:02:03.123456+01:00 web-1 systemd[1]: Started a unit.",
        {"timestamp": datetime(2026, 11, 21, 14, 2, 3, 123456, tzinfo=UTC), "host": "web-1", "severity": "info"},
    ),
    "combined access log": (
        ACCESS,
        {
            "format": "access",
            "timestamp": datetime(2026, 11, 21, 15, 2, 3, tzinfo=UTC),
            "severity": "error",
            "message": "GET /cart?id=7 HTTP/1.1 503",
            "fields": {
                "client": "10.1.2.3",
                "user": "ann",
                "method": "GET",
                "path": "/cart?id=7",
                "status": "503",
                "bytes": "2326",
                "referer": "https://x/",
                "agent": "curl/8.1",
            },
        },
    ),
    "common access log": (
        '::1 - - [21/Nov/2026:15:02:03 +0000] "GET / HTTP/1.0" 404 -',
        {"severity": "warning", "fields": {"client": "::1", "status": "404", "method": "GET", "path": "/"}},
    ),
    "JSON": (
        '{"ts": "2026-11-21T15:02:03Z", "level": "WARN", "msg": "slow", "service": "cart", "ms": 12.5, "tags": ["a"]}',
        {
            "format": "json",
            "timestamp": datetime(2026, 11, 21, 15, 2, 3, tzinfo=UTC),
            "severity": "warning",
            "message": "slow",
            "service": "cart",
            "fields": {"ms": "12.5", "tags": '["a"]'},
        },
    ),
    "JSON with milliseconds and a number for the level": (
        '{"time": 1795273323003, "level": 50, "msg": "refused", "name": "api", "hostname": "h"}',
        {"timestamp": datetime(2026, 11, 21, 15, 2, 3, 3000, tzinfo=UTC), "severity": "error", "host": "h"},
    ),
    "JSON of the journal": (
        '{"__REALTIME_TIMESTAMP": "1795273323000003", "PRIORITY": "4", "MESSAGE": "hot", "_HOSTNAME": "h"}',
        {"timestamp": datetime(2026, 11, 21, 15, 2, 3, 3, tzinfo=UTC), "severity": "warning", "message": "hot"},
    ),
    "JSON without a message, a key twice": (
        '{"a": 1, "a": 2}',
        {"message": '{"a": 1, "a": 2}', "fields": {"a": "2"}, "timestamp": ARRIVED},
    ),
    "a dated line": (
        "2026-11-21 15:02:03,500 ERROR Pool exhausted",
        {
            "format": "dated",
            "timestamp": datetime(2026, 11, 21, 15, 2, 3, 500_000, tzinfo=UTC),
            "severity": "error",
            "message": "ERROR Pool exhausted",
        },
    ),
    "PostgreSQL's": (
        "2026-11-21 15:02:03.500 UTC [12] LOG:  ready",
        {"timestamp": datetime(2026, 11, 21, 15, 2, 3, 500_000, tzinfo=UTC), "message": "[12] LOG:  ready"},
    ),
    "a date that is none": (
        "2026-13-45 15:02:03 odd",
        {"timestamp": ARRIVED, "message": "odd", "format": "dated"},
    ),
    "anything": (
        "  at java.lang.Thread.run(Thread.java:840) \x1f \u00e9",
        {"format": "text", "timestamp": ARRIVED, "severity": "info", "source": "text"},
    ),
    "a line ten days late": (
        "2026-11-11 15:02:03 late",
        {"timestamp": datetime(2026, 11, 11, 15, 2, 3, tzinfo=UTC), "hour": "2026-11-11-15"},
    ),
}
MALFORMED = {
    "nothing": (None, "empty"),
    "no bytes": (b"", "empty"),
    "blanks": ("   ", "empty"),
    "bytes that are no text": (b"\xff\xfe\x00", "not UTF-8"),
    "half an object": ('{"a": ', "not JSON"),
    "a priority and nothing else": ("<34>", "does not match its format"),
    "a month that is none": ("<34>Foo 11 22:14:15 host app: x", "no such time"),
    "JSON whose time is no time": ('{"time": "yesterday", "msg": "x"}', "no such time"),
    "two days ahead": ("2026-11-23 18:00:00 x", "from the future"),
}


NEW_YEAR = datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC)
LONG = "\\\\x" * 100_000
OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    (SYSLOG, {"key": "/var/log/auth log", "headers": {"source": b"edge"}}),
    (SYSLOG, {"key": "/var/log/auth log"}),
    (SYSLOG, {}),
    (ACCESS, {"key": "../.."}),
    ("<13>Dec 31 23:59:59 h a: x", {"timestamp": NEW_YEAR}),
    ("<13>Jan  1 00:00:00 h a: x", {"timestamp": NEW_YEAR - timedelta(seconds=10)}),
    (ACCESS.replace("curl", LONG), {}),
    (RFC5424.replace("refused", LONG).replace('order="9"', f'order="{LONG}"'), {}),
    (RFC5424.replace("[ex@1", "[ex@1 " * 20_000), {}),
    ('{"msg": "' + "x" * 300_000 + '"}', {}),
    ("9" * 300_000, {}),
)


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> Iterator[DataFrame]:
    """All of them parsed at once: planning takes longer than parsing."""
    spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    every: list[tuple[Any, dict[str, Any]]] = (
        [(line, {}) for line, _ in LINES.values()] + [(line, {}) for line, _ in MALFORMED.values()] + list(OTHERS)
    )
    rows = (record(offset, line, **more) for offset, (line, more) in enumerate(every))
    parsed = parse.parse(records(spark, rows)).persist()
    yield parsed
    parsed.unpersist()


@pytest.fixture(scope="module")
def rows(whole: DataFrame) -> list[Row]:
    found: list[Row] = whole.orderBy("offset").collect()
    assert len(found) == len(LINES) + len(MALFORMED) + len(OTHERS), "no row is left out"
    return found


@pytest.fixture
def parsed(rows: list[Row]) -> dict[str, Row]:
    names = [*LINES, *MALFORMED]
    return dict(zip(names, rows[: len(names)], strict=True))


@pytest.fixture
def others(rows: list[Row]) -> list[Row]:
    return rows[-len(OTHERS) :]


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_parsed(parsed: dict[str, Row], name: str) -> None:
    row = parsed[name].asDict()
    assert row["malformed"] is None
    for key, value in LINES[name][1].items():
        found = row[key].astimezone(UTC) if isinstance(value, datetime) else row[key]
        assert found == value, key


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_line_has_a_reason(parsed: dict[str, Row], name: str) -> None:
    assert parsed[name].malformed == MALFORMED[name][1]


def test_the_source_is_the_header_then_the_key_then_the_format(others: list[Row]) -> None:
    assert [row.source for row in others[:4]] == ["edge", "var_log_auth_log", "syslog", "access"]


def test_the_year_of_rfc_3164_is_the_latest_that_is_not_ahead_of_the_arrival(others: list[Row]) -> None:
    found = [row.timestamp.astimezone(UTC) for row in others[4:6]]
    assert found == [datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)]


def test_a_line_of_any_length_is_parsed(others: list[Row]) -> None:
    found = others[6:]
    assert [row.format for row in found] == ["access", "rfc5424", "rfc5424", "json", "text"]
    assert [row.malformed for row in found] == [None] * 5
    assert found[0].fields["agent"] == LONG + "/8.1" and found[1].fields["order"] == "\\x" * 100_000
    assert len(found[3].message) == parse.LONGEST and found[3].fields == {"cut": "true"}


def test_the_two_parts_are_the_whole(whole: DataFrame) -> None:
    refused = parse.malformed(whole).orderBy("offset").collect()
    assert parse.lines(whole).count() == len(LINES) + len(OTHERS)
    assert [row.reason for row in refused] == [reason for _, reason in MALFORMED.values()]
    assert bytes(refused[3].value) == b"\xff\xfe\x00"


def test_a_filter_on_the_reason_computes_no_step_again(spark: SparkSession) -> None:
    parsed = parse.parse(records(spark, [record(0, SYSLOG)]))
    limit = len(plan_of(parsed)) * 1.2
    assert len(plan_of(parse.lines(parsed))) < limit and len(plan_of(parse.malformed(parsed))) < limit
