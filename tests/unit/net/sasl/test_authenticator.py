"""The states of a login: any order of requests, the answers of Apache Kafka 4.4.0, and what becomes of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient
from structlog.testing import capture_logs

from support.sasl import ALL, authenticator, plain_token, user
from support.sessions import Holder
from tailrace.access.oauthbearer.server import INVALID_TOKEN, VerifiedToken
from tailrace.access.refused import AuthenticationRefused
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.net.identity import ANONYMOUS, Identity
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.seldom import LINES
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.sasl.password_checks import MAX_OF_ADDRESS
from tailrace.net.sasl.settings import SaslSettings
from tailrace.net.session import AUTHENTICATION_MS, AuthenticationState, ClientSession
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest

State = AuthenticationState
METADATA = int(ApiKey.METADATA)
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Tokens:
    """`alice` and `bob` are tokens of theirs, and good for a minute."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    async def verify(self, token: str) -> VerifiedToken:
        if token not in ("alice", "bob"):
            raise AuthenticationRefused("the signature is not right")
        return VerifiedToken(token, int(self._clock.wall_ms()) + MINUTE_MS)


class World:
    """One client of a listener that has the user alice."""

    def __init__(self, max_reauth_ms: int = 0, mechanisms: tuple[str, ...] = ALL) -> None:
        self.clock = ManualClock()
        self.holder = Holder()
        self.sasl: SaslAuthenticator = authenticator(
            self.clock,
            SaslSettings(mechanisms, failed_delay_ms=0, max_reauth_ms=max_reauth_ms),
            user("alice", "right"),
            Tokens(self.clock),
        )
        identity = Identity(client_host="10.0.0.1", client_port=5)
        self.session = ClientSession(self.holder, RoleMemory(), identity, clock=self.clock)
        self.sasl.begin(self.session)

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> tuple[int, list[str]]:
        self.session.take(ApiKey.SASL_HANDSHAKE)
        answer = await self.sasl.handshake(SaslHandshakeRequest(mechanism=mechanism), version, self.session)
        return answer.error_code, list(answer.mechanisms)

    async def token(self, token: bytes) -> Any:
        self.session.take(ApiKey.SASL_AUTHENTICATE)
        return await self.sasl.authenticate(SaslAuthenticateRequest(auth_bytes=token), 2, self.session)

    async def log_in(self, mechanism: str = "PLAIN", name: str = "alice", password: str = "right") -> Any:
        assert await self.handshake(mechanism) == (0, list(ALL))
        if mechanism == "PLAIN":
            return await self.token(plain_token(name, password))
        client = ScramClient(name, password, mechanism)
        first = await self.token(client.first_message())
        assert (first.error_code, first.session_lifetime_ms) == (0, 0)
        client.process_server_first_message(first.auth_bytes)
        last = await self.token(client.final_message())
        if not last.error_code:
            client.process_server_final_message(last.auth_bytes)
        return last

    def counted(self, name: str) -> dict[str, float]:
        families = {family.name: family for family in self.sasl.counts.collect()}
        return {sample.labels.get("mechanism", ""): sample.value for sample in families[f"tailrace_{name}"].samples}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_the_right_password_makes_a_principal(mechanism: str) -> None:
    world = World()
    assert world.session.identity.principal == ANONYMOUS
    answer = await world.log_in(mechanism)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    identity = world.session.identity
    assert world.session.authentication is State.COMPLETE
    assert (identity.principal, identity.sasl_mechanism, identity.session_expiry_ms) == ("User:alice", mechanism, -1)
    assert world.counted("successful_sasl_authentication") == {mechanism: 1}
    world.clock.advance(10 * AUTHENTICATION_MS)
    assert world.session.authentication is State.COMPLETE


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", "right")])
async def test_another_password_or_user_has_one_answer_and_a_line(mechanism: str, name: str, password: str) -> None:
    world = World()
    with capture_logs() as lines:
        answer = await world.log_in(mechanism, name, password)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    (line,) = lines
    said = {key: line[key] for key in ("event", "client", "mechanism", "user")}
    expected = {"event": "authentication failed", "client": "10.0.0.1:5", "mechanism": mechanism, "user": name}
    assert said == expected and password not in str(lines)
    assert world.session.authentication is State.FAILED and world.holder.asked[-1] == "finish"
    assert world.counted("failed_sasl_authentication") == {mechanism: 1}
    with pytest.raises(Malformed, match="authentication failed"):
        await world.handshake()


