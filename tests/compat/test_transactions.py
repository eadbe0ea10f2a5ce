"""Transactions do not exist yet: their ids are refused at once, by name, so that no client waits for a minute."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from support.raw import build
from support.stage import unique
from support.targets import Target
from tailrace.errors import ErrorCode


@pytest.mark.capability("transactional ids get one named non-retriable error at once")
@pytest.mark.only("tailrace1", "tailrace3")
@pytest.mark.by("confluent")
def test_librdkafka_gives_up_at_once(target: Target) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": unique("transaction")})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(60)
    error = refused.value.args[0]
    assert error.code() != KafkaError._TIMED_OUT  # which is what it says when it has tried for all that time
    assert not error.retriable(), error


@pytest.mark.capability("transactional ids get one named non-retriable error at once")
@pytest.mark.only("tailrace1", "tailrace3")
def test_the_refusal_is_one_non_retriable_code_everywhere(target: Target) -> None:
    name = unique("transaction")
    found = {
        target.ask(build(10, key=name, key_type=1), 3).error_code,
        target.ask(build(10, key_type=1, coordinator_keys=[name]), 4).coordinators[0].error_code,
        target.ask(build(22, transactional_id=name, transaction_timeout_ms=1000), 4).error_code,
    }
    assert len(found) == 1, found
    code = ErrorCode(found.pop())
    assert code is not ErrorCode.NONE
    assert not code.retriable
