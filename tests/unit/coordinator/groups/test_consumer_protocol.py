"""What the coordinator reads in a member's subscription."""

from hypothesis import given
from hypothesis import strategies as st

from support.groups import subscription
from tailrace_coordinator.groups.consumer_protocol import read_topics

names = st.text(max_size=20)


@given(st.lists(names, max_size=5))
def test_topics_of_a_subscription_are_read(topics: list[str]) -> None:
    found = set[str]()
    assert read_topics(subscription(*topics), found)
    assert found == set(topics)


@given(st.binary(max_size=60))
def test_of_other_subscriptions_no_error_comes(raw: bytes) -> None:
    assert isinstance(read_topics(raw, set()), bool)


def test_a_subscription_of_more_than_ten_thousand_topics_is_not_read() -> None:
    names = [f"t{number}" for number in range(10_001)]
    assert not read_topics(subscription(*names), set())
    assert read_topics(subscription(*names[1:]), set())
