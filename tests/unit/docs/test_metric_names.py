"""A metric that any page names is one of those that docs/operations.md lists, which a live cluster is compared with."""

from __future__ import annotations

import re

from support.documented_metrics import PAGE, ROLES, documented

_NAMED = re.compile(r"\btailrace_([a-z_]+_(?:total|count|bytes|percent|secs|ms|dirs|clients))\b")


def test_every_role_has_metrics_on_the_page() -> None:
    assert all(documented()[role] for role in ROLES)


def test_every_metric_that_any_page_names_is_one_of_them() -> None:
    known = set[str]().union(*documented().values())
    for page in PAGE.parent.glob("*.md"):
        assert set(_NAMED.findall(page.read_text())) <= known, page.name
