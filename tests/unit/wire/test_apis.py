"""The table of APIs against the schemas that its rows name."""

import subprocess
import sys

import pytest
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.metadata import ApiVersionsResponse

from tailrace.wire import messages
from tailrace.wire.apis import INTERNAL_APIS, Api
from tailrace.wire.library import compiled_encoder

MOST_LINES = 1000  # at some 9 microseconds each
ROWS = pytest.mark.parametrize("api", INTERNAL_APIS.values(), ids=lambda api: api.name)


@ROWS
def test_a_row_names_the_messages_of_its_key(api: Api) -> None:
    assert (api.key, api.key) == (api.request.API_KEY, api.response.API_KEY)
    assert (api.request.is_request(), api.response.is_request()) == (True, False)


@ROWS
def test_a_row_says_from_which_version_on_messages_are_flexible(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        assert api.flexible(version) == api.request.flexible_version_q(version)


@ROWS
def test_no_encoder_that_a_request_has_generated_is_so_long_that_others_wait_for_its_compiling(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        for message in (api.request, api.response):
            code = getattr(
                compiled_encoder(message, version), "__code__", None
            )  # none of what is encoded by its schema
            assert code is None or max(line for *_, line in code.co_lines() if line) < MOST_LINES


def test_the_clients_of_kafka_python_keep_the_messages_that_are_theirs() -> None:
    """They find the class of an answer by its API, and read the header of ApiVersions as only theirs does."""
    messages.load_all()
    for version in range(5):
        assert messages.ApiVersionsResponse[version].API_KEY == 18  # which registers it once more
        header = RequestHeader(request_api_key=18, request_api_version=version)
        assert issubclass(header.get_response_class(), ApiVersionsResponse)


def test_what_is_no_message_is_none() -> None:
    with pytest.raises(AttributeError, match="PortalRequest"):
        getattr(messages, "PortalRequest")  # noqa: B009  # a name that mypy would refuse


def test_messages_are_built_when_somebody_asks_for_them_and_for_a_service_all_at_once() -> None:
    script = """
import sys
from tailrace.wire import messages
built = lambda: {name for name in ("consumer", "producer", "admin") if f"kafka.protocol.{name}" in sys.modules}
print(sorted(built()), messages.FetchRequest.API_KEY, "FetchRequest" in vars(messages))
messages.load_all()
print(sorted(set(messages.__all__) - set(vars(messages))))
"""
    stand_in = "from tailrace.cli.preload import kafka_without_clients\nwith kafka_without_clients():\n"
    script = stand_in + "".join(f"    {line}\n" for line in script.strip().splitlines())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] 1 True", "[]"]
