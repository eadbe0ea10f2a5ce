"""A broker's own configs and loggers: described to the client that asks, altered while it runs."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import Running, running
from tailrace.errors import ErrorCode
from tailrace.runtime import logs
from tailrace.wire.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest


@pytest.mark.parametrize(
    ("advertise", "protocol", "told"),
    [
        ("gateway", "PLAINTEXT", "PLAINTEXT://front:9092"),
        ("gateway", "SSL", "SSL://front:9092"),
        ("brokers", "PLAINTEXT", None),
    ],
)
async def test_a_broker_advertises_what_its_client_is_told(
    tmp_path: Path, advertise: str, protocol: str, told: str | None
) -> None:
    async with running(tmp_path, gateway_advertise=advertise, gateway_security_protocol=protocol) as broker:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        asked = resource(resource_type=4, resource_name="0", configuration_keys=["advertised.listeners"])
        request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
        (row,) = (await broker.client.ask(request, timeout_ms=60_000)).results[0].configs
        assert (row.value, row.read_only, row.config_source) == (told, True, 4 if told else 5)
        assert [(synonym.value, synonym.source) for synonym in row.synonyms] == ([(told, 4)] if told else [])


async def test_a_config_of_the_broker_is_described_as_the_controller_has_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        broker.follower.committed = {"configs": {(4, "0"): {"log.cleaner.backoff.ms": "123"}}}
        asked = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=4, resource_name="0", configuration_keys=["log.cleaner.backoff.ms"]
        )
        (row,) = (
            (await broker.client.ask(DescribeConfigsRequest(resources=[asked]), timeout_ms=60_000)).results[0].configs
        )
        assert row.value == "123"


@pytest.fixture
def restored_levels() -> Iterator[None]:
    names = ("tailrace", "tailrace.broker")
    before = [logging.getLogger(name).level for name in names]
    yield
    for name, level in zip(names, before, strict=True):
        logging.getLogger(name).setLevel(level)


async def test_a_brokers_loggers_are_described_and_altered(tmp_path: Path, restored_levels: None) -> None:
    logs.logger("broker", 0, named=False)
    one = IncrementalAlterConfigsRequest.AlterConfigsResource

    async def levels(broker: Running) -> dict[str, str]:
        asked = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=8, resource_name="0", configuration_keys=[]
        )
        (found,) = (await broker.service.ask(DescribeConfigsRequest(resources=[asked]), timeout_ms=60_000)).results
        return {row.name: row.value for row in found.configs}

    async def alter(broker: Running, *levels: tuple[str, int, str | None], name: str = "0", **options: bool) -> int:
        configs = [one.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in levels]
        request = IncrementalAlterConfigsRequest(
            resources=[one(resource_type=8, resource_name=name, configs=configs)], **options
        )
        (row,) = (await broker.service.ask(request, timeout_ms=60_000)).responses
        return int(row.error_code)

    async with running(tmp_path) as broker:
        assert await alter(broker, ("tailrace", 0, "ERROR"), ("tailrace.broker", 0, "DEBUG")) == 0
        assert await alter(broker, ("tailrace", 0, "FATAL"), validate_only=True) == 0
        assert await alter(broker, ("tailrace", 0, "FATAL"), ("no.such", 0, "INFO")) == ErrorCode.INVALID_CONFIG
        for name in ("1", "x", "", "9" * 5000):
            assert await alter(broker, ("tailrace", 0, "FATAL"), name=name) == ErrorCode.INVALID_REQUEST
        found = await levels(broker)
        assert (found["tailrace"], found["tailrace.broker"]) == ("ERROR", "DEBUG")
        assert await alter(broker, ("tailrace.broker", 1, None)) == 0
        assert (await levels(broker))["tailrace.broker"] == "ERROR"
