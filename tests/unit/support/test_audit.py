"""What the audit says of pip-audit's report."""

from __future__ import annotations

import json

from support.audit import findings, verdict


def test_a_package_that_was_not_looked_up_counts_as_not_audited() -> None:
    report = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "skipped", "skip_reason": "Dependency not found on PyPI"},
            {"name": "bad", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}, {"id": "CVE-2"}]},
        ]
    }
    assert findings(report, dict.fromkeys(("good", "skipped", "bad", "missing"), "1")) == [
        "skipped 1: not audited: Dependency not found on PyPI",
        "bad 1: CVE-1, fixed in 2",
        "bad 1: CVE-2, fixed in no version",
        "missing 1: not audited: it is not in the report",
    ]
    assert findings({}, {"good": "1"}) == ["good 1: not audited: it is not in the report"]


def test_a_database_that_does_not_answer_is_no_clean_bill() -> None:
    pinned = {"good": "1", "bad": "2"}
    assert verdict("", pinned) == ("2 packages: not audited: pip-audit gave no report\n", 2)
    skipped = [{"name": name, "skip_reason": "no answer"} for name in pinned]
    assert verdict(json.dumps({"dependencies": skipped}), pinned) == (
        "good 1: not audited: no answer\nbad 2: not audited: no answer\n",
        1,
    )
    found = [{"name": name, "version": version, "vulns": []} for name, version in pinned.items()]
    assert verdict(json.dumps({"dependencies": found}), pinned) == ("2 packages: no advisory\n", 0)
