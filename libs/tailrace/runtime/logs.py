"""Logging of every role: structlog to stderr; people see colours on a terminal, machines get logfmt or JSON.

Levels are the standard library's: a role's lines are of the logger `tailrace.<role>`, whose level changes while it runs
(`log_levels`, `set_log_level`: what Kafka's clients call broker loggers, KIP-412).
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from tailrace.printable import printable, printable_lines

if TYPE_CHECKING:
    from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, Processor, WrappedLogger

Format = Literal["human", "colour", "logfmt", "json"]
FORMATS: tuple[Format, ...] = ("human", "colour", "logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")
_HIDDEN = ("rich", "better_exceptions")
_OURS = "tailrace"
# A client may name what it likes, in 32 KB, and a line may quote it. Tracebacks are ours.
MOST_VALUE_CHARS = 1_000
_MOST_TRACEBACK_CHARS = 20_000
# Kafka's words for the standard library's levels; it has no TRACE, which is below all that it has.
_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def format_for(stream_is_terminal: bool, no_colour: bool) -> Format:
    """What suits the reader of stderr (https://no-color.org)."""
    if not stream_is_terminal:
        return "logfmt"
    return "human" if no_colour else "colour"


def default_format() -> Format:
    return format_for(sys.stderr.isatty(), bool(os.environ.get("NO_COLOR")))


def import_structlog() -> None:
    """Imports structlog without rich and Pygments, which it loads for tracebacks that we print plainly (60 ms)."""
    if "structlog" in sys.modules:
        return
    kept = {name: sys.modules.get(name) for name in _HIDDEN}
    sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]  # None: "import of … halted", documented
    try:
        import structlog  # noqa: F401
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def configure(log_format: Format, level: str = "info") -> None:
    """Sets up structlog and sends the standard library's loggers (asyncio, uvicorn, SQLAlchemy) the same way."""
    import_structlog()
    import structlog

    threshold = getattr(logging, level.upper())
    logging.getLogger(_OURS).setLevel(threshold)
    structlog.configure(
        processors=[_drop_below_level, *_processors(log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=_stderr_logger,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Forward()]
    root.setLevel(max(threshold, logging.WARNING))


def logger(role: str, service_id: int, *, named: bool) -> FilteringBoundLogger:
    """The log of one role instance; `named` puts role and id in every line, for a log that several share."""
    import structlog

    bound: FilteringBoundLogger = structlog.get_logger(f"{_OURS}.{role}")
    logging.getLogger(f"{_OURS}.{role}")  # now it is one that has a level
    return bound.bind(role=role, id=service_id) if named else bound


def log_levels() -> dict[str, str]:
    """This process's loggers, "root" among them, with the levels that hold for them, in Kafka's words."""
    loggers = {
        name: known for name, known in logging.root.manager.loggerDict.items() if isinstance(known, logging.Logger)
    }
    return {name: _word(known.getEffectiveLevel()) for name, known in {"root": logging.root, **loggers}.items()}


def set_log_level(name: str, level: str | None) -> None:
    """Gives a logger of log_levels() another level; None: its parent's."""
    logging.getLogger(None if name == "root" else name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _word(level: int) -> str:
    return next((word for word, least in _LEVELS.items() if level <= least), "FATAL")


def _stderr_logger(name: str = _OURS, *_: object) -> WrappedLogger:
    import structlog

    # The stream is looked up at each call: a forked child and a test replace it.
    logger = structlog.WriteLogger(sys.stderr)
    logger.name = name  # type: ignore[attr-defined]
    return logger


def _drop_below_level(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    import structlog

    level = getattr(logging, method.upper(), logging.ERROR)  # "exception" is an error
    if not logging.getLogger(logger.name).isEnabledFor(level):
        raise structlog.DropEvent
    return event


def shortened(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A processor: what is too long in a line is cut, with its length behind it."""
    for key, value in event.items():
        most = _MOST_TRACEBACK_CHARS if key == "exception" else MOST_VALUE_CHARS
        text = value if isinstance(value, str) else "" if isinstance(value, int | float) else str(value)
        if len(text) > most:
            event[key] = f"{text[:most]}… ({len(text)} characters)"
    return event


def escaped(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A processor: control characters of values are escapes, for a format that writes text as it is."""
    return _with_escapes(event, printable)


def escaped_for_logfmt(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """As escaped, but for line feeds, which logfmt escapes itself."""
    return _with_escapes(event, printable_lines)


def _with_escapes(event: EventDict, escape: Callable[[str], str]) -> EventDict:
    for key, value in event.items():
        if value is not None and not isinstance(value, int | float) and key != "exc_info":
            event[key] = escape(str(value))
    return event


def _plain_traceback(sio: TextIO, exc_info: ExcInfo) -> None:
    """A traceback whose message may quote a client."""
    from structlog import dev

    written = io.StringIO()
    dev.plain_traceback(written, exc_info)
    sio.write(printable_lines(written.getvalue()))


def _processors(log_format: Format) -> Sequence[Processor]:
    from structlog import processors, stdlib

    common: list[Processor] = [processors.add_log_level, stdlib.PositionalArgumentsFormatter()]
    if log_format in {"human", "colour"}:
        from structlog import dev

        return [
            *common,
            shortened,
            escaped,
            processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            dev.ConsoleRenderer(
                colors=log_format == "colour", exception_formatter=_plain_traceback, pad_event_to=0, pad_level=False
            ),
        ]
    common += [processors.TimeStamper(fmt="iso", utc=True), processors.format_exc_info, shortened]
    if log_format == "json":
        return [*common, processors.JSONRenderer()]
    return [
        *common,
        escaped_for_logfmt,
        processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False),
    ]


class _Forward(logging.Handler):
    """Hands a standard log record to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        import structlog

        structlog.get_logger(record.name).log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None
        )