async def test_a_flood_of_refused_logins_is_some_lines_and_every_one_is_counted() -> None:
    world = World()
    with capture_logs() as lines:
        for _ in range(3 * LINES):
            client = ClientSession(Holder(), RoleMemory(), Identity(), clock=world.clock)
            world.sasl.begin(client)
            await world.sasl.handshake(SaslHandshakeRequest(mechanism="GSSAPI"), 1, client)
    assert len(lines) == LINES
    assert world.counted("failed_sasl_authentication") == {"unsupported": 3 * LINES}


async def test_a_login_by_plain_beyond_those_that_wait_is_refused_as_a_wrong_password_is() -> None:
    world = World()
    sessions = [ClientSession(Holder(), RoleMemory(), world.session.identity, clock=world.clock) for _ in range(40)]
    right = SaslAuthenticateRequest(auth_bytes=plain_token("alice", "right"))
    for session in sessions:
        world.sasl.begin(session)
        await world.sasl.handshake(SaslHandshakeRequest(mechanism="PLAIN"), 1, session)
    with capture_logs() as lines:
        answers = await asyncio.gather(*(world.sasl.authenticate(right, 2, session) for session in sessions))
    codes = [(answer.error_code, answer.error_message) for answer in answers]
    refused = (ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password")
    assert codes == [(0, "")] * MAX_OF_ADDRESS + [refused] * (40 - MAX_OF_ADDRESS)
    assert {line["why"] for line in lines} == {"32 checks of passwords of this address wait"}


async def test_a_users_name_cannot_write_to_the_terminal_of_a_log() -> None:
    with capture_logs() as (lines):
        await World().log_in("PLAIN", "\x1b[2J" + "n" * 200)
    assert lines[0]["user"] == "\\x1b[2J" + "n" * 124


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    world = World(mechanisms=("SCRAM-SHA-256",))
    assert await world.handshake("PLAIN") == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-256"])
    assert world.session.authentication is State.FAILED
    assert world.counted("failed_sasl_authentication") == {"unsupported": 1}


async def test_a_listener_takes_its_own_mechanisms_of_those_of_the_role() -> None:
    world = World()
    world.sasl.begin(world.session, ("SCRAM-SHA-512",))
    assert await world.handshake("PLAIN") == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-512"])


@pytest.mark.parametrize("mechanisms", [(), ALL])
async def test_a_client_that_need_not_log_in_is_in_no_state_to(mechanisms: tuple[str, ...]) -> None:
    world = World(mechanisms=mechanisms)
    if mechanisms:
        await world.log_in()
    assert await world.handshake() == (ErrorCode.ILLEGAL_SASL_STATE, [])
    answer = await world.token(b"")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert world.session.authentication is State.COMPLETE


async def test_a_client_that_does_not_log_in_in_time_must_go() -> None:
    world = World()
    await world.handshake("SCRAM-SHA-256")
    world.clock.advance(AUTHENTICATION_MS - 1)
    assert world.holder.asked == ["authentication changed"] * 2
    world.clock.advance(1)
    assert world.holder.asked[-1] == "not authenticated within 30000 ms: a mechanism is chosen"


async def test_frames_are_small_until_a_client_is_authenticated() -> None:
    world = World()
    assert world.session.most_frame_bytes(1_000_000) == 16_384
    assert world.session.most_frame_bytes(1000) == 1000
    await world.log_in()
    assert world.session.most_frame_bytes(1_000_000) == 1_000_000


# -- KIP-368 ------------------------------------------------------------------------------------------------------


async def test_a_session_ends_and_a_client_may_authenticate_again_before_and_after() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    answer = await world.log_in("SCRAM-SHA-256")
    assert answer.session_lifetime_ms == HOUR_MS
    for passed_ms in (HOUR_MS - 1, HOUR_MS):  # before the end, and at it
        world.session.take(METADATA)
        world.clock.advance(passed_ms)
        again = await world.log_in("SCRAM-SHA-256")
        assert (again.error_code, again.session_lifetime_ms) == (0, HOUR_MS)
    assert world.counted("successful_sasl_reauthentication") == {"SCRAM-SHA-256": 2}
    world.clock.advance(HOUR_MS)
    assert world.session.authentication is State.EXPIRED
    with pytest.raises(Malformed, match="the session is over"):
        world.session.take(METADATA)
    assert world.counted("expired_connections_killed") == {"": 1}


async def test_a_session_that_ends_while_its_client_authenticates_again_goes_on() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in()
    world.clock.advance(HOUR_MS - 1)
    await world.handshake()
    world.clock.advance(10)
    assert world.session.authentication is State.AUTHENTICATE
    assert (await world.token(plain_token("alice", "right"))).error_code == 0


@pytest.mark.parametrize("passed_ms", [2000, HOUR_MS + 1])
async def test_a_client_that_does_not_finish_to_authenticate_again_must_go(passed_ms: int) -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in()
    world.clock.advance(passed_ms)
    await world.handshake("PLAIN")
    world.clock.advance(AUTHENTICATION_MS - 1)
    assert world.holder.asked[-1] == "authentication changed"
    world.clock.advance(1)
    assert world.holder.asked[-1] == "not authenticated within 30000 ms: a mechanism is chosen"


async def test_a_large_request_after_the_end_of_a_session_is_refused_for_that_end() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in()
    world.clock.advance(HOUR_MS)
    assert world.session.most_frame_bytes(1_000_000) == 1_000_000
    with pytest.raises(Malformed, match="the session is over"):
        world.session.take(METADATA)
    await world.handshake(version=0)
    assert world.session.most_frame_bytes(1_000_000) == 16_384, "a token without a header"


async def test_nothing_else_is_taken_while_a_client_authenticates_again() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in()
    world.clock.advance(1000)
    await world.handshake()
    with pytest.raises(Malformed):
        world.session.take(METADATA)


async def test_a_client_does_not_authenticate_again_within_a_second() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in()
    world.clock.advance(999)
    assert await world.handshake() == (ErrorCode.ILLEGAL_SASL_STATE, [])
    world.clock.advance(1)
    assert (await world.handshake())[0] == 0


async def test_neither_the_mechanism_nor_the_principal_can_change() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in("SCRAM-SHA-256")
    world.clock.advance(2000)
    answer = await world.log_in("PLAIN")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "SASL mechanism 'PLAIN' requested by client is not supported for re-authentication of mechanism "
        "'SCRAM-SHA-256'",
    )
    assert world.counted("failed_sasl_reauthentication") == {"PLAIN": 1}
    other = World(max_reauth_ms=HOUR_MS)
    await other.log_in()
    other.session.identify(other.session.identity._replace(principal="User:bob"))
    other.clock.advance(2000)
    answer = await other.log_in()
    assert answer.error_message == ("Cannot change principals during re-authentication from User.bob: User.alice")


