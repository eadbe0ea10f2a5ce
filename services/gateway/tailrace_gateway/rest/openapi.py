"""The openapi document: FastAPI's, with names and errors as they are."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from tailrace_gateway.rest.errors import ErrorBody
from tailrace_gateway.rest.records.models import NewRecord

Document: TypeAlias = dict[str, Any]
_TEMPLATE: Final = "#/components/schemas/{model}"
_ERROR: Final = {
    "description": "The reason, with Confluent's number.",
    "content": {"application/json": {"schema": {"$ref": _TEMPLATE.format(model=ErrorBody.__name__)}}},
}
_OF_FASTAPI: Final = ("HTTPValidationError", "ValidationError")  # its shape of errors, which no answer has


def install(app: FastAPI) -> None:
    """Makes the app serve the document."""
    plain = app.openapi

    def openapi() -> Document:
        if app.openapi_schema is None:
            _amend(plain(), app)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _amend(document: Document, app: FastAPI) -> None:
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                operation["operationId"] = route.name  # what a generated client calls it
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = _ERROR
    schemas = document["components"]["schemas"]
    for name in _OF_FASTAPI:
        schemas.pop(name, None)
    for model in (ErrorBody, NewRecord):  # a record is no operation's body: a body may have several
        schemas.update(_schemas_of(model))


def _schemas_of(model: type[BaseModel]) -> Document:
    schema = model.model_json_schema(ref_template=_TEMPLATE)
    return {**schema.pop("$defs", {}), model.__name__: schema}
