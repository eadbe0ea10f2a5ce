"""What the coordinator reads in a member's subscription."""

from hypothesis import given
from hypothesis import strategies as st

from support.groups import subscription
from tailrace_coordinator.groups.consumer_protocol import read_topics

names = st.text(max_size=20)


@given(st.lists(names, max_size=5))
def test_topics_of_a_subscription_are_read(topics: list[str]) -> None:
    raw = subscription(*topics)
    assert read_topics(raw, len(topics)) == (topics, raw[: len(raw) - 4])


@given(st.binary(max_size=60))
def test_of_other_subscriptions_no_error_comes(raw: bytes) -> None:
    read_topics(raw, 100)


def test_a_subscription_of_more_topics_than_are_left_is_not_read() -> None:
    names = [f"t{number}" for number in range(11)]
    assert read_topics(subscription(*names), 10) == (None, b"")
    assert read_topics(subscription(*names[1:]), 10)[0] == names[1:]
