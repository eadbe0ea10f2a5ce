"""The openapi document says what is answered: names for a client's methods, and one shape of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx

from tailrace_gateway.rest.openapi import Document


def operations_of(document: Document) -> Iterator[Document]:
    for methods in document["paths"].values():
        yield from methods.values()


async def test_an_operation_has_a_name_of_its_own_and_the_shape_of_every_error(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    names = [operation["operationId"] for operation in operations_of(document)]
    assert len(set(names)) == len(names) and "list_topics" in names
    for operation in operations_of(document):
        schema = operation["responses"]["default"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/ErrorBody"} and "422" not in operation["responses"]
    assert set(document["components"]["schemas"]["ErrorBody"]["properties"]) == {"error_code", "message"}
    assert "HTTPValidationError" not in json.dumps(document)
