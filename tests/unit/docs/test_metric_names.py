"""A metric that any page names is one of those that docs/metrics.md lists, which a live cluster is compared with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.documented_metrics import ROLES, documented
from support.pages import WRITTEN, inline, name, pages

_NAMED = re.compile(
    r"(?:tailrace_)?([a-z]+(?:_[a-z]+)*_(?:total|count|bytes|percent|secs|size|partitions|transactions|available|dirs))"
    r"(?:\{[a-z_,]+\})?(?: [<>=]+ ?\d+)?"
)
# Names that end as a metric does: of Kafka's requests and clients, and of the REST API's answers.
OTHERS = {"min_bytes", "init_transactions", "log_dirs", "offline_log_dirs"}


def unknown(text: str) -> set[str]:
    found = (_NAMED.fullmatch(code) for code in inline(text))
    return {match[1] for match in found if match} - OTHERS - frozenset[str]().union(*documented().values())


def test_every_role_has_metrics_on_the_page() -> None:
    assert all(documented()[role] for role in ROLES)


@pytest.mark.parametrize("page", [page for page in pages() if name(page) not in WRITTEN], ids=name)
def test_every_metric_that_a_page_names_is_one_of_them(page: Path) -> None:
    assert not unknown(page.read_text(encoding="utf-8"))


def test_a_metric_that_is_not_there_is_found() -> None:
    assert unknown("`partition_count`, `partitions_count > 0` and `tailrace_nope_total{topic}`") == {
        "partitions_count",
        "nope_total",
    }
