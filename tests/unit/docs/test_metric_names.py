"""A metric that any page names is one of those that docs/metrics.md lists, which a live cluster is compared with."""

from __future__ import annotations

import re

from support.documented_metrics import BESIDE, ROLES, documented
from support.pages import WRITTEN, complaints, inline, name, pages

_NAMED = re.compile(
    r"(?:tailrace_)?([a-z]+(?:_[a-z]+)*_(?:total|count|bytes|percent|seconds|size|partitions|transactions|available|dirs))"
    r"(?:\{[a-z_,]+\})?(?: [<>=]+ ?\d+)?"
)
# Names that end as a metric does: of Kafka's requests and clients, and of the REST API's answers, and of SQL.
OTHERS = {
    "min_bytes",
    "max_bytes",
    "max_scanned_bytes",
    "lag_seconds",
    "init_transactions",
    "log_dirs",
    "offline_log_dirs",
    "topic_partitions",
}


KNOWN = OTHERS.union(*documented((*ROLES, *BESIDE)).values())


def unknown(text: str) -> set[str]:
    return {match[1] for match in map(_NAMED.fullmatch, inline(text)) if match} - KNOWN


def test_every_role_has_metrics_on_the_page() -> None:
    assert all(documented()[role] for role in ROLES)


def test_every_metric_that_a_page_names_is_one_of_them() -> None:
    assert complaints((page for page in pages() if name(page) not in WRITTEN), unknown) == {}


def test_a_metric_that_is_not_there_is_found() -> None:
    assert unknown("`uncleanable_partitions`, `partitions_count > 0` and `tailrace_nope_total{topic}`") == {
        "partitions_count",
        "nope_total",
    }
