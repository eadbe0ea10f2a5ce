"""`PYTHONPATH=tests python -m support.group_pictures`: the pictures of docs/groups.md, drawn of real answers.

Each is a rebalance of two members. Beside a member stand the partitions that it owns, after each request and answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.classic_members import ClassicMember
from support.consumer_groups import Consumer, ConsumerDriver, settle, told
from support.story_pictures import GREY, STYLES, text, write
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.consumer_protocol import partitions_of
from tailrace.state import SHELL, Output
from tailrace_coordinator.groups.classic.member import JoinAnswer, SyncAnswer
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.group import Leaver

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "groups"
PARTITIONS: Final = 6
WIDTH, LEFT, CENTRE, RIGHT = 800, 190, 400, 610
TOP, ROW, CELL = 92, 32, 21
OWNED, GIVEN_UP, OTHER = STYLES["L"], STYLES["E"], STYLES["o"]
INK: Final = "#24292f"
PURPLE: Final = "#8250df"
Member = ClassicMember | Consumer


class Share(NamedTuple):
    """The partitions of a member, and those that it is to give up."""

    owned: frozenset[int]
    given_up: frozenset[int]


class Message(NamedTuple):
    """A request to the coordinator, or its answer; and how it is afterwards."""

    member: str
    is_answer: bool
    words: str
    shares: tuple[Share, Share]
    state: str


class Stage(ConsumerDriver):
    """The machine of groups, and two members of one group, whose messages it writes down."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.members: dict[str, Member] = {}
        self._askers: dict[int, str] = {}
        self._asker = ""
        self._open: tuple[str, bool, str] | None = None  # the last message, until it is known what followed
        super().__init__({"t": PARTITIONS})

    def begin(self) -> None:
        """The picture begins: with how it is now."""
        self.close()
        self.messages = [Message("", False, "", (self.share("a"), self.share("b")), self.state())]

    def act(self, name: str, deed: Callable[[], object]) -> None:
        """Has a member do something."""
        self._asker = name
        deed()
        self.close()

    def close(self) -> None:
        """What the last message led to is known."""
        if self._open is not None:
            name, is_answer, words = self._open
            shares = (self.share("a"), self.share("b"))
            self.messages.append(Message(name, is_answer, words, shares, self.state()))
            self._open = None

    def share(self, name: str) -> Share:
        member = self.members.get(name)
        owned = frozenset(member.owned.get("t", ())) if member is not None else frozenset[int]()
        group = self.machine.groups.get("g")
        if member is None or not isinstance(group, ConsumerGroup):
            return Share(owned, frozenset())
        revoked = group.current(member.member_id).pending_revocation
        given_up = frozenset(index for some in revoked.values() for index in some)
        return Share(owned - given_up, given_up)

    def state(self) -> str:
        group = self.machine.groups.get("g")
        if isinstance(group, ConsumerGroup):
            return f"epoch {group.group_epoch}, {group.state}"
        return f"generation {self.classic('g').generation_id}, {group.state}" if group is not None else ""

    def _asks(self, words: str) -> None:
        self.close()
        self._askers[self.token + 1] = self._asker
        self._open = self._asker, False, words

    def join(self, *arguments: Any, **options: Any) -> int:
        owned = self.members[self._asker].owned.get("t") if self._asker else None
        self._asks(f"JoinGroup, owns {listed(owned)}" if owned else "JoinGroup")
        return super().join(*arguments, **options)

    def sync(self, *arguments: Any, **options: Any) -> int:
        assignments = arguments[3] if len(arguments) > 3 else None
        names = {member.member_id: name for name, member in self.members.items()}
        shares = {names[who]: partitions_of(some) for who, some in (assignments or {}).items()}
        parts = (f"{name} {listed(index for _, index in some)}" for name, some in sorted(shares.items()))
        self._asks(f"SyncGroup{': ' if shares else ''}{'; '.join(parts)}")
        return super().sync(*arguments, **options)

    def heartbeat(self, group_id: str, member_id: str, generation: int, instance: str | None = None) -> Any:
        self._asks(f"Heartbeat, generation {generation}")
        return super().heartbeat(group_id, member_id, generation, instance)

    def leave(self, group_id: str, *leavers: Leaver) -> Any:
        self._asks("LeaveGroup")
        return super().leave(group_id, *leavers)

    def beat(self, member_id: str, epoch: int, **options: Any) -> Any:
        what = {0: "join", -1: "leave"}.get(epoch, "heartbeat")
        owned = (options.get("owned") or {}).get("t")
        self._asks(f"{what}, epoch {epoch}{f', owns {listed(owned)}' if owned else ''}")
        return super().beat(member_id, epoch, **options)

    def _take(self, output: Output) -> None:
        for token, answer in output.replies:
            if token != SHELL and token in self._askers:
                self.close()
                self._open = self._askers[token], True, answered(answer)
        super()._take(output)


def listed(indexes: Iterable[int]) -> str:
    """Partitions, as ranges."""
    found = sorted(indexes)
    if not found:
        return "nothing"
    is_range = found == list(range(found[0], found[-1] + 1))
    return f"{found[0]}-{found[-1]}" if is_range and len(found) > 1 else ", ".join(map(str, found))


