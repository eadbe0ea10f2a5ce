"""The login before the whole app: HTTP Basic, and the sessions of browsers."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from support.users import SHA_512, credential
from tailrace.access.oauthbearer.server import TokenVerifier, VerifiedToken
from tailrace.access.refused import AuthenticationRefused
from tailrace.clock import ManualClock
from tailrace.metadata.image import MetadataImage
from tailrace.net.sasl.credentials import UserCredentials
from tailrace_gateway.rest.access.rest_access import FailedLogin, Login, RestAccess
from tailrace_gateway.rest.access.sessions import IDLE_SECONDS, MAX_SECONDS, RENEWED_AFTER_SECONDS, BrowserSessions
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

DELAY_MS = 100.0
SECRET = bytes(32)
FORM = {"user": "alice", "password": "wonder:land"}
CLUSTERS = "/v3/clusters"
TOPICS = f"{CLUSTERS}/memory/topics"
NEW_TOPIC = {"topic_name": "t", "partitions_count": 1}
CSRF = "X-Tailrace-CSRF"
PAGES = (
    "/",
    "/docs",
    "/openapi.json",
    "/static/console/main.js",
    "/console/events?part=0:status",
    "/v3/clusters",
    "/no/such/page",
)


class OneUser:
    """alice, whose password is wonder:land."""

    async def are_right(self, user: str, password: str) -> bool:
        return (user, password) == ("alice", "wonder:land")


class OneToken:
    """Takes `good`, which is alice's."""

    async def verify(self, token: str) -> VerifiedToken:
        if token != "good":
            raise AuthenticationRefused("a bad signature")
        return VerifiedToken("alice", 5_000)


class TellingClock(ManualClock):
    """Says that somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = asyncio.Event()

    async def sleep(self, delay_ms: float) -> None:
        self.waited_for.set()
        await super().sleep(delay_ms)


@pytest.fixture
def clock() -> TellingClock:
    return TellingClock()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(lambda asked: True)


@pytest.fixture
def failures() -> list[FailedLogin]:
    return []


@pytest.fixture
async def client(
    backend: MemoryBackend, clock: TellingClock, recorder: Recorder, failures: list[FailedLogin]
) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(backend, clock, recorder, failures, "http") as made:
        yield made


@pytest.fixture
async def secure(
    backend: MemoryBackend, clock: TellingClock, recorder: Recorder, failures: list[FailedLogin]
) -> AsyncIterator[httpx.AsyncClient]:
    """Over TLS, and with what browsers say of a page's requests."""
    async with browser(backend, clock, recorder, failures, "https") as made:
        made.headers["sec-fetch-mode"] = "cors"
        yield made


def browser(
    backend: MemoryBackend,
    clock: ManualClock,
    recorder: Recorder,
    failures: list[FailedLogin],
    scheme: str,
    verifier: TokenVerifier | None = None,
) -> httpx.AsyncClient:
    users = UserCredentials(
        lambda: MetadataImage(scram={"alice": {SHA_512: credential("alice", "wonder:land")}}), lambda: SECRET
    )
    sessions = BrowserSessions(users, lambda: SECRET)
    login = Login(OneUser(), sessions, DELAY_MS, failures.append, verifier)
    access = RestAccess(login=login, authorizer=recorder)
    app = create_app(backend, clock, random.Random(1), HostRules(["here"]), access)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"{scheme}://here")


def wrong_password(user: str) -> FailedLogin:
    return FailedLogin("127.0.0.1", "BASIC", user, "Authentication failed: Invalid username or password")


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_asks_for_a_login(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Tailrace", charset="UTF-8"'
    assert answer.json()["error_code"] == 401


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !", "Bearer eA==", basic("alice"), "Basic /w==", basic("alice:wonder:land") + "!"]
)
async def test_what_is_no_login_is_asked_again(client: httpx.AsyncClient, header: str) -> None:
    assert (await client.get("/v3/clusters", headers={"authorization": header})).status_code == 401


async def test_two_logins_are_none(client: httpx.AsyncClient) -> None:
    twice = [("authorization", basic("alice:wonder:land"))] * 2
    assert (await client.get("/v3/clusters", headers=twice)).status_code == 401


async def test_the_user_is_the_principal_of_what_is_asked(client: httpx.AsyncClient, recorder: Recorder) -> None:
    answer = await client.get("/v3/clusters", headers={"authorization": basic("alice:wonder:land")})
    assert answer.status_code == 200
    assert Asked("DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster") in recorder.asked


