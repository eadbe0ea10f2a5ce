"""Tailrace's own keys. As environment variables they begin with TAILRACE_, Kafka's with KAFKA_."""

from __future__ import annotations

from tailrace.config.definition import OneOf, Words
from tailrace.config.definitions.row import BOOLEAN, INT, LIST, LONG, STRING, at_least, between, ours
from tailrace.config.hosts import DatabaseUrl, Host, Hosts

ROWS = (
    ours("data.dir", STRING, "data", None, "Directory under which every role keeps its data."),
    ours("run.dir", STRING, None, None, "Directory of pid files and Unix sockets; where unset, data.dir/run."),
    ours(
        "metadata.url",
        STRING,
        None,
        DatabaseUrl(),
        "SQLAlchemy URL of the metadata log; where unset, SQLite in data.dir/metadata.db.",
    ),
    ours(
        "quota.url",
        STRING,
        None,
        None,
        "Where quota services share their state; only unset, in memory, is possible yet.",
        honoured=False,
    ),
    ours(
        "gateway.advertise",
        STRING,
        "gateway",
        OneOf(("gateway", "brokers")),
        "Whether clients are told the gateway's addresses or the brokers' own listeners.",
    ),
    ours(
        "gateway.advertised.host",
        STRING,
        None,
        Host(reachable=True),
        "Host that clients are told; where unset, the address each client connected to.",
    ),
    ours(
        "gateway.advertised.port",
        INT,
        None,
        between(1, 65_535),
        "Port of node 0 that clients are told; where unset, gateway.port.",
    ),
    ours(
        "gateway.handover",
        BOOLEAN,
        True,
        None,
        "Whether a gateway hands its clients' sockets to a broker on the same host, which then answers data requests "
        "without a relay. Clients that a quota limits stay with the gateway, or go back to it.",
    ),
    ours(
        "broker.fast.path",
        BOOLEAN,
        True,
        None,
        "Whether usual Produce and Fetch requests take a shorter way through the broker. Off, every request takes the "
        "plain way, with the same answers and more work.",
    ),
    ours("gateway.port", INT, 9092, between(0, 65_535), "Port of node 0 at the gateway; node n is at port + n."),
    ours("gateway.listen", LIST, ("127.0.0.1", "::1"), Hosts(), "Addresses the gateway listens on."),
    ours("admin.port", INT, 8080, between(0, 65_535), "Port of the gateway's REST API and health pages; 0 picks one."),
    ours(
        "admin.allowed.hosts",
        LIST,
        (),
        Words(),
        "Host names that requests to the admin port may have in Host and Origin, besides addresses, localhost and the "
        "names of this machine and of gateway.advertised.host; * allows every Host.",
    ),
    ours(
        "log.dir.pressure.slow.bytes",
        LONG,
        -1,
        at_least(-1),
        "Free bytes of a log dir below which its producers are slowed; -1: 5 % of the disk, 2 GiB at most; 0: never.",
    ),
    ours(
        "log.dir.pressure.refuse.bytes",
        LONG,
        -1,
        at_least(-1),
        "Free bytes of a log dir below which producers are refused and what is left is for internal topics; "
        "-1: 1 % of the disk, 512 MiB at most; 0: never.",
    ),
    ours(
        "log.cold.read.buffer.bytes",
        LONG,
        67_108_864,
        between(0, 1 << 36),
        "Memory for who reads much that lies on the disk only, so that it does not push out of the page cache what "
        "others read; 0: everything goes through the page cache.",
    ),
    ours(
        "internal.listen",
        STRING,
        None,
        None,
        "IP address, with or without a port, on which a role listens for the other roles instead of a Unix socket.",
    ),
    ours(
        "internal.insecure",
        BOOLEAN,
        False,
        None,
        "Allows internal.listen beyond the loopback, where roles are not authenticated yet.",
    ),
    ours("health.port", INT, 0, between(0, 65_535), "Port of a role's health and metrics pages; 0 picks one."),
    ours("health.listen", STRING, "127.0.0.1", Host(), "Address of a role's health and metrics pages."),
    ours(
        "quota.unavailable",
        STRING,
        "last",
        OneOf(("last", "open", "closed")),
        "What holds while the quota service is away: the last lease's rates, no limit, or a trickle.",
    ),
    ours(
        "quota.lease.ms",
        INT,
        500,
        between(50, 10_000),
        "Life of a quota lease; gateways renew at half of it.",
    ),
    ours("quota.max.entries", INT, 2000, at_least(1), "Client ids whose rates a gateway or quota service keeps."),
    ours(
        "quota.max.throttle.ms",
        INT,
        15_000,
        at_least(1),
        "Longest throttle of one answer: a third of the clients' session timeout, so that a muted member survives.",
    ),
)
