"""A config that is set and does nothing yet is said in the log."""

from __future__ import annotations

from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata.records import ConfigRecord
from tailrace_controller.decide.resources import without_effect


def test_what_has_no_effect_is_said_with_key_value_and_resource() -> None:
    assert without_effect([ConfigRecord(ConfigResource.TOPIC, "t", "preallocate", "true")]) == [
        "preallocate=true is accepted but has no effect in Tailrace yet. (set on topic t)"
    ]
    assert without_effect([ConfigRecord(ConfigResource.BROKER, ALL_BROKERS, "num.io.threads", "9")]) == [
        "num.io.threads=9 is accepted but has no effect in Tailrace yet. (set on broker default)"
    ]
    of_a_group = ConfigRecord(ConfigResource.GROUP, "g", "share.isolation.level", "read_committed")
    assert len(without_effect([of_a_group])) == 1


def test_what_has_an_effect_or_is_the_default_or_is_removed_is_not_mentioned() -> None:
    records = [
        ConfigRecord(ConfigResource.TOPIC, "t", "retention.ms", "5"),
        ConfigRecord(ConfigResource.TOPIC, "t", "preallocate", "false"),
        ConfigRecord(ConfigResource.TOPIC, "t", "preallocate", None),
        ConfigRecord(ConfigResource.BROKER, "0", "wat.is.this", "2"),
        ConfigRecord(8, "0", "root", "INFO"),
    ]
    assert without_effect(records) == []
