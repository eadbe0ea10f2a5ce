"""The console's files: their policy, compression and tags; what is vendored is what its package has."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import httpx
import pytest

from support.commands import ROOT
from tailrace_gateway.rest.console.assets import asset_of, policy

STATIC = ROOT / "services/gateway/tailrace_gateway/rest/console/static"
VENDOR = STATIC / "vendor"
LINES_MAX = 300
OWN = sorted(path for path in STATIC.rglob("*") if path.is_file() and VENDOR not in path.parents)


def vendored() -> list[dict[str, str]]:
    head, *rows = [line.split("\t") for line in (VENDOR / "versions.tsv").read_text().splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_every_vendored_file_is_in_the_table_with_its_hash_and_has_a_licence() -> None:
    rows = vendored()
    licences = {path.name for path in VENDOR.glob("*.LICENSE")}
    assert {row["file"] for row in rows} | licences | {"versions.tsv"} == {path.name for path in VENDOR.iterdir()}
    for row in rows:
        assert hashlib.sha256((VENDOR / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]
        name = row["package"].removeprefix("@preact/").replace("signals-core", "signals")
        assert f"{name}.LICENSE" in licences, row["package"]


def test_modules_are_short_and_each_page_has_a_folder() -> None:
    assert [path.name for path in OWN if len(path.read_text().splitlines()) > LINES_MAX] == []
    pages = {path.name for path in (STATIC / "pages").iterdir()}
    assert all((STATIC / "pages" / page / "page.js").is_file() for page in pages)
    named = re.findall(r'import\("\./pages/(\w+)/page\.js"\)', (STATIC / "main.js").read_text())
    assert set(named) == pages


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup(path: object) -> None:
    text = (STATIC / str(path)).read_text()
    without_svg = text.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in without_svg and "https:" not in without_svg
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in text, word


def test_the_policy_names_the_one_inline_script_by_its_hash() -> None:
    headers = asset_of("index.html", (STATIC / "index.html").read_bytes()).headers
    assert "script-src 'self' 'sha256-" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy()


async def test_files_are_compressed_and_sent_once(http: httpx.AsyncClient) -> None:
    first = await http.get("/static/console/main.js", headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    assert first.text == (STATIC / "main.js").read_text()
    plain = await http.get("/static/console/main.js", headers={"accept-encoding": "identity"})
    assert plain.text == first.text and "content-encoding" not in plain.headers
    known = {"if-none-match": f'"other", W/{first.headers["etag"]}'}
    again = await http.get("/static/console/main.js", headers=known)
    assert (again.status_code, again.content) == (304, b"")


def loaded_with(path: Path) -> set[Path]:
    """A module with all that it imports before it runs; pages are imported when they are gone to."""
    found, left = set(), [path]
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            names = re.findall(r'^import [^;]* from "(\.[^"]+)"', module.read_text(), re.MULTILINE)
            left += [(module.parent / name).resolve() for name in names]
    return found


def test_the_first_page_is_small() -> None:
    pages = [STATIC / "main.js", STATIC / "pages/overview/page.js"]
    own = {*(module for page in pages for module in loaded_with(page)), STATIC / "index.html", STATIC / "console.css"}
    assert STATIC / "core/state.js" in own and STATIC / "pages/overview/map.js" in own
    assert not any("pages/topics" in str(path) for path in own)
    whole = [*own, *(path for path in VENDOR.iterdir() if path.suffix in TYPES)]
    sizes = {path: len(gzip.compress(path.read_bytes())) for path in whole}
    assert sum(sizes.values()) < 110_000
    assert sum(size for path, size in sizes.items() if path.name != "uPlot.esm.js") < 60_000


TYPES = {".js", ".mjs", ".css"}
