"""docs/compatibility.md from one run of the scripts: what each client showed on each target."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest

HEAD = """# Compatibility

For users that want to know what works with Tailrace: clients, APIs and versions, and the differences from Apache Kafka.

Written by `./test compat tests/protocol/test_bad_input_*.py --write-compatibility` from those scripts; do not edit.
The same scripts run against Tailrace with one broker, against Tailrace with three, and against Apache Kafka 4.4.0.
"""
CLIENTS = {
    "raw": "wire",
    "kafka_python": "kafka-python 3",
    "aiokafka": "aiokafka",
    "confluent": "confluent-kafka",
    "kcat": "kcat",
    "java": "Java tools",
}
TARGETS = {
    "tailrace1": "Tailrace, 1 broker",
    "tailrace1r": "Tailrace, 1 broker, relayed",
    "tailrace3": "Tailrace, 3 brokers",
    "tailrace3h": "Tailrace, 3 brokers, sockets handed over",
    "kafka": "Apache Kafka",
}
SHORT = {"tailrace1": "1", "tailrace1r": "1r", "tailrace3": "3", "tailrace3h": "3h", "kafka": "K"}
LEGEND = """
Each row is a capability, each column a client. `wire` is a client of the tests that sends any API at any version.
`1`, `3` and `K` mean that all scripts of the row passed on Tailrace with one broker, on Tailrace with three brokers,
and on Kafka. `~~1~~` means that a script failed there. A target that is not named was not tested.
"""


class Report:
    """Collects what each script showed on each target."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
        self.served: dict[str, dict[int, tuple[int, int]]] = {}

    def add(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Keeps one outcome under (capability, client) and target."""
        mark = item.get_closest_marker("capability")
        parameters = getattr(item, "callspec", None)
        if mark is None or parameters is None or report.outcome == "skipped":
            return
        by = item.get_closest_marker("by")
        named = parameters.params.get("client") or parameters.params.get("library")
        client = named or (by.args[0] if by else "raw")
        target = parameters.params.get("target") or parameters.params.get("cluster")
        if target in TARGETS:
            row = self.outcomes[mark.args[0], client]
            row[target] = row.get(target, True) and report.outcome == "passed"

    def write(self, path: Path) -> None:
        """Writes the page."""
        path.write_text(
            "\n".join([HEAD, *self.capabilities(), *self.versions(), *differences(), *left_out(), *not_honoured(), ""])
        )

    def capabilities(self) -> Iterator[str]:
        """What the clients can do."""
        yield "## What clients can do"
        yield LEGEND
        yield row("", *CLIENTS.values())
        yield row("---", *("---" for _ in CLIENTS))
        for words in sorted({words for words, _ in self.outcomes}):
            yield row(words, *(cell(self.outcomes.get((words, client), {})) for client in CLIENTS))

    def versions(self) -> Iterator[str]:
        """The served APIs, beside Kafka's."""
        from support.raw import REQUESTS

        yield "\n## Served APIs and versions\n"
        yield "`tests/compat/test_versions.py` sends every version here and compares the answers with Kafka's.\n"
        yield "Only Produce 0-2 are advertised and closed, as in Kafka: old librdkafka needs them to be named.\n"
        yield row("key", "API", *(TARGETS[name] for name in TARGETS if name in self.served))
        yield row("---", "---", *("---" for name in TARGETS if name in self.served))
        ours = {key for target, served in self.served.items() if target != "kafka" for key in served}
        for key in sorted(ours):
            name = REQUESTS[key].__name__.removesuffix("Request")
            ranges = [self.served[target].get(key) for target in TARGETS if target in self.served]
            yield row(str(key), name, *("" if r is None else f"{r[0]}-{r[1]}" for r in ranges))
        if missing := sorted(set(self.served.get("kafka", ())) - ours):
            yield "\nApache Kafka also serves the keys " + ", ".join(f"`{key}`" for key in missing) + "."


def row(*cells: str) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def cell(outcomes: dict[str, bool]) -> str:
    """The targets of one client and capability."""
    return " ".join(SHORT[t] if outcomes[t] else f"~~{SHORT[t]}~~" for t in TARGETS if t in outcomes)


def differences() -> Sequence[str]:
    """What is known to differ from Kafka, with the reason."""
    from compat.differences import DIFFERENCES

    lines = ["\n## Known differences from Apache Kafka 4.4.0\n", row("what", "Kafka", "Tailrace", "why")]
    lines.append(row("---", "---", "---", "---"))
    return [*lines, *(row(item.what, item.kafka, item.tailrace, item.why) for item in DIFFERENCES)]


def left_out() -> Iterator[str]:
    """The tests of other projects that are not run, with the reason."""
    from compat.test_kafka_python_suite import AGAIN, LEFT_OUT, TESTS

    yield "\n## kafka-python's own integration tests\n"
    yield f"`tests/compat/test_kafka_python_suite.py` runs {TESTS} of them on Tailrace and on Kafka. It leaves out:\n"
    yield from (f"- `{name}`: {why}" for name, why in LEFT_OUT.items())
    yield "\nTests of these files that fail run once more, because of a fault of kafka-python, with Kafka as well:\n"
    yield from (f"- `{name}`: {why}" for name, why in AGAIN.items())


def not_honoured() -> Iterator[str]:
    """The configs that are accepted and described but change nothing."""
    from tailrace.config.definitions import DEFINITIONS, TOPIC_DEFINITIONS

    yield "\n## Configs that can be set but are not honoured\n"
    yield "They are described with Kafka's types and defaults; setting one away from its default is logged.\n"
    for scope, table in (("topic", TOPIC_DEFINITIONS), ("broker", DEFINITIONS)):
        names = sorted(d.name for d in table.values() if not d.honoured and not d.internal)
        yield f"{len(names)} {scope} keys, by the first word of their names:\n"
        for word, group in groupby(names, lambda name: name.partition(".")[0]):
            yield f"- {word}: " + ", ".join(f"`{name}`" for name in group)
        yield ""
