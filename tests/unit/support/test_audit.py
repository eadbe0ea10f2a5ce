"""What the audit says of pip-audit's report."""

from __future__ import annotations

from support.audit import findings


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
