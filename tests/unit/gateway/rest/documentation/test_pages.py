"""The documentation at /docs: what is vendored is what its package has, and its policy lets in nothing else."""

from __future__ import annotations

import hashlib
import re

import httpx

from support.commands import ROOT

VENDOR = ROOT / "services/gateway/tailrace_gateway/rest/documentation/static/vendor"


def test_every_vendored_file_is_in_the_table_with_its_hash_and_has_a_licence() -> None:
    head, *lines = [line.split("\t") for line in (VENDOR / "versions.tsv").read_text().splitlines()]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    for row in rows:
        assert hashlib.sha256((VENDOR / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]
    notices = {"swagger-ui.LICENSE", "swagger-ui.NOTICE", "swagger-ui-bundle.js.LICENSE"}
    assert {row["file"] for row in rows} | notices | {"versions.tsv"} == {path.name for path in VENDOR.iterdir()}


async def test_the_page_has_its_files_from_the_gateway_and_runs_no_other_script(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy and "connect-src 'self';" in policy and "unsafe" not in policy
    asked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(asked) == 3
    for path in asked:
        assert (await http.get(path)).status_code == 200


async def test_the_bundle_is_sent_compressed(http: httpx.AsyncClient) -> None:
    answer = await http.get("/static/docs/swagger-ui-bundle.js", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 600_000
