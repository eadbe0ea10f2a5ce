"""One world: a log, its producers, its faults, and a last look. The seed decides everything."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sim.log.machine import Machine
from sim.log.model import Violation
from tailrace.log.filesystem.memory import Stopped

EVENTS = 70
STORY_LINES = 60
_ENDLESS = 50


@dataclass(frozen=True)
class Outcome:
    """What one world came to; failure is None where every promise was kept."""

    seed: int
    failure: str | None
    story: str
    events: int
    faults: int
    acknowledged: int
    recoveries: int
    compactions: int


class World:
    """Lets things happen to a machine, and what was begun in them end."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.story: list[str] = []
        self.recoveries = 0
        self.machine = Machine(self.dice, self.story.append)
        self.actions, self.weights = self._actions()

    def _actions(self) -> tuple[list[Callable[[], None]], list[float]]:
        machine, faulty = self.machine, self.machine.faulty
        roles = self.dice.choice((0.0, 0.0, 1.0, 3.0))
        table: dict[Callable[[], None], float] = {
            machine.append: 12,
            machine.begin_flush: 2,
            machine.finish_flush: 2.5,
            machine.roll: 0.7,
            machine.pass_time: 3,
            machine.retain: 1,
            machine.delete_records: 0.7,
            machine.begin_checkpoint: 1,
            machine.finish_checkpoint: 1.5,
            machine.compact: 0 if machine.model.exact else 6,
            machine.lead: roles,
            machine.follow: roles,
            machine.begin_anew: 0.2 * roles,
            machine.restart: 0.7,
            machine.kill: 0.7,
            machine.lose_power: 1,
            machine.stop_soon: faulty,
            machine.break_disk: 2 * faulty,
            machine.heal: faulty,
        }
        return list(table), list(table.values())

    def run(self, events: int) -> None:
        """Every event, each followed by the checks."""
        for _ in range(events):
            self.machine.not_written()
            (action,) = self.dice.choices(self.actions, self.weights)
            self.step(action)
        self.machine.heal()
        self.step(self.machine.restart)

    def step(self, action: Callable[[], None]) -> None:
        """One event. A machine that stops starts again, however often it stops on the way."""
        try:
            action()
            self.machine.look()
            return
        except OSError as failed:
            again: Callable[[], None] = partial(self.machine.offline, failed)
        except Stopped as stopped:
            self.story.append(f"   stopped in {stopped}")
            again = self.machine.stopped
        for _ in range(_ENDLESS):
            self.recoveries += 1
            try:
                again()
                return
            except OSError as failed:
                again = partial(self.machine.offline, failed)
            except Stopped:
                again = self.machine.stopped
        raise Violation("the log cannot be opened any more")


def simulate(seed: int, *, whole_story: bool = False, events: int = EVENTS) -> Outcome:
    """Runs one world to its end."""
    world, failure = World(seed), None
    machine = world.machine
    try:
        world.run(events)
    except Violation as broken:
        failure = str(broken)
    except Exception as crash:  # noqa: BLE001 - whatever the code under test raises is a finding
        failure = f"the code under test failed: {crash!r}\n{traceback.format_exc()}"
    if failure is not None:
        world.story.append(f"VIOLATION: {failure}")
    told = world.story if whole_story else world.story[-STORY_LINES:]
    return Outcome(
        seed,
        failure,
        "\n".join(told),
        events,
        machine.faults,
        machine.acknowledged,
        world.recoveries,
        machine.compactions,
    )
