"""What one step of an examination found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from tailrace.cli.daily.connection import counted

_DAY_MS: Final = 86_400_000
_SOON_DAYS: Final = 30
_CLOCK_MS: Final = 5_000
_NAMED_MAX: Final = 5
_USER, _CLIENT_ID = "user", "client-id"


PartitionState: TypeAlias = tuple[Sequence[int], Sequence[int], int]  # replicas, in-sync replicas, leader


class State(StrEnum):
    """fail: a client would have an error. warn: it works, and something may go wrong. skip: not looked at."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class StepFinding(NamedTuple):
    """One step; `advice` says what to set."""

    step: str
    state: State
    sentence: str
    advice: str = ""


class TopicState(NamedTuple):
    """A topic's partitions with replicas, in-sync replicas and leader (-1: none), and its min.insync.replicas."""

    name: str
    partitions: Mapping[int, PartitionState]
    min_insync_replicas: int


def of_certificate(at: str, names: Sequence[str], ends_ms: float, now_ms: float) -> StepFinding:
    """A certificate that was accepted, and for how long it will be."""
    days = int((ends_ms - now_ms) // _DAY_MS)
    said = f"{at} shows a certificate for {', '.join(names) or 'no name'}, valid for {days} more days"
    if days < _SOON_DAYS:
        return StepFinding(
            "certificate",
            State.WARN,
            said,
            "Renew it before it ends: `tailrace cert renew`, or a new file for ssl.keystore.location",
        )
    return StepFinding("certificate", State.OK, said)


def of_topics(topics: Sequence[TopicState]) -> StepFinding:
    """Whether every partition has a leader, and takes records at acks=all."""
    leaderless = [
        f"{topic.name}-{index}" for topic in topics for index, part in topic.partitions.items() if part[2] < 0
    ]
    if leaderless:
        return StepFinding(
            "topics",
            State.FAIL,
            f"{_named(leaderless)} has no leader, and is neither written nor read",
            "Start the brokers of its replicas; `tailrace status` names them",
        )
    below = [
        f"{topic.name}-{index}"
        for topic in topics
        for index, part in topic.partitions.items()
        if len(part[1]) < min(topic.min_insync_replicas, len(part[0]))  # as the leader counts (KIP-966)
    ]
    if below:
        return StepFinding(
            "topics",
            State.FAIL,
            f"{_named(below)} has fewer in-sync replicas than min.insync.replicas: acks=all is refused "
            "(NOT_ENOUGH_REPLICAS) until a broker is back",
            "Start the brokers that are away; `tailrace broker list` shows which are fenced",
        )
    behind = [
        f"{topic.name}-{index}"
        for topic in topics
        for index, part in topic.partitions.items()
        if len(part[1]) < len(part[0])
    ]
    if behind:
        return StepFinding(
            "topics", State.WARN, f"{_named(behind)} has replicas that are not in sync", "`tailrace status` shows which"
        )
    count = sum(len(topic.partitions) for topic in topics)
    return StepFinding(
        "topics",
        State.OK,
        f"{counted(count, 'partition')} of {counted(len(topics), 'topic')}: each has a leader and takes acks=all",
    )


def of_quotas(
    entries: Sequence[tuple[Mapping[str, str | None], Mapping[str, float]]], client: Mapping[str, str]
) -> StepFinding:
    """The limits that hold for a client: of each key the most specific entity's, in Kafka's order."""
    found: dict[str, tuple[int, float]] = {}
    for entity, values in entries:
        if not entity.keys() <= client.keys():
            continue
        if any(name is not None and name != client[kind] for kind, name in entity.items()):
            continue
        rank = _rank(entity)
        for key, value in values.items():
            if key not in found or rank > found[key][0]:
                found[key] = rank, value
    who = ", ".join(f"{kind} {name}" for kind, name in client.items())
    rest = "" if _USER in client else "; its user is not known here, and so are no quotas of users"
    if not found:
        return StepFinding("quotas", State.OK, f"no quota holds for {who}{rest}")
    limits = ", ".join(f"{key} {value:g}" for key, (_, value) in sorted(found.items()))
    return StepFinding("quotas", State.OK, f"for {who} hold {limits}{rest}")


def _rank(entity: Mapping[str, str | None]) -> int:
    """A user counts for more than a client id, a name for more than the default (Kafka's ClientQuotaManager)."""
    rank = 0
    for kind, weight in ((_USER, 8), (_CLIENT_ID, 2)):
        if kind in entity:
            rank += weight + (weight // 2 if entity[kind] is not None else 0)
    return rank


def of_throttle(throttle_time_ms: int, client: Mapping[str, str]) -> StepFinding:
    """Whether the cluster held an answer of this examination back."""
    if not throttle_time_ms:
        return StepFinding("throttle", State.OK, "no answer was held back")
    return StepFinding(
        "throttle",
        State.WARN,
        f"the cluster holds this client's answers back, for up to {throttle_time_ms} ms: it is over a quota",
        "`tailrace quota top` shows by whom it is used; `tailrace quota set "
        + " ".join(f"--{kind} {name}" for kind, name in client.items())
        + " KEY=VALUE` changes it",
    )


def of_clock(here_ms: float, there_ms: float, trip_ms: float) -> StepFinding:
    """This machine's clock against the leader's; trip_ms: the time of the request, within which no difference shows."""
    difference_ms = here_ms - there_ms
    if abs(difference_ms) <= _CLOCK_MS + trip_ms:
        return StepFinding(
            "clock", State.OK, f"this machine's clock and the leader's agree to {abs(difference_ms):.0f} ms"
        )
    way = "ahead of" if difference_ms > 0 else "behind"
    return StepFinding(
        "clock",
        State.WARN,
        f"this machine's clock is {abs(difference_ms) / 1000:.1f} s {way} the leader's: timestamps, retention and "
        "seeking by time are wrong by that",
        "Let both keep time by NTP (`timedatectl`)",
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
