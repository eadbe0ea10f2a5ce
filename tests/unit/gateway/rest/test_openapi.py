"""The openapi document says what is answered: names for a client's methods, and one shape of errors."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules
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


EXAMPLES = 3  # of each operation: 300 requests in all
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def test_requests_of_the_document_are_answered_as_it_says(backend: MemoryBackend) -> None:
    """By schemathesis, the same requests in each run."""
    backend.set_topic("orders", 2)
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["testserver"]))
    for found in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(operation.as_strategy(), st.sampled_from(["orders", "absent"]))
        def answered(case: schemathesis.Case[Any], topic: str) -> None:
            case.path_parameters.update({"cluster_id": "memory", "topic_name": topic})
            case.call_and_validate(checks=CHECKS)

        answered()