async def test_a_wrong_password_is_told_and_answered_after_the_delay(
    client: httpx.AsyncClient, clock: TellingClock, failures: list[FailedLogin]
) -> None:
    asking = asyncio.create_task(client.get("/v3/clusters", headers={"authorization": basic("alice:white rabbit")}))
    await clock.waited_for.wait()
    clock.advance(DELAY_MS - 1)
    await asyncio.sleep(0)
    assert not asking.done() and failures == [wrong_password("alice")]
    clock.advance(1)
    answer = await asking
    assert answer.status_code == 401 and "rabbit" not in answer.text


HTML = {"accept": "text/html,*/*;q=0.8"}


async def log_in(client: httpx.AsyncClient, **more: str) -> httpx.Response:
    answer = await client.post("/login", data={**FORM, **more})
    assert answer.status_code == 303, answer.text
    return answer


async def test_a_browser_is_sent_to_the_login_page_and_back(client: httpx.AsyncClient, recorder: Recorder) -> None:
    sent = await client.get("/docs?x=1&y=2", headers=HTML)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Fdocs%3Fx%3D1%26y%3D2")
    page = await client.get(sent.headers["location"])
    assert page.status_code == 200 and 'value="/docs?x=1&amp;y=2"' in page.text
    assert "<script" not in page.text and "script-src" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (await client.get("/static/page.css")).status_code == 200  # all that the page loads
    done = await log_in(client, next="/docs?x=1&y=2")
    assert done.headers["location"] == "/docs?x=1&y=2"
    assert (await client.get("/docs", headers=HTML)).status_code == 200
    assert (await client.get(CLUSTERS)).status_code == 200
    assert Asked("DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster") in recorder.asked


@pytest.mark.parametrize("place", ["https://evil.example", "//evil.example", "/\\evil.example", "", "docs", "/a\nb"])
async def test_a_login_leads_to_no_other_site(client: httpx.AsyncClient, place: str) -> None:
    assert (await log_in(client, next=place)).headers["location"] == "/"


async def test_the_sessions_cookie_is_for_this_host_over_tls_and_no_script(secure: httpx.AsyncClient) -> None:
    session, csrf = (await log_in(secure)).headers.get_list("set-cookie")
    name, _, attributes = session.partition("=")
    assert name == "__Host-tailrace-session"
    assert set(attributes.split("; ")[1:]) == {
        "Path=/",
        f"Max-Age={MAX_SECONDS}",
        "SameSite=Strict",
        "Secure",
        "HttpOnly",
    }
    assert csrf.startswith(f"{CSRF}=") and "HttpOnly" not in csrf and "SameSite=Strict; Secure" in csrf


async def test_a_change_by_a_session_needs_its_csrf_token(secure: httpx.AsyncClient, backend: MemoryBackend) -> None:
    await log_in(secure)
    token = secure.cookies[CSRF]
    for headers in ({}, {CSRF: ""}, {CSRF: "x" + token}):
        answer = await secure.post(TOPICS, json=NEW_TOPIC, headers=headers)
        assert (answer.status_code, CSRF in answer.json()["message"]) == (403, True)
    assert backend.asked == []
    assert (await secure.post(TOPICS, json=NEW_TOPIC, headers={CSRF: token})).status_code == 201
    await secure.post("/logout")
    await log_in(secure)
    assert (await secure.post(TOPICS, json=NEW_TOPIC, headers={CSRF: token})).status_code == 403  # of another session


async def test_a_program_with_a_password_needs_no_csrf_token(client: httpx.AsyncClient) -> None:
    alice = {"authorization": basic("alice:wonder:land")}
    assert (await client.post(TOPICS, json=NEW_TOPIC, headers=alice)).status_code == 201


async def test_what_a_page_asks_for_without_a_session_opens_no_dialog(secure: httpx.AsyncClient) -> None:
    answer = await secure.get(CLUSTERS)
    assert answer.status_code == 401 and "www-authenticate" not in answer.headers


async def test_a_browser_that_says_nothing_of_itself_is_known_by_its_old_cookie(
    client: httpx.AsyncClient, clock: TellingClock
) -> None:
    await log_in(client)
    clock.advance(IDLE_SECONDS * 1000)
    answer = await client.get(CLUSTERS)
    assert answer.status_code == 401 and "www-authenticate" not in answer.headers


