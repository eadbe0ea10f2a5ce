"""What a page names is there: config keys, variables of the environment, modules, files, metrics, REST paths."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator

import pytest

from support.commands import ROOT
from support.documented_metrics import BESIDE, ROLES, documented
from support.pages import WRITTEN, blocks, complaints, inline, name, pages
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.config import definitions
from tailrace.kafka import features
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

PAGES = [page for page in pages() if name(page) not in WRITTEN]
KEYS = frozenset[str]().union(
    definitions.DEFINITIONS,
    definitions.TOPIC_DEFINITIONS,
    definitions.DYNAMIC_DEFINITIONS,
    definitions.GROUP_DEFINITIONS,
    definitions.CLIENT_METRICS_DEFINITIONS,
)
# Dotted names that are no keys of Tailrace: settings of clients and of Spark, features, what files hold, and others.
OTHER_NAMES = {
    *features.SUPPORTED,
    *("kcat.conf", "curl.conf", "admin.password"),  # files of `up --secure`
    *("check.crcs", "delivery.timeout.ms", "enable.idempotence", "max.in.flight.requests.per.connection"),
    *(
        "message.timeout.ms",
        "metadata.recovery.strategy",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
    ),
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"),
    *("group.instance.id", "group.protocol", "group.remote.assignor", "max.poll.interval.ms"),
    *("isolation.level", "schemas.enable", "io.delta"),
    *("transaction.timeout.ms", "transactional.id", "kafka.group.id", "kafka.isolation.level", "spark.driver.memory"),
    *("cluster.id", "directory.id", "partition.metadata", "tailrace.query", "kafka.example.org"),
    *("org.apache.commons", "org.apache.kafka", "org.apache.spark", "cluster.bootstrap", "cluster.kill"),
    *(
        "leases.book",
        "topics.partitions",
        "topics.configs",
        "entries.entity",
        "broker.config",
        "broker.replicas",
        "gateway.service.type",
        "image.repository",
    ),
    *("internal.insecure",),  # the decision that removed it names it
}
_DOTTED = re.compile(r"(?<![\w./:$@-])[a-z]+(?:\.[a-z]+)+(?![\w./(\[-])")
_SET = re.compile(r"(?:--set |--add-config |--delete-config |-c )([a-z.]+)")
_MODULES = ("bench.", "sim.", "support.", "tailrace.")
_ENDINGS = "py pyi md json tsv toml txt sh yml service db sock pid log index timeindex properties secret"
_FILE = re.compile(rf"(?<![\w./$…-])(?:[\w.-]+/)*[\w-]+\.(?:{_ENDINGS.replace(' ', '|')})(?![\w.-])")
_MADE = {  # files that are made: by a cluster, by Kafka, by a reader
    *("metadata.db", "server.properties", "meta.properties", "cluster.secret", "conftest.py", "plan.json", "back.json"),
    *("client.properties", "librdkafka.properties", "kafka_python.py"),
    *("_topics.json", "tailrace-spark.json", "openapi.json"),
}
_VARIABLE = re.compile(r"\b(?:KAFKA|TAILRACE)_[A-Z_]+\b")
_METRIC = re.compile(r"\btailrace_([a-z_]+)\b")
_NO_METRICS = re.compile(
    r"(?:broker|controller|coordinator|gateway|quota|spark|cluster|topics?|fresh_cluster|options)(?:$|/|\.)"
)
_PATH = re.compile(r"(?:\$C|\$REST|…|clusters/[A-Z]+)?(/[a-z-]+(?:[/:][\w.:=…-]+)*)")


def _code(text: str) -> Iterator[str]:
    yield from inline(text)
    yield from (content for language, content in blocks(text) if language in ("", "console", "bash"))


@functools.cache
def _files() -> frozenset[str]:
    folders = ("libs", "services", "spark", "tests", "docs", "deploy", ".ci")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return frozenset({path.relative_to(ROOT).as_posix() for path in (*found, *ROOT.glob("*.*"))})


def unknown_keys(text: str) -> set[str]:
    named = {word for code in inline(text) for word in _DOTTED.findall(code)}
    named |= {key.strip(".") for code in _code(text) for key in _SET.findall(code) if "." in key}
    return {
        word
        for word in named - KEYS - OTHER_NAMES
        if not word.startswith(_MODULES)
        and not _FILE.fullmatch(word)
        and not word.endswith((".tmp", ".org", ".crt", ".key", ".pem"))
    }


def unknown_modules(text: str) -> set[str]:
    named = {word for code in inline(text) for word in _DOTTED.findall(code) if word.startswith(_MODULES)}
    paths = {word: word.replace(".", "/") for word in named - OTHER_NAMES - KEYS}
    return {
        word
        for word, path in paths.items()
        if not any(re.search(rf"(?:^|/){path}(?:\.pyi?|/__\w+__\.py)$", file) for file in _files())
    }


def unknown_files(text: str) -> set[str]:
    named = {word for code in inline(text) for word in _FILE.findall(code)} - _MADE
    ends = {f"/{word.removeprefix('../')}" for word in named if not re.match(r"DIR/|TARGET/|/|kafka-[a-z-]+\.sh", word)}
    return {end for end in ends if not any(f"/{file}".endswith(end) for file in _files())}


@functools.cache
def _variables() -> frozenset[str]:
    """Those of the keys, and those that the code or the tests read."""
    keys = {f"{prefix}_{key.replace('.', '_').upper()}" for key in KEYS for prefix in ("KAFKA", "TAILRACE")}
    ours = "tests/unit/docs/"  # names some that are not there
    sources = (ROOT / file for file in _files() if file.endswith((".py", ".sh", ".yml")) and not file.startswith(ours))
    return frozenset(keys.union(*(_VARIABLE.findall(path.read_text(encoding="utf-8")) for path in sources)))


def unknown_variables(text: str) -> set[str]:
    return {word for word in _VARIABLE.findall(text) if not word.endswith("_")} - _variables()


def unknown_metrics(text: str) -> set[str]:
    named = {word.removesuffix("_bucket") for word in _METRIC.findall(text) if not _NO_METRICS.match(word)}
    return named - frozenset[str]().union(*documented((*ROLES, *BESIDE)).values())


@functools.cache
def _rest() -> tuple[frozenset[str], re.Pattern[str]]:
    """The first words of the REST API's paths below a cluster, and a pattern of all paths."""
    app = create_app(MemoryBackend(brokers=1), ManualClock(), random.Random(1), HostRules(["here"]))
    below = [path.removeprefix("/v3/clusters/{cluster_id}") for path in app.openapi()["paths"]]
    numbered = (
        re.sub(r"\\\{(?:partition|broker|producer)_id\\\}", r"(?:\\d+|[A-Z]+|-)", re.escape(path)) for path in below
    )
    pattern = "|".join(re.sub(r"\\\{\w+\\\}", "[^/:]+", path) for path in numbered if path)
    return frozenset({re.split(r"[/:]", path)[1] for path in below if path}), re.compile(pattern)