async def test_with_its_socket_a_client_takes_the_rest_of_its_session_to_another_process() -> None:
    world = World(max_reauth_ms=HOUR_MS)
    await world.log_in()
    world.clock.advance(HOUR_MS - 5)
    there = ClientSession(Holder(), RoleMemory(), world.session.identity, clock=world.clock)
    world.sasl.go_on(there)
    world.session.forget_expiry()
    world.clock.advance(5)
    assert (world.session.authentication, there.authentication) == (State.COMPLETE, State.EXPIRED)


# -- OAUTHBEARER ----------------------------------------------------------------------------------------------------


async def bearer(world: World, token: str) -> Any:
    assert (await world.handshake("OAUTHBEARER"))[0] == 0
    return await world.token(f"n,,\x01auth=Bearer {token}\x01\x01".encode())


@pytest.mark.parametrize(("max_reauth_ms", "lifetime_ms"), [(0, MINUTE_MS), (5_000, 5_000), (HOUR_MS, MINUTE_MS)])
async def test_a_session_does_not_outlive_its_token(max_reauth_ms: int, lifetime_ms: int) -> None:
    world = World(max_reauth_ms, ("OAUTHBEARER",))
    answer = await bearer(world, "alice")
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", lifetime_ms)
    assert world.session.identity.principal == "User:alice"
    assert world.counted("successful_sasl_authentication") == {"OAUTHBEARER": 1}
    states = [world.session.authentication]
    for passed_ms in (lifetime_ms - 1, 1):
        world.clock.advance(passed_ms)
        states.append(world.session.authentication)
    assert states == [State.COMPLETE, State.COMPLETE, State.EXPIRED]


