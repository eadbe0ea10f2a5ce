"""Real controllers on one database in memory, in a seeded world: clocks that differ and jump, a database that is away,
hangs, loses the answer of COMMIT, or is put back to a backup. Safety is looked at after every step."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import structlog

from support.metadata_store import MemoryDatabase, MemoryServer
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.errors import ApiError
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord
from tailrace_controller.controller import Controller
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.stored import OutcomeUnknown

LEASE_MS = 1000.0
STEPS = 50
SEEDS = 60


class Node:
    """One controller with a clock and a connection of its own."""

    def __init__(self, number: int, server: MemoryServer, seed: int) -> None:
        self.clock = ManualClock(wall_ms=1_700_000_000_000 + seed * 86_400_000 * (number - 1))
        self.clock.advance(random.Random(seed + number).uniform(0, 1e6))
        self.database = MemoryDatabase(self.clock, server, shared=True)
        tools = (cast(Database, self.database), self.clock, random.Random(seed), quiet())
        candidate = Candidate(number, f"token-{number}", f"unix:/run/{number}")
        self.controller = Controller(Config.load("controller"), Candidacy(candidate, *tools, LEASE_MS), *tools)
        self.serving = asyncio.get_running_loop().create_task(self.controller.serve())


def quiet() -> Any:
    return structlog.wrap_logger(None, processors=[_drop])


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent


@dataclass
class World:
    """What was promised, and what must hold."""

    seed: int
    server: MemoryServer = field(default_factory=MemoryServer)
    nodes: list[Node] = field(default_factory=list)
    asked: list[tuple[str, asyncio.Task[str]]] = field(default_factory=list)
    promised: list[str] = field(default_factory=list)
    holders: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.nodes = [Node(number, self.server, self.seed) for number in range(3)]

    async def turns(self, count: int = 12) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def step(self) -> None:
        node = self.random.choice(self.nodes)
        often = (self.time, self.decide, self.notify)
        seldom = (self.jump, self.away, self.hang, self.lose)
        act = self.random.choice(self.random.choice((often, often, seldom)))
        act(node)
        await self.turns()
        self.check()

    def time(self, node: Node) -> None:
        for each in self.nodes:
            each.clock.advance(self.random.uniform(50, 300))

    def jump(self, node: Node) -> None:
        node.clock.jump(self.random.uniform(-1e9, 1e9))
        node.clock.advance(self.random.choice((0.0, 5000.0)))  # a monotonic clock should not, and if it does?

    def decide(self, node: Node) -> None:
        self.count += 1
        value = f"value-{self.count}"
        record = ConfigRecord(4, "", value, "x")
        decide = node.controller.run(lambda image: ControllerResult(value, (record,)))
        self.asked.append((value, asyncio.get_running_loop().create_task(decide)))

    def away(self, node: Node) -> None:
        node.database.away = self.random.random() < 0.5

    def hang(self, node: Node) -> None:
        if node.database.open.is_set() and self.random.random() < 0.5:
            node.database.open.clear()
        else:
            node.database.open.set()

    def lose(self, node: Node) -> None:
        node.database.store.fail_next = OutcomeUnknown("the answer to COMMIT was lost")
        node.database.store.written_all_the_same = self.random.random() < 0.5

    def notify(self, node: Node) -> None:
        for each in self.nodes:
            each.database.notify()

    def check(self) -> None:
        for node in self.nodes:
            if node.controller.active:
                holder = self.holders.setdefault(node.controller.epoch, node.controller.node_id)
                assert holder == node.controller.node_id, "two controllers of one epoch"
            assert not node.serving.done(), "a controller gave up"
        left = []
        for value, task in self.asked:
            if not task.done():
                left.append((value, task))
            elif task.exception() is None:
                self.promised.append(value)
            else:
                assert isinstance(task.exception(), ApiError)
        self.asked = left
        offsets = [record.offset for record in self.server.records]
        epochs = [record.epoch for record in self.server.records]
        assert offsets == list(range(self.server.lease.next_offset)), "the log is dense"
        assert epochs == sorted(epochs), "no record of an epoch that was over"
        for value in self.promised:
            assert self.image().config(4, "").get(value) == "x", "an answered decision is in the log"
        for node in self.nodes:
            assert node.controller.committed.offset < self.server.lease.next_offset

    def image(self) -> MetadataImage:
        """The longest image that any controller has committed."""
        return max((node.controller.committed for node in self.nodes), key=lambda image: image.offset)

    async def heal(self) -> None:
        """Ends all faults; returns when somebody decides again."""
        for node in self.nodes:
            node.database.away = False
            node.database.open.set()
            node.database.store.fail_next = None
        for _ in range(200):
            if any(node.controller.active for node in self.nodes):
                return
            self.time(self.nodes[0])
            await self.turns()
        raise AssertionError("nobody is active although nothing is broken")

    async def close(self) -> None:
        for task in [node.serving for node in self.nodes] + [task for _, task in self.asked]:
            task.cancel()
        await asyncio.gather(*(node.serving for node in self.nodes), return_exceptions=True)
        await asyncio.gather(*(task for _, task in self.asked), return_exceptions=True)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_epoch_has_two_deciders_and_no_answered_decision_is_lost(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(STEPS):
            await world.step()
        await world.heal()
        world.check()
        before = len(world.promised)
        for _ in range(50):  # an active one may be about to learn that it was deposed
            await world.heal()
            world.decide(next(node for node in world.nodes if node.controller.active))
            await world.turns(30)
            world.notify(world.nodes[0])
            world.check()
            if len(world.promised) > before:
                break
        assert len(world.promised) > before
    finally:
        await world.close()


@pytest.mark.parametrize("seed", range(10))
async def test_a_restored_backup_is_refused_until_told_and_then_gives_nothing_out_twice(seed: int) -> None:
    world = World(seed)
    try:
        await world.heal()
        backup = world.server.backup()
        for _ in range(5):
            world.decide(next(node for node in world.nodes if node.controller.active))
            await world.turns()
            world.check()
        seen = Seen(world.server.lease.next_offset - 1, world.server.lease.epoch)
        world.server.restore(backup)
        written = set(world.server.written)
        for _ in range(40):  # whoever asks, nobody decides
            world.time(world.nodes[0])
            world.notify(world.nodes[0])
            world.decide(world.random.choice(world.nodes))
            await world.turns()
        assert set(world.server.written) == written
        refusing = [node for node in world.nodes if node.controller.refusal]
        assert refusing
        assert not any(node.controller.active for node in world.nodes)
        assert world.server.lease.seen_offset >= seen.offset
        assert world.nodes[0].database.store.give_up(world.server.lease.seen_offset)
        await world.heal()
        active = next(node for node in world.nodes if node.controller.active)
        assert active.controller.epoch > seen.epoch
        assert active.controller.committed.offset > seen.offset
        world.decide(active)
        await world.turns(30)
        assert len({written for written in world.server.written}) == len(world.server.written)
        assert min(offset for epoch, offset in world.server.written if epoch == active.controller.epoch) > seen.offset
        world.notify(active)
        await world.turns(30)
        for node in world.nodes:  # the others follow the log where it goes on
            assert node.controller.committed.offset == active.controller.committed.offset
    finally:
        await world.close()
