"""Plans for moving replicas: nobody is left behind, nothing is lost, load and racks are respected."""

from collections import Counter

import pytest

from tailrace.metadata.moves import NoRoom, by_rack, copied, drained, spread

FOUR = {0: None, 1: None, 2: None, 3: None}


def textbook(partitions: int = 12, nodes: int = 4) -> dict[tuple[str, int], tuple[int, ...]]:
    return {("t", p): (p % nodes, (p + 1) % nodes, (p + 2) % nodes) for p in range(partitions)}


def test_a_drained_broker_holds_nothing_and_every_partition_keeps_its_factor() -> None:
    before = textbook()
    plan = drained(before, FOUR, 3)
    after = before | plan
    assert set(plan) == {partition for partition, replicas in before.items() if 3 in replicas}
    assert all(3 not in replicas and len(set(replicas)) == 3 for replicas in after.values())


def test_the_newcomer_takes_the_place_in_the_list_and_leaders_stay_spread() -> None:
    before = textbook(24, 5)
    after = before | drained(before, dict.fromkeys(range(5)), 4)
    for partition, replicas in before.items():
        kept = [node for node in replicas if node != 4]
        assert [node for node in after[partition] if node in kept] == kept
    leaders = Counter(replicas[0] for replicas in after.values())
    assert max(leaders.values()) - min(leaders.values()) <= 2  # the four that 4 led have two takers each


def test_a_rack_that_the_partition_lacks_comes_first() -> None:
    racks = {0: "a", 1: "b", 2: "b", 3: "a", 4: "c"}
    assert drained({("t", 0): (0, 1, 2)}, racks, 2) == {("t", 0): (0, 1, 4)}


def test_no_broker_left_is_refused_in_a_sentence_unless_it_may_shrink() -> None:
    three = {0: None, 1: None, 2: None}
    with pytest.raises(NoRoom, match=r"t-0 has 3 replicas .* broker 2"):
        drained({("t", 0): (0, 1, 2)}, three, 2)
    assert drained({("t", 0): (2, 1, 0)}, three, 2, shrink=True) == {("t", 0): (1, 0)}
    with pytest.raises(NoRoom):
        drained({("t", 0): (2,)}, {2: None}, 2, shrink=True)


def test_a_refusal_names_the_way_out_for_the_command_and_for_http() -> None:
    with pytest.raises(NoRoom, match=r"t-0 has 1 replica and no other .*\(--shrink, over HTTP \?shrink=true\)"):
        drained({("t", 0): (2,)}, {2: None}, 2)


def test_topics_are_spread_as_in_the_textbook() -> None:
    one_each = [(0,)] * 12
    assert spread({"t": one_each}, FOUR, 3) == textbook()
    assert spread({"t": list(textbook().values())}, FOUR) == {}


def test_more_replicas_than_brokers_is_refused() -> None:
    with pytest.raises(NoRoom, match="3 replicas, but there are 2 brokers"):
        spread({"t": [(0,)]}, {0: None, 1: None}, 3)


def test_neighbours_are_of_different_racks() -> None:
    assert by_rack({0: "a", 1: "a", 2: "b", 3: "b", 4: "c"}) == [0, 2, 4, 1, 3]


def test_copies_count_up_to_the_size_of_the_whole() -> None:
    assert copied(100, [0, 40, 130]) == (140, 300)
    assert copied(0, [7]) == (0, 0)
    assert copied(100, []) == (0, 0)
