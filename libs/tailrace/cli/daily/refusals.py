"""Refusals and failed connections in sentences: which item, Kafka's name of the error, and what to do."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import typer

from tailrace.errors import ErrorCode
from tailrace.net.client import Disconnected, NotLoggedIn
from tailrace.net.tls.reasons import said
from tailrace.wire.response_errors import ItemError

_LINES_MAX: Final = 20
# Said instead of the cluster's own words, which for these are those of a table of codes.
_ADVICE: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "no such topic or partition; `tailrace topic list` names the topics",
    ErrorCode.UNKNOWN_TOPIC_ID: "no such topic; `tailrace topic list` names the topics",
    ErrorCode.GROUP_ID_NOT_FOUND: "no such group; `tailrace group list` names the groups",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop its consumers first",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "no such broker; `tailrace broker list` names the brokers",
    ErrorCode.LEADER_NOT_AVAILABLE: "no broker leads it; `tailrace status` names the partitions that are offline",
    ErrorCode.LOG_DIR_NOT_FOUND: "not one of the broker's log directories; `tailrace broker log-dirs` names them",
    ErrorCode.REQUEST_TIMED_OUT: "not done in time, though it may still be done; `tailrace status` shows why",
}

_WITHOUT_WORDS: Final[Mapping[int, str]] = {  # where the API has no field for a message
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "not a regular expression in RE2's syntax",
    ErrorCode.UNKNOWN_SERVER_ERROR: "a fault of the cluster; the log of its processes says more",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop its consumers first",
}


class RefusedError(Exception):
    """The cluster said no; the text is a sentence, or a line for each refused item."""


def code_name(code: int) -> str:
    """Kafka's name of an error code; a newer cluster may have codes without one."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def sentence(code: int, message: str | None = None) -> str | None:
    """A refusal in words; None for no error."""
    if not code:
        return None
    text = _ADVICE.get(code) or message or _WITHOUT_WORDS.get(code)
    return f"{code_name(code)}: {text}" if text else code_name(code)


def lines(errors: Iterable[ItemError]) -> str:
    """A line for each refused item, or for the first of very many."""
    sentences = []
    for names, code, message in errors:
        text = sentence(code, message)
        sentences.append(f"{'-'.join(names)}: {text}" if names else str(text))
    more = [f"and {len(sentences) - _LINES_MAX} more"] if len(sentences) > _LINES_MAX else []
    return "\n".join(sentences[:_LINES_MAX] + more)


def reason(error: Disconnected) -> str:
    """Why there is no answer, and what to do."""
    if was_refused(error):
        return "nothing listens there; `tailrace up` starts a cluster, --bootstrap names another"
    if isinstance(error, NotLoggedIn):
        return f"the login is refused: {error}"
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return f"{said(cause)}; --command-config says how to connect"
    if isinstance(cause, UnicodeError):
        return "it is not a host name; --bootstrap names another cluster"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}; --bootstrap names another cluster"
    return (
        "the connection broke before there was an answer; what was asked may have been done. A port with TLS or "
        "a login needs --command-config"
    )


def cause_of(error: Exception) -> str | None:
    """Why an address cannot be reached, in the words of the system."""
    if isinstance(error, Disconnected) and was_refused(error):
        return "nothing listens"
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return f"the TLS handshake fails ({said(cause)})"
    return f"is an error ({cause.strerror or cause})" if isinstance(cause, OSError) else None


def was_refused(error: Disconnected) -> bool:
    """Whether nothing listens at the address."""
    cause = error.__cause__
    return isinstance(cause, ConnectionRefusedError) or "Connect call failed" in str(cause)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask; without a terminal nothing is asked")]


def confirm(question: str, *, yes: bool) -> None:
    """Asks on a terminal, where a name is mistyped; raises RefusedError for no. A script is not asked, as by Kafka's
    tools and rpk.
    """
    if not yes and is_terminal() and not typer.confirm(question, err=True):
        raise RefusedError("nothing is deleted")


def is_terminal() -> bool:
    """Whether a person types: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()
