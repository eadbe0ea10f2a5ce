"""What a service is to the runtime: a name and the one function that opens it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from structlog.typing import FilteringBoundLogger

    from tailrace.access.authorizer import Authorizer
    from tailrace.clock import Clock
    from tailrace.config import Config
    from tailrace.net.authentication.secret import Secret


@dataclass(frozen=True, slots=True)
class Environment:
    """What a role takes from the outside; a test gives its own of each.

    `data_dir` is the directory of the whole node (`data.dir`); a role that writes makes its own directory below it.
    `run_dir` holds the Unix sockets `<role>-<id>.sock`; without it a role listens on TCP only.
    `boot_id` names this boot of this machine, and of containers this one: two services with the same one share a
    file system for Unix sockets.
    `secret` is what roles log in with at each other over TCP; Unix sockets need none.
    `authorizer` decides what clients may do; without one the config says (authorizer.class.name).
    `registry` is this role instance's own, so that several roles can live in one process.
    `ask_for` names a process that the cluster should have beside the roles now; only `tailrace up` starts it.
    """

    clock: Clock
    random: random.Random
    log: FilteringBoundLogger
    data_dir: Path
    run_dir: Path | None
    boot_id: str
    registry: CollectorRegistry
    secret: Secret | None = None
    authorizer: Authorizer | None = None
    ask_for: Callable[[str], None] = lambda _: None


class Opened(Protocol):
    """A role that runs: `ready` as architecture.md defines it, `addresses` by listener name.

    Address names in use: "internal" ("unix:/path" or "host:port"), "client" (Kafka clients, "host:port"),
    "admin" (REST and console). The runtime adds "http", where it serves health and metrics.
    A role may have `health() -> dict[str, bool]`; `/healthz` then shows it and fails while one of them is false.
    It may have `async before_metrics()`, for what takes so long to count that others must have their turn meanwhile.
    """

    @property
    def ready(self) -> asyncio.Event: ...

    @property
    def addresses(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Role:
    """A service's entry: `tailrace.roles` entry points name one of these.

    `commands` are what an operator may do to it besides running it: `tailrace <role> <command> ...`; each takes the
    arguments after its name and returns the exit status.
    """

    name: str
    open: Callable[[Config, Environment], AbstractAsyncContextManager[Opened]]
    commands: Mapping[str, Callable[[Sequence[str]], int]] = field(default_factory=dict)
