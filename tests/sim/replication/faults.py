"""What the world does to the cluster: one fault after the other, each with its own end, as the profile weighs them."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from sim.replication.brokers import Broker
from sim.replication.controllers import Controller
from sim.replication.network import Weather
from sim.replication.world import Process

if TYPE_CHECKING:
    from sim.replication.simulation import Cluster

PAUSE_MS = (150.0, 1_800.0)
DOWN_MS = (30.0, 3_500.0)


class Faults:
    """Draws faults until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.random = cluster.world.random
        self.stopped = False
        self.count = 0
        self.unclean: set[int] = set()  # who ended uncleanly and is not in all its ISRs again
        weights = cluster.profile.weights
        self._names, self._weights = list(weights), list(weights.values())

    def start(self) -> None:
        """Begins."""
        if self.world.chance(self.cluster.profile.weather):
            self.storm(for_ms=0)
        self.world.after(self.random.uniform(100, 900), self._next)

    def _next(self) -> None:
        if self.stopped:
            return
        name = self.random.choices(self._names, self._weights)[0]
        self.count += 1
        getattr(self, name)()
        self.world.after(self.random.expovariate(1 / 350), self._next)

    def stop(self) -> None:
        """Heals everything: links, clocks, disks; who is down comes back."""
        self.stopped = True
        self.world.say("faults", "everything heals")
        cluster = self.cluster
        cluster.network.heal()
        for controller in cluster.controllers:
            controller.reachable = True
        everybody: list[Controller | Broker] = [*cluster.controllers, *cluster.brokers]
        for process in everybody:
            if process.paused:
                process.resume()
            if not process.up:
                process.start()
        for broker in cluster.brokers:
            broker.disk.heal()
            broker.draining = False

    def _any(self) -> Broker:
        return self.random.choice(self.cluster.brokers)

    def _say(self, text: str) -> None:
        self.world.say("faults", text)

    # -- brokers end -------------------------------------------------------------------------------------------------

    def _may_end(self, broker: Broker) -> bool:
        """Within the promise: see profiles.py."""
        if not self.cluster.profile.unclean_budget:
            return True
        self.unclean = {broker_id for broker_id in self.unclean if not self.cluster.in_sync(broker_id)}
        return not self.unclean - {broker.broker_id} or len(self.unclean | {broker.broker_id}) < self.cluster.min_isr

    def _end(self, broker: Broker, *, lose_page_cache: bool, torn: bool = False) -> None:
        if not broker.up or not self._may_end(broker):
            return
        self.unclean.add(broker.broker_id)
        broker.kill(lose_page_cache=lose_page_cache)
        if torn:
            broker.tear()
        down_ms = self.random.uniform(*DOWN_MS)
        self.cluster.connection_lost(broker)
        self._restart(broker, down_ms)

    def _restart(self, process: Broker | Controller, down_ms: float) -> None:
        life = process.life

        def restart() -> None:
            if process.life == life and not process.up:
                process.start()

        self.world.after(down_ms, restart)

    def kill(self) -> None:
        self._end(self._any(), lose_page_cache=False)

    def torn_kill(self) -> None:
        self._end(self._any(), lose_page_cache=False, torn=True)

    def power(self) -> None:
        self._end(self._any(), lose_page_cache=True)

    def kill_all(self) -> None:
        for broker in self.random.sample(self.cluster.brokers, len(self.cluster.brokers)):
            self._end(broker, lose_page_cache=False)

    def power_all(self) -> None:
        for broker in self.random.sample(self.cluster.brokers, len(self.cluster.brokers)):
            self._end(broker, lose_page_cache=True)

    def shutdown(self) -> None:
        """Controlled, or without waiting for the controller when that takes too long."""
        broker = self._any()
        if not broker.up or broker.draining:
            return
        self._say(f"{broker.name} is asked to shut down")
        broker.draining = True
        life = broker.life
        down_ms = self.random.uniform(*DOWN_MS)

        def end() -> None:
            if broker.life == life and not broker.paused:
                broker.stop()
            if not broker.up:
                self._restart(broker, down_ms)
            elif broker.life == life:
                self.world.after(500, end)

        self.world.after(1_500, end)

    def pause(self) -> None:
        self._pause(self._any())

    def _pause(self, process: Process) -> None:
        if not process.up or process.paused:
            return
        self._say(f"{process.name} is stopped (SIGSTOP)")
        process.pause()
        life = process.life

        def resume() -> None:
            if process.life == life and process.paused:
                self._say(f"{process.name} goes on (SIGCONT)")
                process.resume()

        self.world.after(self.random.uniform(*PAUSE_MS), resume)

    # -- the network -------------------------------------------------------------------------------------------------

    def _heal_later(self, links: set[tuple[str, str]]) -> None:
        self.world.after(self.random.uniform(150, 2_500), self.cluster.network.cut.difference_update, links)

    def _cut(self, one: Process, other: Process) -> set[tuple[str, str]]:
        both = self.world.chance(0.5)
        self._say(f"{one.name} {'and' if both else 'cannot reach'} {other.name}{' are cut apart' if both else ''}")
        links = {(one.name, other.name)} | ({(other.name, one.name)} if both else set())
        self.cluster.network.cut |= links
        return links

    def cut(self) -> None:
        """One link between brokers."""
        one, other = self.random.sample(self.cluster.brokers, 2)
        self._heal_later(self._cut(one, other))

    def cut_controller(self) -> None:
        """A broker loses the controllers, or they lose it."""
        broker = self._any()
        links: set[tuple[str, str]] = set()
        for controller in self.cluster.controllers:
            pair = (broker, controller) if self.world.chance(0.5) else (controller, broker)
            links |= self._cut(*pair)
        self._heal_later(links)

    def isolate(self) -> None:
        """A broker loses all other brokers; clients still reach it, and perhaps the controllers do."""
        broker = self._any()
        links: set[tuple[str, str]] = set()
        others: list[Process] = [other for other in self.cluster.brokers if other is not broker]
        if self.world.chance(0.5):
            others += self.cluster.controllers
        for other in others:
            links |= {(broker.name, other.name), (other.name, broker.name)}
        self._say(f"{broker.name} is isolated from {', '.join(other.name for other in others)}")
        self.cluster.network.cut |= links
        self._heal_later(links)

    def mute(self) -> None:
        """A broker hears everybody and is heard by nobody, or the other way round; then its partitions are elected."""
        broker, links = self._any(), set()
        heard = self.world.chance(0.3)
        others: list[Process] = [*self.cluster.brokers, *self.cluster.controllers, *self.cluster.idempotent]
        for other in others:
            if other is not broker:
                links.add((other.name, broker.name) if heard else (broker.name, other.name))
        self._say(f"{broker.name} {'is heard and hears nobody' if heard else 'hears and is not heard'}")
        self.cluster.network.cut |= links
        self._heal_later(links)
        for index in range(self.cluster.partitions):
            self.world.after(self.random.uniform(50, 400), self.cluster.elect, index)
            self.world.after(self.random.uniform(1_000, 3_000), self.cluster.elect, index)

    def storm(self, for_ms: float | None = None) -> None:
        """Loss, delay, reordering, duplicates."""
        uniform = self.random.uniform
        weather = Weather(slow=uniform(0, 0.15), loss=uniform(0, 0.06), duplicates=uniform(0, 0.1))
        self._say(f"the network: loss {weather.loss:.2f}, slow {weather.slow:.2f}, twice {weather.duplicates:.2f}")
        before, self.cluster.network.weather = self.cluster.network.weather, weather
        if for_ms is None:
            for_ms = uniform(300, 3_000)

            def clear() -> None:
                if self.cluster.network.weather is weather:
                    self.cluster.network.weather = before

            self.world.after(for_ms, clear)

    # -- controllers ---------------------------------------------------------------------------------------------------

    def controller_kill(self) -> None:
        controller = self.random.choice(self.cluster.controllers)
        if controller.up:
            self._say(f"{controller.name} is killed")
            controller.kill()
            self._restart(controller, self.random.uniform(50, 2_000))

    def controller_zombie(self) -> None:
        """Another one takes the lease, and the active one does not know; or it is stopped past its lease."""
        active = self.cluster.active()
        if active is None:
            return
        if self.world.chance(0.5):
            self._pause(active)
        others = [c for c in self.cluster.controllers if c is not active and c.up and c.reachable and not c.paused]
        if others and self.world.chance(0.6):
            self._say(f"{active.name}'s lease is over")
            self.random.choice(others).activate()

    def controller_database(self) -> None:
        controller = self.random.choice(self.cluster.controllers)
        self._say(f"{controller.name} loses the database")
        controller.reachable = False

        def heal() -> None:
            controller.reachable = True

        self.world.after(self.random.uniform(200, 2_000), heal)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def clock(self) -> None:
        """The wall clock jumps, or the monotonic one runs at another speed from now on."""
        broker = self._any()
        broker.wall_skew_ms = self.random.randrange(-600_000, 600_000)
        self._say(f"{broker.name}'s wall clock is off by {broker.wall_skew_ms / 1000:.0f} s")

    def disk_error(self) -> None:
        broker = self._any()
        self._say(f"{broker.name}'s disk is full for one write")
        broker.disk.fail_next("write", OSError(errno.ENOSPC, "no space left"), after=self.random.randrange(3))

    def delete_records(self) -> None:
        """An operator deletes part of what all producers have acknowledgements for."""
        self.cluster.delete_records(self.random.randrange(self.cluster.partitions))

    def elect(self) -> None:
        """An operator asks for a preferred (where allowed sometimes an unclean) election."""
        self.cluster.elect(self.random.randrange(self.cluster.partitions))

    def reassign(self) -> None:
        """An operator moves a partition, or takes a move back."""
        self.cluster.reassign(self.random.randrange(self.cluster.partitions))
