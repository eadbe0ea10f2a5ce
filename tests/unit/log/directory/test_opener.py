"""What is remembered of topics' settings before and after their logs are opened."""

from tailrace.log.config import LogConfig
from tailrace.log.directory.opener import TopicSettings
from tailrace.log.directory.unopened_log import OF_ANY_POLICY

SHORT = LogConfig(retention_ms=1)


def test_settings_of_a_new_topic_are_no_news_to_any_open_log() -> None:
    settings = TopicSettings()
    assert not settings.learn("t", SHORT)
    assert settings.to_open("t") == SHORT and settings.get("t") == SHORT


def test_a_log_that_was_opened_before_its_topic_had_settings_must_be_told() -> None:
    settings = TopicSettings()
    assert settings.to_open("t") == OF_ANY_POLICY and settings.get("t") is None
    assert settings.learn("t", SHORT)
    settings.update({"t": SHORT})
    assert not settings.learn("t", SHORT)


def test_changed_settings_are_news() -> None:
    settings = TopicSettings()
    settings.update({"t": SHORT})
    assert settings.learn("t", LogConfig(retention_ms=2))