async def test_a_new_token_of_the_same_user_goes_on() -> None:
    world = World(0, ("OAUTHBEARER",))
    await bearer(world, "alice")
    world.clock.advance(MINUTE_MS - 1)
    assert (await bearer(world, "alice")).session_lifetime_ms == MINUTE_MS
    world.clock.advance(MINUTE_MS - 1)
    assert world.session.authentication is State.COMPLETE
    answer = await bearer(world, "bob")
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"


async def test_a_bad_token_is_reported_once_also_if_its_client_leaves() -> None:
    with capture_logs() as lines:
        world = World(0, ("OAUTHBEARER",))
        answer = await bearer(world, "eve")
        assert (answer.error_code, answer.auth_bytes) == (0, INVALID_TOKEN)
        assert world.session.identity.principal == ANONYMOUS
        assert [(line["mechanism"], line["why"]) for line in lines] == [("OAUTHBEARER", "the signature is not right")]
        answer = await world.token(b"\x01")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        INVALID_TOKEN.decode(),
    )
    assert len(lines) == 1 and world.counted("failed_sasl_authentication") == {"OAUTHBEARER": 1}
    assert world.session.authentication is State.FAILED


# -- tokens without a request (SaslHandshake v0) ---------------------------------------------------------------------


async def test_raw_tokens_are_answered_by_raw_tokens_and_a_failure_by_nothing() -> None:
    world = World()
    assert await world.handshake("SCRAM-SHA-256", version=0) == (0, list(ALL))
    assert world.session.raw_tokens
    client = ScramClient("alice", "right", "SCRAM-SHA-256")
    client.process_server_first_message(await world.sasl.raw_token(client.first_message(), world.session))
    client.process_server_final_message(await world.sasl.raw_token(client.final_message(), world.session))
    assert world.session.authentication is State.COMPLETE and not world.session.raw_tokens
    other = World()
    await other.handshake("PLAIN", version=0)
    with pytest.raises(Malformed, match="authentication failed"):
        await other.sasl.raw_token(plain_token("alice", "wrong"), other.session)


# -- any order ------------------------------------------------------------------------------------------------------

STEPS = st.sampled_from(["handshake", "handshake v0", "other mechanism", "right", "wrong", "junk", "metadata", "time"])


@given(st.lists(STEPS, max_size=8))
@examples(max_examples=150, deadline=None)
def test_no_order_of_requests_lets_a_client_in_without_its_password(steps: list[str]) -> None:
    asyncio.run(_run(steps))


async def _run(steps: list[str]) -> None:
    world = World(max_reauth_ms=HOUR_MS)
    proven = False
    for step in steps:
        try:
            match step:
                case "handshake" | "handshake v0":
                    await world.handshake("PLAIN", version=int(step == "handshake"))
                case "other mechanism":
                    await world.handshake("GSSAPI")
                case "metadata":
                    world.session.take(METADATA)
                    assert proven and world.session.authentication is State.COMPLETE
                case "time":
                    world.clock.advance(HOUR_MS / 2)
                case _:
                    token = plain_token("alice", step) if step != "junk" else b"\0\0"
                    expects = world.session.authentication is State.AUTHENTICATE
                    if world.session.raw_tokens:
                        await world.sasl.raw_token(token, world.session)
                    else:
                        await world.token(token)
                    proven |= expects and step == "right"
        except Malformed:
            return
        assert world.session.authentication is not State.COMPLETE or proven
        assert (world.session.identity.principal == "User:alice") == proven
