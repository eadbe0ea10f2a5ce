"""Whose requests are served: the tables of Host and Origin, and that the app asks them first."""

import random

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.cross_origin import NO_OTHERS, CrossOrigin
from tailrace_gateway.rest.hosts import HostRules, host_of

OWN, ALLOWED = ["build-7", "kafka.example.com"], ["admin.example.com"]


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("Here:8080", "here"),
        ("[::1]:8080", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("a.example.", "a.example"),
        ("", None),
        ("a b", None),
        ("user@host", None),
        ("host:port", None),
        ("[::1", None),
        ("http://host", None),
    ],
)
def test_the_host_of_an_authority(authority: str, host: str | None) -> None:
    assert host_of(authority) == host


@pytest.mark.parametrize(
    ("host", "origin", "is_served"),
    [
        ("127.0.0.1:8080", None, True),
        ("[::1]:8080", None, True),
        ("10.1.2.3", None, True),
        ("localhost:8080", None, True),
        ("tailrace.localhost:8080", None, True),
        ("BUILD-7:8080", None, True),
        ("kafka.example.com.", None, True),
        ("admin.example.com", None, True),
        ("evil.example.com:8080", None, False),
        ("localhost.evil.example.com", None, False),
        ("127.0.0.1.evil.example.com", None, False),
        ("2130706433", None, False),
        (None, None, False),
        ("", None, False),
        ("localhost:8080", "http://localhost:8080", True),
        ("localhost:8080", "https://localhost:8080", True),
        ("localhost:8080", "http://localhost:9999", False),
        ("localhost:8080", "http://evil.example.com", False),
        ("127.0.0.1:8080", "http://6.6.6.6:8080", False),
        ("localhost:8080", "null", False),
        ("localhost:8080", "", False),
        ("build-7:8080", "http://build-7:9999", False),
        ("10.1.2.3:8080", "https://admin.example.com", True),
        ("evil.example.com", "http://evil.example.com", False),
    ],
)
def test_hosts_and_origins(host: str | None, origin: str | None, is_served: bool) -> None:
    assert (HostRules(OWN, ALLOWED).refusal(host, origin) is None) == is_served


def test_a_star_allows_every_host_but_still_no_other_origin() -> None:
    rules = HostRules((), ["*"])
    assert rules.refusal("any.example.com", None) is None
    assert rules.refusal("any.example.com", "http://any.example.com") is None
    assert rules.refusal("any.example.com", "http://evil.example.com")


@pytest.mark.parametrize("headers", [{"host": "evil.example.com"}, {"origin": "http://evil.example.com"}])
@pytest.mark.parametrize("path", ["/", "/openapi.json", "/v3/clusters", "/v3/clusters/memory/topics/orders"])
async def test_a_strangers_page_reads_and_changes_nothing(
    http: httpx.AsyncClient, backend: MemoryBackend, headers: dict[str, str], path: str
) -> None:
    backend.set_topic("orders", 1)
    for method in ("GET", "DELETE", "POST", "OPTIONS"):
        answer = await http.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (403, 403)
        assert "evil.example.com" in answer.json()["message"]
    assert backend.image().topic("orders") and backend.asked == []


UI = "https://ui.example.com"


def pages(backend: MemoryBackend, cross_origin: CrossOrigin) -> httpx.AsyncClient:
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"], (), cross_origin))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")


@pytest.mark.parametrize(("origins", "told"), [((UI,), UI), (("*",), "*")])
async def test_a_page_of_an_allowed_origin_reads_answers(
    backend: MemoryBackend, origins: tuple[str, ...], told: str
) -> None:
    async with pages(backend, CrossOrigin(origins, ("GET", "POST", "HEAD"))) as http:
        answer = await http.get("/v3/clusters", headers={"origin": UI})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, told)
        asks = {"origin": UI, "access-control-request-headers": "authorization,content-type"}
        preflight = await http.options("/v3/clusters", headers={**asks, "access-control-request-method": "POST"})
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, told)
        assert preflight.headers["access-control-allow-methods"] == "GET, POST, HEAD"
        assert "access-control-allow-credentials" not in preflight.headers
        refused = await http.options("/v3/clusters", headers={**asks, "access-control-request-method": "DELETE"})
        assert refused.status_code == 400


async def test_a_page_of_another_origin_is_refused(backend: MemoryBackend) -> None:
    for rules in (CrossOrigin((UI,), ("GET",)), NO_OTHERS):
        async with pages(backend, rules) as http:
            for method in ("GET", "OPTIONS"):
                headers = {"origin": "https://evil.example.com", "access-control-request-method": "GET"}
                answer = await http.request(method, "/v3/clusters", headers=headers)
                assert answer.status_code == 403 and "access.control.allow.origin" in answer.json()["message"]