async def test_sign_out_deletes_the_cookies(secure: httpx.AsyncClient) -> None:
    await log_in(secure)
    assert "Sign out" in (page := await secure.get("/login")).text and "alice" in page.text
    done = await secure.post("/logout")
    assert (done.status_code, done.headers["location"]) == (303, "/login")
    assert dict(secure.cookies) == {}
    assert (await secure.get(CLUSTERS)).status_code == 401
    assert "Sign out" not in (await secure.get("/login")).text


async def test_a_session_that_is_used_goes_on_until_its_end(secure: httpx.AsyncClient, clock: TellingClock) -> None:
    await log_in(secure)
    step = IDLE_SECONDS - 1
    for _ in range(MAX_SECONDS // step):
        clock.advance(step * 1000)
        assert (await secure.get(CLUSTERS)).status_code == 200
    clock.advance(step * 1000)
    assert (await secure.get(CLUSTERS)).status_code == 401


async def test_a_token_is_renewed_once_a_minute(secure: httpx.AsyncClient, clock: TellingClock) -> None:
    await log_in(secure)
    renewed = []
    for _ in range(3):
        clock.advance((RENEWED_AFTER_SECONDS - 1) * 1000)
        renewed.append("set-cookie" in (await secure.get(CLUSTERS)).headers)
    assert renewed == [False, True, False]


async def test_a_wrong_password_is_answered_by_the_form_after_the_delay(
    client: httpx.AsyncClient, clock: TellingClock, failures: list[FailedLogin]
) -> None:
    wrong = {"user": "<b>alice", "password": "white rabbit", "next": "/docs"}
    asking = asyncio.create_task(client.post("/login", data=wrong))
    await clock.waited_for.wait()
    clock.advance(DELAY_MS)
    answer = await asking
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert "not right" in answer.text and 'value="/docs"' in answer.text
    assert "rabbit" not in answer.text and "<b>" not in answer.text and failures == [wrong_password("<b>alice")]


@pytest.mark.parametrize("body", [b"x" * 9000, b"user=%ff&password=x", "user=é".encode(), b"&a=" * 20])
async def test_what_is_no_form_is_refused(client: httpx.AsyncClient, body: bytes, failures: list[FailedLogin]) -> None:
    assert (await client.post("/login", content=body)).status_code == 400
    assert failures == []


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/login"), ("GET", "/logout"), ("PUT", "/logout")])
async def test_other_methods_are_refused(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405 and "POST" in answer.headers["allow"]


async def test_a_login_from_another_origin_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/login", data=FORM, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/static%2Fpage.css", "/login%2F", "/Login", "/static/page.css/x", "//login"])
async def test_only_these_paths_need_no_login(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 401


@pytest.fixture
async def with_tokens(
    backend: MemoryBackend, clock: TellingClock, recorder: Recorder, failures: list[FailedLogin]
) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(backend, clock, recorder, failures, "http", OneToken()) as made:
        yield made


async def test_a_bearer_token_is_a_login_where_tokens_are_taken(
    with_tokens: httpx.AsyncClient, client: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    asked = await with_tokens.get(CLUSTERS)
    assert [one.partition(" ")[0] for one in asked.headers.get_list("www-authenticate")] == ["Basic", "Bearer"]
    good = {"authorization": "Bearer good"}
    assert (await with_tokens.post(TOPICS, json=NEW_TOPIC, headers=good)).status_code == 201
    assert (await client.get(CLUSTERS, headers=good)).status_code == 401


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer good bad", "Bearer !", "Token good"])
async def test_what_is_no_bearer_token_is_asked_again(with_tokens: httpx.AsyncClient, header: str) -> None:
    assert (await with_tokens.get(CLUSTERS, headers={"authorization": header})).status_code == 401


async def test_a_bad_token_is_reported_and_answered_after_the_delay(
    with_tokens: httpx.AsyncClient, clock: TellingClock, failures: list[FailedLogin]
) -> None:
    asking = asyncio.create_task(with_tokens.get(CLUSTERS, headers={"authorization": "Bearer bad"}))
    await clock.waited_for.wait()
    clock.advance(DELAY_MS)
    assert (await asking).status_code == 401
    assert failures == [FailedLogin("127.0.0.1", "OAUTHBEARER", "", "a bad signature")]
