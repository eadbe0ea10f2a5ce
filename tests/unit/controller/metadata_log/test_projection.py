"""The rows of the SQL views that metadata records change."""

from __future__ import annotations

from uuid import UUID

import pytest

from support.metadata import after
from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.config import Config
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
)
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


def test_an_acl_has_a_row_in_words_until_it_is_deleted() -> None:
    acl = Acl(ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
    created = AccessControlEntryRecord.of(UUID(int=1), acl)
    image = after(MetadataImage(), created)
    (change,) = projection.changes([created], MetadataImage(), image, CONFIG)
    assert change.row is not None and list(change.row.values()) == [
        *("TOPIC", "t", "PREFIXED", "User:a", "*", "READ", "ALLOW")
    ]
    deleted = RemoveAccessControlEntryRecord(UUID(int=1))
    (gone,) = projection.changes([deleted], image, after(image, deleted), CONFIG)
    assert (gone.table, gone.key, gone.row) == ("acl_rows", change.key, None)


def test_a_client_id_that_is_spelled_as_the_default_has_a_row_of_its_own() -> None:
    names = (None, "<default>")
    records = [ClientQuotaRecord((QuotaEntity("client-id", name),), "producer_byte_rate", 1.0) for name in names]
    found = [*projection.changes(records, MetadataImage(), after(MetadataImage(), *records), CONFIG)]
    assert [change.key["entity"] for change in found] == ["client-id=<default>", r"client-id=\<default>"]
