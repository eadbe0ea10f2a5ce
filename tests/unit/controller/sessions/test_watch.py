"""The watch over sessions, on a clock that tests move: silence, and a controller that was itself stopped."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from support.metadata import after, cluster, topic_id
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from tailrace.net.address import Address
from tailrace_controller.controller import Controller
from tailrace_controller.decide import brokers
from tailrace_controller.decision import Decided, decided
from tailrace_controller.sessions.watch import REFUSED, SILENT, STALL_MS, SessionWatch


class LateClock(ManualClock):
    """Its timers can fire late, as those of a stopped process do."""

    late_ms = 0.0

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.late_ms


class Fake:
    """A controller that applies what is decided at once."""

    def __init__(self) -> None:
        image = cluster(2)  # without endpoints: nobody to probe at
        self.image = replace(image, brokers={n: replace(known, endpoints=()) for n, known in image.brokers.items()})
        self.clock = LateClock()
        self.log = structlog.get_logger()
        self.active = True
        self.shared = False
        self.given_away: list[str] = []
        self.written: list[tuple[MetadataRecord, ...]] = []
        self.config = Config.load("controller")

    def on_heartbeat(self) -> None:
        self.given_away.clear()

    def on_silence(self, why: str) -> bool:
        if not self.shared or self.given_away:
            return False
        self.given_away.append(why)
        return True

    async def run(self, decide: Any, *, behind: bool = True) -> Any:
        made: Decided[Any] = decided(decide, self.image, 3)
        if made.records:
            self.written.append(made.records)
        self.image = made.after
        return made.reply

    run_in_thread = run


def fenced(image: MetadataImage) -> list[int]:
    return [broker.broker_id for broker in image.brokers.values() if broker.fenced]


def watching(fake: Fake) -> SessionWatch:
    watch = SessionWatch(cast(Controller, fake), timeout_ms=9000, boot_id="boot")
    watch.on_activated()
    return watch


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_heartbeats_stays_and_who_is_silent_is_fenced_after_the_timeout() -> None:
    fake = Fake()
    watch = watching(fake)
    connection = SimpleNamespace()
    for _ in range(3):
        watch.on_heartbeat("broker", 0, 10, connection)
        fake.clock.advance(2999)
        await turns()
    assert fenced(fake.image) == []
    fake.clock.advance(10)
    await turns()
    assert fenced(fake.image) == [1]
    watch.close()


@pytest.mark.parametrize(("count", "writes"), [(2002, [1001, 1002]), (20, [21])])
async def test_the_leaderships_of_a_broker_with_thousands_of_partitions_move_first(
    count: int, writes: list[int]
) -> None:
    fake = Fake()
    fake.image = after(
        fake.image,
        TopicRecord("t", topic_id(1)),
        *(PartitionRecord(n, topic_id(1), (n % 2, 1 - n % 2), (0, 1), n % 2) for n in range(count)),
    )
    before, epoch = fake.image, fake.image.brokers[1].broker_epoch
    watch = watching(fake)
    watch.on_heartbeat("broker", 0, 10, SimpleNamespace())
    fake.clock.advance(8000)
    watch.on_heartbeat("broker", 0, 10, SimpleNamespace())
    fake.clock.advance(1001)
    await turns()
    assert fenced(fake.image) == [1]
    assert [len(records) for records in fake.written] == writes
    expired = brokers.expire(before, 1, epoch, fake.config)
    assert fake.image.topics == after(before, *expired.records).topics, "as if it were written at once"
    assert brokers.hand_over(fake.image, 1, epoch, fake.config).records == ()
    watch.close()


async def test_a_controller_that_was_stopped_fences_nobody_for_its_own_silence() -> None:
    fake = Fake()
    watch = watching(fake)
    for broker_id in (0, 1):
        watch.on_heartbeat("broker", broker_id, 10 + broker_id, SimpleNamespace())
    fake.clock.late_ms = 60_000
    fake.clock.advance(9000)
    await turns()
    assert fenced(fake.image) == []
    fake.clock.advance(9000 + STALL_MS)  # and still nobody is heard
    await turns()
    assert fenced(fake.image) == [0, 1]
    watch.close()


class Listeners:
    """Says of every probe whether it is refused, as a test has it."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.probes = 0

    async def __call__(self, _address: Address) -> bool:
        self.probes += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def probing(listeners: Listeners) -> tuple[Fake, SessionWatch]:
    fake = Fake()
    fake.image = cluster(2)
    watch = SessionWatch(cast(Controller, fake), timeout_ms=9000, boot_id="boot", refuses=listeners)
    watch.on_activated()
    return fake, watch


