"""A log dir of very many logs: one of them costs what it costs alone."""

from __future__ import annotations

from uuid import UUID

from support.logs import NOW, with_settings
from support.steps import steps
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem


def holding(topics: int) -> LogDir:
    logs = LogDir.open(MemoryFilesystem(), "/logs", node_id=0, cluster_id="c", now_ms=NOW)
    for number in range(topics):
        logs.create(f"t{number}", 0, UUID(int=number), LogConfig())
    return logs


def test_the_first_log_of_a_topic_is_opened_without_a_look_at_the_others() -> None:
    few, many = holding(5), holding(150)
    more = [steps(lambda logs=logs: logs.create("new", 0, UUID(int=999), LogConfig())) for logs in (few, many)]  # type: ignore[misc]
    assert abs(more[1] - more[0]) < 150


def test_each_open_log_is_looked_at_once_however_many_topics_get_other_settings() -> None:
    logs, later = holding(100), with_settings(retention_bytes=7)
    every = {f"t{number}": later for number in range(100)}
    one = steps(lambda: logs.set_configs({"t1": later}))
    assert steps(lambda: logs.set_configs(every)) < 30 * one
    assert all(log.config is later for log in logs.open_logs().values())


def test_a_log_that_was_opened_before_its_settings_were_known_gets_them_with_the_next_of_its_topic() -> None:
    filesystem, later = MemoryFilesystem(), with_settings(retention_bytes=7)
    first = LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)
    first.create("t", 0, UUID(int=1), LogConfig())
    first.close()
    logs = LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)
    early = logs.log("t", 0)
    assert early is not None and early.config is not later
    logs.create("t", 1, UUID(int=1), later)
    assert early.config is later


def test_a_checkpoint_takes_note_of_no_log_that_went_meanwhile() -> None:
    logs = holding(3)
    keys = list(logs.open_logs())
    logs.delete(*keys[1], now_ms=NOW)
    for key in keys:
        logs.note_offsets(key)
    logs.write_checkpoints()
    assert logs.offsets.recovery_points.keys() == logs.open_logs().keys() == {keys[0], keys[2]}