def answered(answer: Any) -> str:
    """An answer in a few words."""
    match answer:
        case ApiError():
            return answer.code.name
        case JoinAnswer() if not answer.error_code:
            leads = f", leader of {len(answer.members)}" if answer.members else ""
            return f"generation {answer.generation_id}{leads}"
        case SyncAnswer() if not answer.error_code:
            return f"owns {listed(index for _, index in partitions_of(answer.assignment))}"
        case JoinAnswer() | SyncAnswer():
            return ErrorCode(answer.error_code).name
        case ErrorCode():
            return "in order" if answer is ErrorCode.NONE else answer.name
        case list():
            return "left"
    owned = told(answer)
    if answer.member_epoch < 0:
        return "left"
    return f"epoch {answer.member_epoch}" + ("" if owned is None else f", owns {listed(owned.get('t', ()))}")


# -- the stories -------------------------------------------------------------------------------------------------------


def classic() -> Stage:
    """The classic protocol: member a has all partitions, and b joins. Both are eager."""
    stage = Stage()
    a, b = (ClassicMember(stage, eager=True) for _ in range(2))
    stage.members |= {"a": a, "b": b}
    _identified(stage, a, b)
    stage.begin()
    stage.act("b", b.join)
    stage.act("a", a.step)
    stage.act("b", b.step)
    return stage


def consumer() -> Stage:
    """The consumer protocol: member a has all partitions, and b joins."""
    stage = Stage()
    a, b = Consumer(stage, "a"), Consumer(stage, "b")
    stage.members |= {"a": a, "b": b}
    a.enter("t")
    settle(stage, a)
    stage.begin()
    stage.act("b", lambda: b.enter("t"))
    for name, member in (("a", a), ("a", a), ("b", b)):
        stage.act(name, member.beat)
    return stage


def upgrade() -> Stage:
    """A classic member has all partitions, and one of the consumer protocol joins."""
    stage = Stage()
    a, b = ClassicMember(stage), Consumer(stage, "b")
    stage.members |= {"a": a, "b": b}
    a.join()
    stage.advance(5_000)
    stage.begin()
    stage.act("b", lambda: b.enter("t"))
    stage.act("a", a.step)
    stage.act("b", b.beat)
    return stage


def downgrade() -> Stage:
    """The last member of the consumer protocol leaves."""
    stage = upgrade()
    a, b = stage.members["a"], stage.members["b"]
    assert isinstance(a, ClassicMember)
    stage.begin()
    b.owned = {}
    stage.act("b", lambda: stage.beat("b", -1))
    stage.act("a", a.step)
    return stage


def _identified(stage: Stage, first: ClassicMember, second: ClassicMember) -> None:
    """The first has all partitions; the second knows the id that the coordinator gives to one that asks to join."""
    first.join()
    answer = stage.answers[ConsumerDriver.join(stage, "g")]
    second.member_id = answer.member_id


STORIES: Final = (classic, consumer, upgrade, downgrade)


# -- the drawing -------------------------------------------------------------------------------------------------------


def cells(x: float, y: float, share: Share) -> Iterator[str]:
    """The partitions of a member, as a row."""
    for index in range(PARTITIONS):
        fill, stroke, colour = OWNED if index in share.owned else GIVEN_UP if index in share.given_up else OTHER
        box = f'x="{x + index * CELL:g}" y="{y:g}" width="{CELL - 3}" height="{CELL - 3}" rx="3"'
        yield f'<rect {box} fill="{fill}" stroke="{stroke}"/>'
        yield text(x + index * CELL + (CELL - 3) / 2, y + 13, str(index), size=10, anchor="middle", fill=colour)


def arrow(message: Message, y: float) -> Iterator[str]:
    """A message, from or to the coordinator."""
    if not message.member:
        return
    outside, inside = (LEFT, CENTRE - 5) if message.member == "a" else (RIGHT, CENTRE + 5)
    start, end = (inside, outside) if message.is_answer else (outside, inside)
    back = 7 if end > start else -7
    colour = GREY if message.is_answer else INK
    yield f'<line x1="{start}" y1="{y:g}" x2="{end}" y2="{y:g}" stroke="{colour}"/>'
    yield f'<path d="M{end} {y:g} l{-back} -4 v8 z" fill="{colour}"/>'
    yield text((start + end) / 2, y - 5, message.words, size=11, anchor="middle", fill=colour)


def picture(story: Callable[[], Stage]) -> str:
    """The SVG of a story."""
    title = (story.__doc__ or "").partition(".")[0]
    messages = story().messages
    height = TOP + (len(messages) + 1) * ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(12, 22, title, size=15),
    ]
    for x, name in ((LEFT, "member a"), (CENTRE, "coordinator"), (RIGHT, "member b")):
        lines.append(text(x, 50, name, size=13, anchor="middle"))
        lines.append(f'<line x1="{x}" y1="58" x2="{x}" y2="{height - 10}" stroke="#d0d7de" stroke-width="2"/>')
    state = ""
    for number, message in enumerate(messages):
        y = TOP + number * ROW
        lines += arrow(message, y)
        for x, share in zip((LEFT - 10 - PARTITIONS * CELL, RIGHT + 14), message.shares, strict=True):
            lines += cells(x, y - 9, share)
        if message.state != state:
            state = message.state
            beside = RIGHT if message.member == "a" else LEFT
            lines.append(text((beside + CENTRE) / 2, y + 4, state, size=11, anchor="middle", fill=PURPLE))
    return "\n".join([*lines, "</svg>", ""])


def pictures() -> dict[Path, str]:
    """Every file and its text."""
    return {FOLDER / f"{story.__name__}.svg": picture(story) for story in STORIES}


def main(arguments: Sequence[str]) -> int:
    """Writes the pictures; with --check says which are not what the machine of groups answers."""
    return write(pictures(), arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