async def pass_by(fake: Fake, ms: float) -> None:
    for _ in range(int(ms) // 10):
        fake.clock.advance(10)
        await turns()


async def test_a_broken_connection_and_a_refused_probe_fence_at_once() -> None:
    fake, watch = probing(Listeners(True))
    connection = SimpleNamespace()
    watch.on_heartbeat("broker", 0, 10, connection)
    watch.on_heartbeat("broker", 1, 11, SimpleNamespace())
    watch.on_connection_lost(connection)
    await turns()
    assert (fenced(fake.image), watch.fenced[REFUSED], watch.connection_breaks) == ([0], 1, 1)
    watch.close()


async def test_a_dying_process_whose_listener_closes_last_is_fenced_by_a_later_probe() -> None:
    fake, watch = probing(Listeners(False, False, True))
    connection = SimpleNamespace()
    watch.on_heartbeat("broker", 0, 10, connection)
    watch.on_connection_lost(connection)
    await turns()
    assert fenced(fake.image) == []
    await pass_by(fake, 50)
    assert fenced(fake.image) == [0]
    watch.close()


async def test_connections_that_are_reset_again_and_again_fence_nobody() -> None:
    listeners = Listeners(False)
    fake, watch = probing(listeners)
    for _ in range(50):
        connection = SimpleNamespace()
        watch.on_heartbeat("broker", 0, 10, connection)
        watch.on_connection_lost(connection)
        await pass_by(fake, 20)
    watch.on_heartbeat("broker", 0, 10, SimpleNamespace())
    await pass_by(fake, 3000)
    assert (fenced(fake.image), watch.connection_breaks, watch.false_fences) == ([], 50, 0)
    assert listeners.probes >= 50
    watch.close()


async def test_whoever_answers_but_is_silent_is_probed_for_a_second_and_fenced_after_the_timeout() -> None:
    listeners = Listeners(False)
    fake, watch = probing(listeners)
    connection = SimpleNamespace()
    watch.on_heartbeat("broker", 0, 10, connection)
    watch.on_heartbeat("broker", 1, 11, SimpleNamespace())
    watch.on_connection_lost(connection)
    await pass_by(fake, 5000)
    probes = listeners.probes
    watch.on_heartbeat("broker", 1, 11, SimpleNamespace())
    await pass_by(fake, 5000)
    assert (fenced(fake.image), watch.fenced[SILENT], listeners.probes) == ([0], 1, probes)
    watch.on_heartbeat("broker", 0, 10, SimpleNamespace())  # it had been stopped, and goes on
    assert watch.false_fences == 1
    watch.close()


async def test_a_closed_watch_hears_no_connection_break() -> None:
    fake = Fake()
    watch = watching(fake)
    connection = SimpleNamespace()
    watch.on_heartbeat("broker", 0, 10, connection)
    watch.close()
    watch.on_connection_lost(connection)
    await turns()
    assert watch.sessions.is_connected("broker", 0, besides=None)


async def test_a_controller_that_hears_nobody_at_all_gives_the_lease_away_once_before_it_fences_everybody() -> None:
    fake = Fake()
    fake.shared = True
    watching(fake)
    fake.clock.advance(9000)
    await turns()
    assert fake.given_away == ["nobody was heard for a session"]
    assert fenced(fake.image) == []
    fake.clock.advance(9000)
    await turns()
    assert fenced(fake.image) == [0, 1]


async def test_nobody_is_fenced_for_silence_while_the_controller_waits_for_its_database() -> None:
    fake = Fake()
    watching(fake)
    fake.active = False
    fake.clock.advance(30_000)
    await turns()
    fake.active = True
    fake.clock.advance(5000)  # the last prolonging was at 27 s
    await turns()
    assert fenced(fake.image) == []
    fake.clock.advance(9000)
    await turns()
    assert fenced(fake.image) == [0, 1]
