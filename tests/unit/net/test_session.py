"""The session of one client: what authentication lets through, and how what quotas tell becomes a mute."""

from __future__ import annotations

import pytest

from support.sessions import Holder
from tailrace.clock import ManualClock
from tailrace.net.identity import Identity
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.quotas.meter import Meter, Unmetered
from tailrace.net.session import AuthenticationState, ClientSession
from tailrace.wire.malformed import Malformed

API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 17, 36
ASKED = (API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE)


class Indebted(Unmetered):
    def indebted(self) -> int:
        return 70


class World:
    def __init__(self, meter: Meter | None = None) -> None:
        self.clock, self.holder, self.memory, self.counted = ManualClock(), Holder(), RoleMemory(), list[int]()
        self.session = ClientSession(
            self.holder, self.memory, Identity(), lambda client_id: meter or Unmetered(), self.clock
        )
        self.session.on_throttle = self.counted.append


@pytest.mark.parametrize(
    ("state", "taken"),
    [
        (AuthenticationState.HANDSHAKE, {API_VERSIONS, SASL_HANDSHAKE}),
        (AuthenticationState.AUTHENTICATE, {SASL_AUTHENTICATE}),
        (AuthenticationState.COMPLETE, set(ASKED)),
    ],
)
def test_each_state_of_authentication_takes_its_requests(state: AuthenticationState, taken: set[int]) -> None:
    session = World().session
    session.authentication = state
    for api_key in ASKED:
        if api_key in taken:
            session.take(api_key)
        else:
            with pytest.raises(Malformed, match="before authentication"):
                session.take(api_key)


def test_without_sasl_a_client_is_authenticated_at_once() -> None:
    assert World().session.authentication is AuthenticationState.COMPLETE


def test_what_was_told_in_one_read_is_one_mute_of_the_longest() -> None:
    world = World()
    world.session.report_throttle(70)
    world.session.report_throttle(30)
    assert world.session.to_be_muted and world.session.throttle_time_ms == 70 and world.counted == []
    world.session.mute()
    assert not world.session.to_be_muted and world.counted == [70]
    world.clock.advance(69)
    assert world.holder.asked == [] and world.session.throttle_time_ms == 70
    world.clock.advance(1)
    assert world.holder.asked == ["unmuted"] and world.session.throttle_time_ms == 0


def test_a_throttle_outside_a_read_is_for_the_connection_to_mute() -> None:
    world = World()
    world.session.throttle(70)
    assert world.holder.asked == ["throttled"] and world.session.to_be_muted


def test_a_client_in_debt_owes_once_for_each_client_id() -> None:
    world = World(Indebted())
    assert world.session.may_owe and world.session.owes() and world.session.throttle_time_ms == 70
    assert not world.session.may_owe
    world.session.rename(b"another")
    assert world.session.may_owe and world.session.client_id == b"another"


def test_a_session_that_has_ended_is_not_unmuted_and_holds_no_memory() -> None:
    world = World()
    assert world.session.share.take(1_000_000)
    world.session.throttle(70)
    world.session.mute()
    world.session.end()
    world.clock.advance(1000)
    assert world.holder.asked == ["throttled"] and world.memory.requests.used_bytes == 0


def test_a_login_that_succeeds_after_the_end_starts_no_timer() -> None:
    world = World()
    world.session.require_sasl(1000)
    world.session.end()
    world.session.authenticated("User:alice", "PLAIN", 5000)
    world.clock.advance(5000)
    assert world.session.authentication is AuthenticationState.HANDSHAKE
    assert world.session.identity.sasl_mechanism == "" and world.holder.asked == ["authentication changed"]


def test_the_address_of_the_client_is_that_of_its_identity() -> None:
    world = World()
    assert not world.session.is_service
    world.session.identify(Identity(client_host="10.0.0.1", listener="INTERNAL"))
    assert world.session.share.address == "10.0.0.1" and world.session.is_service


def test_of_long_names_of_software_the_beginning_is_kept() -> None:
    session = World().session
    session.name_software("n" * 30_000, "1.2")
    assert (session.software_name, session.software_version) == ("n" * 64, "1.2")
