"""Refusals in Confluent's shape: an HTTP status and {error_code, message}, where error_code refines the status."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Send

from tailrace.access.resources import FAILED
from tailrace.errors import ApiError, ErrorCode, shortened

BAD_REQUEST = 40002
FORBIDDEN = 40301
UNKNOWN_TOPIC_OR_PARTITION = 40403
KAFKA_ERROR = 50002
KAFKA_RETRIABLE = 50003
BROKER_NOT_AVAILABLE = 50302

_NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID: UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND: int(HTTPStatus.NOT_FOUND),
    ErrorCode.BROKER_ID_NOT_REGISTERED: int(HTTPStatus.NOT_FOUND),
    ErrorCode.LOG_DIR_NOT_FOUND: int(HTTPStatus.NOT_FOUND),
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: int(HTTPStatus.NOT_FOUND),
    ErrorCode.RESOURCE_NOT_FOUND: int(HTTPStatus.NOT_FOUND),
    ErrorCode.UNKNOWN_MEMBER_ID: int(HTTPStatus.NOT_FOUND),
}
_TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
_FORBIDDEN = frozenset(FAILED.values())
_BAD_REQUEST = {
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.TOPIC_DELETION_DISABLED,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.SECURITY_DISABLED,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.DUPLICATE_RESOURCE,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.UNACCEPTABLE_CREDENTIAL,
}
_UNAVAILABLE = {
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_CONTROLLER,
}
_SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
}


class ErrorBody(BaseModel):
    """What is answered instead of a success."""

    error_code: int
    message: str


class RestError(Exception):
    """An answer that is not a success."""

    def __init__(self, status: HTTPStatus, error_code: int, message: str) -> None:
        """A sentence that quotes a client's 32 KB id is cut, as ApiError's."""
        message = shortened(message)
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.headers: dict[str, str] = {}


def plain(status: HTTPStatus, message: str) -> RestError:
    """A refusal whose error code is its status."""
    return RestError(status, int(status), message)


def not_found(message: str) -> RestError:
    """404 for a resource of ours: cluster, broker, group, consumer."""
    return plain(HTTPStatus.NOT_FOUND, message)


def unknown_topic() -> RestError:
    """404 for a topic or partition, with Confluent's number."""
    return translate(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def translate(code: int, message: str | None = None) -> RestError:
    """What a Kafka error code is over HTTP."""
    error = ErrorCode(code)
    text = message or _SENTENCES.get(error) or f"{error.name}."
    if error in _NOT_FOUND:
        return RestError(HTTPStatus.NOT_FOUND, _NOT_FOUND[error], text)
    if error in _BAD_REQUEST:
        return RestError(HTTPStatus.BAD_REQUEST, BAD_REQUEST, text)
    if error in _FORBIDDEN:
        return RestError(HTTPStatus.FORBIDDEN, FORBIDDEN, text)
    if error in _TOO_LARGE:
        return plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return plain(HTTPStatus.TOO_MANY_REQUESTS, text)
    if error in _UNAVAILABLE:
        return RestError(HTTPStatus.SERVICE_UNAVAILABLE, BROKER_NOT_AVAILABLE, text)
    return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, KAFKA_RETRIABLE if error.retriable else KAFKA_ERROR, text)


def check(code: int, message: str | None = None) -> None:
    """Raises the translation of every code but NONE."""
    if code:
        raise translate(code, message)


def as_rest_error(error: Exception) -> RestError:
    """The one translation of what handlers and the backend raise."""
    match error:
        case RestError():
            return error
        case ApiError():
            return translate(error.code, error.message)
        case TimeoutError():
            return translate(ErrorCode.REQUEST_TIMED_OUT, "The cluster did not answer in time; it may still act.")
        case ConnectionError():
            return translate(
                ErrorCode.BROKER_NOT_AVAILABLE, f"The connection was lost, the outcome is unknown: {error}"
            )
        case HTTPException():
            return plain(HTTPStatus(error.status_code), f"HTTP {error.status_code} {error.detail}")
        case RequestValidationError() | ValidationError():
            return plain(HTTPStatus.BAD_REQUEST, _first_problem(error))
    raise error


def _first_problem(error: RequestValidationError | ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"] if part != "body")
    what = "There is no such field." if problem["type"] == "extra_forbidden" else problem["msg"]
    return f"Bad Request: {place}: {what}" if place else f"Bad Request: {what}"


def body_of(error: RestError) -> dict[str, object]:
    """The JSON that a client sees."""
    return {"error_code": error.error_code, "message": error.message}


async def _answer(request: Request, error: Exception) -> JSONResponse:
    refusal = as_rest_error(error)
    if refusal.status is HTTPStatus.METHOD_NOT_ALLOWED:
        refusal.headers["Allow"] = ", ".join(sorted(_methods_of(request)))
    return JSONResponse(body_of(refusal), status_code=refusal.status, headers=refusal.headers)


async def _answer_fault(request: Request, error: Exception) -> JSONResponse:
    """The answer to a fault of this program; the server raises it again, and logs it."""
    reason = "HTTP 500 Internal Server Error: the gateway's log has the reason."
    return JSONResponse(body_of(plain(HTTPStatus.INTERNAL_SERVER_ERROR, reason)), HTTPStatus.INTERNAL_SERVER_ERROR)


def _methods_of(request: Request) -> set[str]:
    """What the path of the request can be asked by: each route knows its own methods alone."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    methods = {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return methods | ({"HEAD"} if "GET" in methods else set())  # paths.py


async def refuse(send: Send, status: HTTPStatus, message: str, *headers: tuple[bytes, bytes]) -> None:
    """An answer of this shape from where there is no app yet."""
    body = json.dumps({"error_code": int(status), "message": message}).encode()
    given = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": int(status), "headers": given})
    await send({"type": "http.response.body", "body": body})


def install(app: FastAPI) -> None:
    """Makes the app answer every refusal in this shape."""
    handler: Callable[[Request, Exception], Awaitable[JSONResponse]] = _answer
    for kind in (RestError, ApiError, TimeoutError, ConnectionError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(Exception, _answer_fault)