def unknown_rest_paths(text: str) -> set[str]:
    first, known = _rest()
    found = {path for code in _code(text) for path in _PATH.findall(code)}
    api = {path.rstrip(".") for path in found if re.split(r"[/:]", path)[1] in first}
    return {path for path in api if not known.fullmatch(path)}


@pytest.mark.parametrize(
    "unknown",
    [unknown_keys, unknown_modules, unknown_files, unknown_variables, unknown_metrics, unknown_rest_paths],
    ids=lambda unknown: unknown.__name__,
)
def test_what_a_page_names_is_there(unknown: Callable[[str], set[str]]) -> None:
    assert complaints(PAGES, unknown) == {}


def test_what_is_not_there_is_found() -> None:
    page = """`min.insync.replica`, `--set log.retention.hour=1`, `bench.nope`, `tests/unit/test_nope.py`, `nope.py`,
`KAFKA_LOG_RETENTION_HOUR`, `tailrace_bytes_in`, `/quota-usages`,
`…/topics/T/partition/3`, `$C/status/x`, `/topics/-/partitions/transactions`"""
    assert unknown_keys(page) == {"min.insync.replica", "log.retention.hour"}
    assert unknown_modules(page) == {"bench.nope"}
    assert unknown_files(page) == {"/tests/unit/test_nope.py", "/nope.py"}
    assert unknown_variables(page) == {"KAFKA_LOG_RETENTION_HOUR"}
    assert unknown_metrics(page) == {"bytes_in"}
    assert unknown_rest_paths(page) == {
        "/topics/T/partition/3",
        "/status/x",
        "/topics/-/partitions/transactions",
    }
