"""What the coordinator reads in a member's subscription."""

from hypothesis import given
from hypothesis import strategies as st

from support.groups import subscription
from tailrace_coordinator.groups.consumer_protocol import subscribed_topics

names = st.text(max_size=20)


@given(st.lists(names, max_size=5))
def test_topics_of_a_subscription_are_read(topics: list[str]) -> None:
    assert subscribed_topics(subscription(*topics)) == frozenset(topics)


@given(st.binary(max_size=60))
def test_other_subscriptions_are_not_known(raw: bytes) -> None:
    found = subscribed_topics(raw)
    assert found is None or isinstance(found, frozenset)
