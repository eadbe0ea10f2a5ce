"""A random life of one client from a seed: 1 to 64 connections over 1 to 4 gateways or brokers, and all that happens to
them. Up to 100 other brokers hold leases of others and none of the client's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from sim.quota.bound import Watch, Windows
from sim.quota.shared_world import SharedWorld
from sim.quota.world import Connection, World

END_MS = 24_000
MOVES_MS, BREAKS_MS = 2500, 5000  # at least between two shifts of the load, and two deaths or changes of the quota
CONNECTIONS_MOST = 64
IDLE_BROKERS = (0, 0, 3, 100)


@dataclass(frozen=True)
class Outcome:
    """What a life came to: the worst window's distance from each bound, above zero where it was broken."""

    seed: int
    beyond_s: float
    below: float
    what: str
    happened: frozenset[str]

    @property
    def story(self) -> str:
        return self.what

    @property
    def failure(self) -> str | None:
        if self.beyond_s > 0:
            return f"{self.beyond_s:.2f} s of its rate above the bound"
        return f"{self.below:.3f} of its rate below the bound" if self.below > 0 else None


class Life:
    """One client's connections. An eager client always asks for more than its rate; others come and go."""

    def __init__(self, seed: int, *, shared: bool = False) -> None:
        self.random = random = Random(seed)
        self.eager = random.random() < 0.6
        gateways = random.randint(1, 4)
        rate = 10 ** random.uniform(4, 7)
        idle = Random(f"idle brokers of {seed}").choice(IDLE_BROKERS)
        self.world: World = (
            SharedWorld(seed, rate, gateways, idle=idle) if shared else World(seed, rate, gateways, idle=idle)
        )
        self.watch = Watch(self.world)
        # Of 10 ms of the rate and more: a single connection of an eager client still asks for more than the rate.
        self.size_bytes = max(20, int(rate * 10 ** random.uniform(-2.0, -0.5)))
        self.think_ms = 1.0 if self.eager else random.choice([1.0, 10.0, 100.0, 1000.0])
        self.weights = self.skewed()
        self.count = min(CONNECTIONS_MOST, int(2 ** random.uniform(0, 6.01)))
        self.pace_ms = random.choice([500, 2000, 5000])
        self.next_ms = {"moves": 0.0, "breaks": 0.0}
        self.happened: set[str] = set()
        size_s = self.size_bytes / rate
        self.what = f"{gateways} of {gateways + idle} holders, {self.count} connections, requests of {size_s:.3f} s"
        self.come(self.count)

    def run(self) -> Outcome:
        steps = {
            "move": self.move, "shift": self.shift, "come": self.come_some, "go": self.go,
            "rate": self.change_rate, "break": self.kill_or_start, "silence": self.silence,
        }  # fmt: skip
        while True:
            at_ms = self.world.now_ms + self.random.expovariate(1 / self.pace_ms)
            if at_ms >= END_MS:
                break
            self.world.run(at_ms)
            name = self.random.choice(list(steps))
            if self.due(name):
                steps[name]()
        self.world.run(END_MS)
        windows = Windows(self.watch)
        below = windows.worst(windows.below_the_least) if self.eager else -math.inf
        beyond_s = windows.worst(windows.beyond_the_most)
        return Outcome(self.world.seed, beyond_s, below, self.what, frozenset(self.happened))

    def due(self, name: str) -> bool:
        kind, pace_ms = {"move": ("moves", MOVES_MS), "shift": ("moves", MOVES_MS)}.get(name, ("breaks", BREAKS_MS))
        if name in ("come", "go") or (name == "silence" and not self.eager):
            return True
        if name == "silence" or self.world.now_ms < self.next_ms[kind]:
            return False
        self.next_ms[kind] = self.world.now_ms + pace_ms
        self.happened.add(name)
        return True

    def skewed(self) -> list[float]:
        return [10 ** self.random.uniform(-2, 0) for _ in self.world.gateways]

    def open(self) -> list[Connection]:
        return [one for one in self.world.connections if one.open]

    def pick(self) -> int:
        alive = [at for at in range(len(self.world.gateways)) if at not in self.world.dead]
        return self.random.choices(alive, [self.weights[at] for at in alive])[0]

    def come(self, count: int) -> None:
        for _ in range(count):
            self.world.connect(self.pick(), int(self.size_bytes * self.random.uniform(0.5, 1)), self.think_ms)

    def come_some(self) -> None:
        left = max(0, CONNECTIONS_MOST - len(self.open()))
        self.come(self.random.randint(0, left))

    def go(self) -> None:
        present = self.open()
        for one in self.random.sample(present, self.random.randint(0, max(0, len(present) - 1))):
            self.world.close(one)

    def move(self) -> None:
        """Some connections, perhaps all, go to one gateway."""
        present, gateway = self.open(), self.pick()
        for one in self.random.sample(present, self.random.randint(min(1, len(present)), len(present))):
            self.reopen(one, gateway)

    def shift(self) -> None:
        """All connections are spread otherwise."""
        self.weights = self.skewed()
        for one in self.open():
            self.reopen(one, self.pick())

    def reopen(self, one: Connection, gateway: int) -> None:
        if one.gateway != gateway:
            self.world.close(one)
            self.world.connect(gateway, one.size_bytes, one.think_ms)

    def silence(self) -> None:
        """A client that leaves and comes back."""
        for one in self.open():
            self.world.close(one)
        self.world.run(min(END_MS - 1.0, self.world.now_ms + self.random.choice([100, 300, 1000, 3000])))
        self.come(self.count)

    def change_rate(self) -> None:
        self.watch.set_rate(self.world.rate * 10 ** self.random.uniform(-0.3, 0.3))

    def kill_or_start(self) -> None:
        world = self.world
        self.watch.disturb()
        if world.dead:
            world.start_gateway(next(iter(world.dead)))
        elif len(world.gateways) > 1:
            world.kill_gateway(self.random.randrange(len(world.gateways)))


def simulate(seed: int, *, shared: bool = False) -> Outcome:
    """One life."""
    return Life(seed, shared=shared).run()
