"""The rows of the SQL views that metadata records change."""

from __future__ import annotations

import pytest

from support.metadata import after
from tailrace.config import Config
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord
from tailrace_controller.metadata_log import projection

CONFIG = Config.load("controller")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("log.retention.ms", "1000", "1000"),
        ("sasl.jaas.config", "hunter2", None),
        ("listener.name.client.ssl.keystore.password", "hunter2", None),
    ],
)
def test_a_secret_has_a_row_without_its_value(name: str, value: str, shown: str | None) -> None:
    records = [ConfigRecord(ConfigResource.BROKER, "0", name, value)]
    (change,) = projection.changes(records, MetadataImage(), after(MetadataImage(), *records), CONFIG)
    assert change.row == {"value": shown}
