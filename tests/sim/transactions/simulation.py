"""One world: clients with transactions, the faults they meet, and what must be true in the end."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass

from sim.transactions.checker import Violation
from sim.transactions.clients import Client, Reader
from sim.transactions.cluster import CHECK_INTERVAL_MS, NEVER_MS, Cluster
from sim.transactions.coordinators import CoordinatorProcess
from sim.transactions.world import STORY_LINES, Weather, World

FAULTS_MS = 3_000
CALM_MS = 800
SKEW_MS = 700
TIMEOUTS_MS = (500, 900, 2_000)
SETTLE_MS = TIMEOUTS_MS[-1] + CHECK_INTERVAL_MS + 2 * SKEW_MS + 1_500
WHOLE_STORY = 1_000_000


@dataclass(frozen=True)
class Outcome:
    """What one world came to; failure is None where every promise was kept."""

    seed: int
    failure: str | None
    story: str
    events: int
    faults: int
    committed: int
    aborted: int


class Simulation:
    """Everything of one world."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        random = world.random
        self.cluster = Cluster(world, random.choice((1, 2, 3)), random.choice((2_500, NEVER_MS, NEVER_MS)))
        self.clients = [
            Client(self.cluster, number, random.choice((1, 2)), random.choice(TIMEOUTS_MS))
            for number in range(random.choice((1, 2, 3)))
        ]
        for client in self.clients:
            client.crashes = random.choice((0.0, 0.1, 0.4))
            if world.chance(0.25):
                self.cluster.preload(client.transactional_id, 2**15 - random.randint(2, 12))
        self.readers = [Reader(self.cluster, log) for log in self.cluster.logs.values()]
        for _ in range(self.cluster.partitions - 1):
            world.after(random.choice((0, random.uniform(0, FAULTS_MS))), self._grow)
        self.faults = 0
        self.stopped = False
        self.pace_ms = random.choice((150, 400, 1_500))

    def run(self) -> None:
        """Raises Violation."""
        world, random = self.world, self.world.random
        world.weather = random.choice(
            (Weather(), Weather(loss=0.02, late=0.5, duplicates=0.05), Weather(0.08, 0.7, 0.1, 0.2))
        )
        self.cluster.repeats = bool(world.weather.duplicates)
        self.cluster.start()
        for reader in self.readers:
            reader.start()
        for client in self.clients:
            world.after(random.uniform(0, 50), client.start)
        world.after(random.expovariate(1 / self.pace_ms), self._fault)
        world.after(FAULTS_MS, self._heal)
        world.after(FAULTS_MS + CALM_MS, self._stop_clients)
        world.run(FAULTS_MS + CALM_MS + SETTLE_MS)
        self._finish()

    # -- faults ------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self.stopped:
            return
        self.faults += 1
        random = self.world.random
        random.choice((self._kill, self._stop, self._move, self._move, self._lead, self._restart, self._jump))()
        self.world.after(random.expovariate(1 / self.pace_ms), self._fault)

    def _kill(self) -> None:
        process = self.world.random.choice(self.cluster.coordinators)
        if process.up:
            process.kill()
            self._lose_later(process)
            life = process.life
            self.world.after(self.world.random.uniform(20, 900), lambda: self._boot(process, life))

    def _boot(self, process: CoordinatorProcess, life: int) -> None:
        if not process.up and process.life == life:
            process.say("starts")
            self.cluster.boot(process)

    def _lose_later(self, process: CoordinatorProcess) -> None:
        life = process.life

        def over() -> None:
            if process.life == life and (not process.up or process.paused):
                self.cluster.lost(process)

        self.world.after(self.world.random.uniform(50, 600), over)

    def _stop(self) -> None:
        random = self.world.random
        process = random.choice([*self.cluster.coordinators, *self.cluster.brokers])
        if process.up and not process.paused:
            process.pause()
            if isinstance(process, CoordinatorProcess):
                self._lose_later(process)
            life = process.life

            def resume() -> None:
                if process.life == life:
                    process.resume()

            self.world.after(random.uniform(50, 1_200), resume)

    def _move(self) -> None:
        random = self.world.random
        others = [one.number for one in self.cluster.coordinators if one.up]
        if others:
            self.cluster.move(random.choice(sorted(self.cluster.shards)), random.choice(others))

    def _lead(self) -> None:
        random = self.world.random
        others = [one.number for one in self.cluster.brokers if one.up]
        self.cluster.lead(random.choice(sorted(self.cluster.logs)), random.choice(others))

    def _restart(self) -> None:
        """A broker is killed and comes back at once, or another one leads."""
        random = self.world.random
        broker = random.choice(self.cluster.brokers)
        broker.kill()
        broker.boot()
        for place, log in self.cluster.logs.items():
            if log.leader == broker.number:
                self.cluster.lead(place, random.randrange(len(self.cluster.brokers)))

    def _jump(self) -> None:
        process = self.world.random.choice(self.cluster.coordinators)
        process.wall_skew_ms = self.world.random.randint(-SKEW_MS, SKEW_MS)
        process.say(f"has a wall clock that is off by {process.wall_skew_ms} ms")

    def _grow(self) -> None:
        """Clients and leaders know of the new partition at once, coordinators some time."""
        reader = Reader(self.cluster, self.cluster.grow())
        self.world.say("controller", f"{reader.log.place} is new")
        self.readers.append(reader)
        reader.start()
        self.cluster.publish()

    def _heal(self) -> None:
        self.stopped = True
        self.world.say("faults", "everything heals")
        self.world.weather = Weather()
        for process in [*self.cluster.coordinators, *self.cluster.brokers]:
            process.wall_skew_ms = 0
            process.resume()
        for process in self.cluster.coordinators:
            if not process.up:
                self.cluster.boot(process)

    def _stop_clients(self) -> None:
        self.world.say("clients", "stop, some in the middle of a transaction")
        for client in self.clients:
            client.stopping = True

    # -- the end -----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        cluster = self.cluster
        for log, reader in zip(cluster.logs.values(), self.readers, strict=True):
            if log.last_stable_offset != log.end_offset:
                raise Violation(f"{log.place} is stable up to {log.last_stable_offset} of {log.end_offset}")
            while reader.offset < log.end_offset:
                reader.read()
        offsets = self._offsets()
        cluster.checker.finish(offsets)
        for place in sorted(cluster.shards):
            cluster.move(place, self.world.random.choice(cluster.coordinators).number)
        self.world.run(self.world.now_ms + 3_000)
        if self._offsets() != offsets:
            raise Violation(f"the next owner of the group has {self._offsets()}, the one before {offsets}")

    def _offsets(self) -> dict[str, int]:
        """What the group's coordinator holds."""
        found = [
            machine
            for process in self.cluster.coordinators
            if process.coordinator is not None
            for machine in process.coordinator.groups.loaded_machines()
        ]
        if len(found) != 1:
            raise Violation(f"{len(found)} coordinators have the group")
        offsets = found[0].offsets
        if len(offsets.pending):
            raise Violation(f"offsets of open transactions are left: {list(offsets.pending)}")
        committed = {one.partition: one.offset for one in offsets}
        return {client.transactional_id: committed.get(client.number, 0) for client in self.clients}


def simulate(seed: int, *, whole_story: bool = False) -> Outcome:
    """One run; the seed decides everything."""
    asyncio.set_event_loop(None)
    simulation = Simulation(seed)
    world = simulation.world
    world.story_lines = WHOLE_STORY if whole_story else STORY_LINES
    failure = None
    try:
        simulation.run()
    except AssertionError as broken:
        failure = str(broken) if isinstance(broken, Violation) else traceback.format_exc()
    except Exception:  # noqa: BLE001 - a mutant may break anything
        failure = traceback.format_exc()
    finally:
        world.close()
    attempts = simulation.cluster.checker.attempts
    return Outcome(
        seed,
        failure,
        world.tell(),
        world.events,
        simulation.faults,
        sum(one.outcome is True for one in attempts),
        sum(one.outcome is False for one in attempts),
    )
