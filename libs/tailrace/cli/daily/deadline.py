"""The time that a command may take: `--timeout SECONDS` of every command that asks a cluster."""

from __future__ import annotations

from typing import Any, Final, Protocol

from typer.core import TyperGroup, TyperOption

from tailrace.cli.daily.refusals import RefusedError

DEFAULT_S: Final = 30.0
_HELP: Final = "give up after it, with exit code 1; default: 30, and none for work that a command waits for"


class _Given:
    """What stands on the command line that runs now."""

    timeout_s: float | None = None


class _Clock(Protocol):
    def monotonic_ms(self) -> float: ...


class Deadline:
    """Bounds a command. A lasting one, as `consume` or `broker drain`, ends by itself only with --timeout."""

    def __init__(self, clock: _Clock, *, lasting: bool = False, timeout_s: float | None = None) -> None:
        self._clock = clock
        self._timeout_s = _Given.timeout_s if timeout_s is None else timeout_s
        whole_s = self._timeout_s if lasting or self._timeout_s is not None else DEFAULT_S
        self._until_ms = None if whole_s is None else clock.monotonic_ms() + whole_s * 1000
        self._waits_for = "the cluster's answer"

    @property
    def given_ms(self) -> float | None:
        """What --timeout says."""
        return None if self._timeout_s is None else self._timeout_s * 1000

    @property
    def patience_ms(self) -> float:
        """For how long a cluster may be silent."""
        return (DEFAULT_S if self._timeout_s is None else self._timeout_s) * 1000

    def left_ms(self, most_ms: float) -> float:
        """What is left, at most so much; not 0, which would not even try."""
        if self._until_ms is None:
            return min(most_ms, self.patience_ms)
        return max(1.0, min(most_ms, self._until_ms - self._clock.monotonic_ms()))

    def check(self, waits_for: str | None = None) -> None:
        """Raises RefusedError with what the command waits for, where the time is over."""
        self._waits_for = waits_for or self._waits_for
        if self._until_ms is not None and self._clock.monotonic_ms() >= self._until_ms:
            raise RefusedError(self._sentence(self._waits_for))

    def check_patience(self, since_ms: float, waits_for: str) -> None:
        """As check, for one step of a command that lasts."""
        self.check(waits_for)
        if self._clock.monotonic_ms() - since_ms >= self.patience_ms:
            raise RefusedError(self._sentence(waits_for))

    def _sentence(self, waits_for: str) -> str:
        return f"not done within {self.patience_ms / 1000:g} s: {waits_for}; --timeout SECONDS waits longer"


def add_timeout(command: Any) -> None:
    """Gives a command, or each of a group, the option --timeout."""
    if isinstance(command, TyperGroup):
        for inner in command.commands.values():
            add_timeout(inner)
        return
    command.params.append(
        TyperOption(
            param_decls=["--timeout"],
            type=float,
            metavar="SECONDS",
            envvar="TAILRACE_TIMEOUT",
            expose_value=False,
            callback=_take,
            help=_HELP,
        )
    )


def _take(context: Any, _parameter: Any, value: float | None) -> None:
    from typer import BadParameter

    if value is not None and not 0 <= value < float("inf"):
        raise BadParameter(f"{value:g}: expected seconds")
    _Given.timeout_s = value
    context.call_on_close(_forget)


def _forget() -> None:
    _Given.timeout_s = None
