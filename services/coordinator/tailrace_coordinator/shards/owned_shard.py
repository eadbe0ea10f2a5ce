"""One shard this coordinator owns: fence, replay, serve; on any doubt drop everything and begin again.

The future a handler waits on and the token the machine knows it by meet here. What makes a doubt: an append whose
outcome is unknown, a refusal by the leader (of an epoch, or because its log does not end where this shard believes), or
a bug in a decision.

A leader that is lost, or another one, is no doubt yet: nothing but this shard's own append can be in the log after its
last one. A new barrier, and what lies before it, say whether that append is there. Then the shard goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, Protocol

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.coordination.fields import BadRecord
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.net.turns import turns
from tailrace.state import ANSWERS_AT_ONCE, SHELL, Effects, Output, Overloaded, Shard, ShardBatch, Sweep
from tailrace.wire.codec import Malformed
from tailrace_coordinator.shards.deadlines import Deadlines
from tailrace_coordinator.shards.kind import CoordinatorShard, ShardKind, max_batch_bytes
from tailrace_coordinator.shards.loader import CoordinatorLoader, written_since
from tailrace_coordinator.shards.partition_log import Barrier, OwnedPartition, ShardLog

Decide = Callable[[Any, int, int], Effects[Any]]  # (machine, now_ms, token)

_DOUBTS = (ApiError, Disconnected, TimeoutError, Malformed)
_RESUME_MS: Final = 2_000  # a shard whose leader is away for longer is dropped


class ShardListener(Protocol):
    """Hears of a shard's loads and drops, of bugs in its machine, and of what that wants done.

    Fifty shards drop at once when a broker goes, and one line says so.
    """

    def on_loaded(self, shard: OwnedShard, barrier: Barrier, elapsed_ms: float) -> None: ...
    def on_dropped(self, shard: OwnedShard, doubt: Exception) -> None: ...
    def on_bug(self, shard: OwnedShard, bug: Exception) -> None: ...
    def on_bad_record(self, shard: OwnedShard, offset: int, bad: BadRecord) -> None: ...
    def on_action(self, shard: OwnedShard, action: Any) -> None: ...


class OwnedShard:
    """Answers COORDINATOR_LOAD_IN_PROGRESS until loaded and COORDINATOR_NOT_AVAILABLE while its leader is away."""

    def __init__(
        self,
        owned: OwnedPartition,
        log: ShardLog,
        kind: ShardKind[Any],
        *,
        config: Config,
        image: Callable[[], MetadataImage],
        clock: Clock,
        deadlines: Deadlines,
        backoff: Backoff,
        listener: ShardListener,
        applying: asyncio.Lock,
    ) -> None:
        self.owned = owned
        self._log = log
        self._kind = kind
        self._config = config
        self._image = image
        self._clock = clock
        self._deadlines = deadlines
        self._backoff = backoff
        self._listener = listener
        self._applying = applying  # shared with the other shards that load
        self._shard: Shard[Any] | None = None
        self._next_offset = 0
        self._tokens = itertools.count(1)
        self._asking: dict[int, asyncio.Future[Any]] = {}
        self._append: ShardBatch | None = None
        self._wake = asyncio.Event()
        self._away = False
        self._loaded = asyncio.Event()
        self._sweeps: set[asyncio.Task[None]] = set()
        self._committed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._moved = False  # the task is cancelled for another leader
        self._lost_at_ms: float | None = None  # when the leader was lost with which the shard was served

    @property
    def machine(self) -> CoordinatorShard[Any] | None:
        """What the shard holds, None while it is not loaded."""
        shard = self._shard
        return None if shard is None else shard.machine

    async def run(self) -> None:
        """Loads and serves until cancelled."""
        self._task = asyncio.current_task()
        waits = False
        try:
            while True:
                try:
                    if waits:
                        await self._backoff.wait()
                    waits = True
                    await (self._load() if self._shard is None else self._resume())
                    self._backoff.reset()
                    await self._serve()
                except asyncio.CancelledError:
                    if self._task is None or not self._moved or self._task.uncancel():
                        raise
                    waits = self._moved = False
                    self._lost()
                except _DOUBTS as doubt:
                    if not self._may_resume(doubt):
                        self._away = isinstance(doubt, Disconnected | TimeoutError)
                        self._listener.on_dropped(self, doubt)
                        self._drop()
                except Exception as bug:  # noqa: BLE001 - of a machine that loads: its shard is away, and others are not
                    self._away = False
                    self._listener.on_bug(self, bug)
                    self._drop()
        finally:
            self._drop()

    def move(self, owned: OwnedPartition, log: ShardLog) -> None:
        """Another broker leads the partition, or the same one in another epoch; the shard is still ours."""
        self.owned, self._log = owned, log
        self._away = False
        if self._task is not None and not self._moved:
            self._moved = True
            self._task.cancel()

    def _lost(self) -> bool:
        """Whether a shard that was served may go on with another leader; one that was being loaded begins anew."""
        if not self._loaded.is_set():
            self._drop()
            return False
        if self._lost_at_ms is None:
            self._lost_at_ms = self._clock.monotonic_ms()
        return self._clock.monotonic_ms() - self._lost_at_ms < _RESUME_MS

    def _may_resume(self, doubt: Exception) -> bool:
        is_lost = isinstance(doubt, Disconnected) or (
            isinstance(doubt, ApiError) and doubt.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        return is_lost and self._lost()

    async def loaded(self, timeout_ms: float) -> None:
        """Returns when the shard can answer, or after the timeout; at once while its leader is away."""
        if self._shard is None and not self._away and timeout_ms > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._loaded.wait()

    async def ask(self, decide: Decide) -> Any:
        """Takes a decision and waits for its reply. Raises ApiError."""
        shard = self._shard
        if shard is None:
            away = self._away
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE if away else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        token = next(self._tokens)
        try:
            shard.admit()
            output = shard.take(decide(shard.machine, self._clock.wall_ms(), token))
        except Overloaded:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too much waits for the log") from None
        except BaseException:
            self._doubt()  # a decision that broke off may have left soft state half changed
            raise
        if len(output.replies) == 1 and output.replies[0][0] == token:
            self._take(Output(output.append, (), output.timers))
            return _unwrap(output.replies[0][1])
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asking[token] = future
        self._take(output)
        try:
            return _unwrap(await future)
        finally:
            self._asking.pop(token, None)

    def on_image(self, delta: MetadataDelta) -> None:
        """Tells the machine of another image; one that is being loaded learns of the newest when it is."""
        self._act(lambda machine: machine.on_image(self._clock.wall_ms(), delta))

    def _on_deadline(self, key: Hashable) -> None:
        self._act(lambda machine: machine.on_timer(key, self._clock.wall_ms()))

    def _act(self, decide: Callable[[CoordinatorShard[Any]], Effects[Any]]) -> None:
        """Takes a decision that no client asked for; a bug in it costs this shard and must not reach the others."""
        shard = self._shard
        if shard is None:
            return
        try:
            self._take(shard.take(decide(shard.machine)))
        except Exception as bug:  # noqa: BLE001 - there is no asker to be told
            self._doubt()
            self._listener.on_bug(self, bug)

    def _begin(self, sweep: Sweep) -> None:
        if self._task is not None:
            task = self._task.get_loop().create_task(self._sweep(sweep))
            self._sweeps.add(task)
            task.add_done_callback(self._sweeps.discard)

    async def _sweep(self, sweep: Sweep) -> None:
        """A decision about each row, when there is room for its records; cancelled when the shard is dropped."""
        async for row in turns(sweep.rows):
            while self._shard is not None and not self._shard.has_room:
                self._committed.clear()
                await self._committed.wait()
            self._act(lambda _, row=row: sweep.decide(self._clock.wall_ms(), row))  # type: ignore[misc]

    async def _load(self) -> None:
        started_ms = self._clock.monotonic_ms()
        machine = self._kind.machine(self._config)
        on_bad_record = partial(self._listener.on_bad_record, self)
        loader = CoordinatorLoader(self._log, self._kind, machine, on_bad_record, self._applying)
        barrier, self._next_offset = await loader.load()
        shard = Shard(machine, self._kind.encode, max_batch_bytes=max_batch_bytes(self._config))
        self._shard = shard
        self._take(shard.take(machine.on_loaded(self._clock.wall_ms(), self._image())))
        self._loaded.set()
        self._away = False
        self._listener.on_loaded(self, barrier, self._clock.monotonic_ms() - started_ms)

    async def _resume(self) -> None:
        """Goes on with what is in memory, once the log says whether it has the append that was under way."""
        shard, batch = self._shard, self._append
        assert shard is not None
        barrier = await self._log.fence()
        written = await written_since(self._log, self._next_offset, barrier)
        if barrier.offset < self._next_offset or (written and written != batch):
            raise ApiError(ErrorCode.NOT_COORDINATOR, "the log is not as this shard left it")
        self._next_offset = barrier.offset + 1
        self._lost_at_ms = None
        if self._shard is shard and batch is not None:
            self._wake.set()
            if written:
                self._take_committed(shard)

    async def _serve(self) -> None:
        shard = self._shard
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, "a decision failed")
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._shard is shard and (batch := self._append) is not None:
                base_offset = await self._log.append(batch, self._next_offset, self._clock.wall_ms())
                if base_offset != self._next_offset:
                    raise ApiError(ErrorCode.NOT_COORDINATOR, f"appended at {base_offset}, not {self._next_offset}")
                self._next_offset += len(batch.records)
                if self._shard is shard:
                    self._take_committed(shard)
            if self._shard is not shard:
                raise ApiError(ErrorCode.NOT_COORDINATOR, "a decision failed")

    def _take_committed(self, shard: Shard[Any]) -> None:
        self._append = None
        self._take(shard.committed())
        self._committed.set()

    def _take(self, output: Output) -> None:
        if output.timers:
            self._deadlines.take(self._on_deadline, output.timers)
        answers: deque[tuple[asyncio.Future[Any], Any]] = deque()
        for token, reply in output.replies:
            if token == SHELL and isinstance(reply, Sweep):
                self._begin(reply)
            elif token == SHELL:
                self._listener.on_action(self, reply)
            elif (future := self._asking.pop(token, None)) is not None:
                answers.append((future, reply))
        _resolve(answers)
        if output.append is not None:
            self._append = output.append
            self._wake.set()

    def _doubt(self) -> None:
        """Ends this loading of the shard; `run` begins the next."""
        self._drop()
        self._wake.set()

    def _drop(self) -> None:
        """Forgets what the machine held; those who wait are sent to find the coordinator again."""
        self._deadlines.forget(self._on_deadline)
        for sweep in self._sweeps:
            sweep.cancel()
        self._loaded.clear()
        self._lost_at_ms = None
        if self._shard is not None:
            self._shard.drop()
            self._shard = None
        self._append = None
        _resolve(deque((future, ApiError(ErrorCode.NOT_COORDINATOR)) for future in self._asking.values()))
        self._asking.clear()


def _resolve(answers: deque[tuple[asyncio.Future[Any], Any]]) -> None:
    """Wakes those who wait, some at a time: the end of a join phase answers thousands, and each is encoded then."""
    for _ in range(min(len(answers), ANSWERS_AT_ONCE)):
        future, reply = answers.popleft()
        if not future.done():
            future.set_result(reply)
    if answers:
        asyncio.get_running_loop().call_soon(_resolve, answers)


def _unwrap(reply: Any) -> Any:
    if isinstance(reply, ApiError):
        raise reply
    return reply
