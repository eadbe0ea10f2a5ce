"""Classic groups of three members, by every Python client: joins, leaves, static members, assignors, offsets."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from support.clients import Client, Member, Record, Refused
from support.clients.base import await_members, await_share
from support.stage import coordinator, create_topic
from support.targets import Target
from support.waiting import until

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


@contextmanager
def joining(client: Client, group: str, topic: str, count: int, assignor: str = "range") -> Iterator[list[Member]]:
    """So many members, that leave at the end if they have not yet."""
    members: list[Member] = []
    try:
        for _ in range(count):
            members.append(client.join(group, topic, assignor))
        yield members
    finally:
        for member in members:
            member.stopping.set()
        for member in members:
            member.leave()


@pytest.mark.capability("groups of three members: join, leave")
def test_three_members_share_and_a_leaver_gives_back(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target, partitions=6)
    with joining(client, group, topic.name, 1) as (first,):
        await_share([first], 6)
        with joining(client, group, topic.name, 2) as (second, third):
            await_share([first, second, third], 6)
            until(lambda: client.describe_group(group) == ("Stable", 3), "a stable group of three")
            second.leave()
            await_share([first, third], 6)
        await_share([first], 6)
    state, members = until(lambda: empty_group(client, group), "an empty group")
    assert (state, members) == ("Empty", 0)


def empty_group(client: Client, group: str) -> tuple[str, int] | None:
    described = client.describe_group(group)
    return described if described[0] == "Empty" else None


@pytest.mark.capability("assignors: range, roundrobin, sticky, cooperative-sticky")
@pytest.mark.only("tailrace3", "kafka")  # the clients assign; what one broker does with it, the others below show
def test_every_assignor_of_the_client_shares_fairly(target: Target, client: Client, group: str, assignor: str) -> None:
    topic = create_topic(target, partitions=6)
    with joining(client, group, topic.name, 3, assignor) as members:
        await_share(members, 6)


@pytest.mark.capability("groups of three members: every record is read once")
def test_a_group_reads_every_record_once(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target, partitions=6)
    values = [b"%d" % n for n in range(120)]
    with joining(client, group, topic.name, 3) as members:
        await_share(members, 6)
        client.produce(topic.name, [Record(v, partition=n % 6) for n, v in enumerate(values)])
        await_members(lambda: sum(len(m.values) for m in members) >= len(values), members, "all records")
        assert sorted(v for member in members for v in member.values if v is not None) == sorted(values)


@pytest.mark.capability("static members (KIP-345)")
def test_a_static_member_comes_back_to_its_partitions(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target, partitions=6)
    with ExitStack() as stack:
        members = [client.join(group, topic.name, instance_id=f"instance-{n}") for n in range(3)]
        for member in members:
            stack.callback(member.leave)
            stack.callback(member.stopping.set)
        await_share(members, 6)
        before = members[1].partitions
        members[1].leave()
        assert client.describe_group(group)[1] == 3  # a static member does not leave the group when it closes
        back = client.join(group, topic.name, instance_id="instance-1")
        stack.callback(back.leave)
        await_members(lambda: back.partitions == before, [back, members[0], members[2]], "the same partitions")


@pytest.mark.capability("commit and fetch offsets with metadata")
def test_a_committed_offset_comes_back_with_its_metadata(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target)
    coordinator(target, group)
    assert client.committed(group, topic.name) is None
    client.commit(group, topic.name, 42, "who: me")
    assert client.committed(group, topic.name) == (42, "who: me")
    client.commit(group, topic.name, 7, "")
    assert client.committed(group, topic.name) == (7, "")


@pytest.mark.capability("list and describe groups")
def test_a_group_is_listed_once_over_all_nodes(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target)
    coordinator(target, group)
    client.commit(group, topic.name, 1, "")
    until(lambda: group in client.list_groups(), "the group in the list")
    assert client.describe_group(group) == ("Empty", 0)


@pytest.mark.capability("delete groups")
@pytest.mark.needs("delete_group")
def test_an_empty_group_is_deleted_a_live_one_is_not(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target)
    coordinator(target, group)
    client.commit(group, topic.name, 1, "")
    client.delete_group(group)  # type: ignore[attr-defined]
    assert client.committed(group, topic.name) is None
    with pytest.raises(Refused) as refused:
        client.delete_group(group)  # type: ignore[attr-defined]
    assert refused.value.code == GROUP_ID_NOT_FOUND
    with joining(client, group, topic.name, 1) as (member,):
        await_share([member], 1)
        with pytest.raises(Refused) as refused:
            client.delete_group(group)  # type: ignore[attr-defined]
        assert refused.value.code == NON_EMPTY_GROUP


@pytest.mark.capability("OffsetDelete")
@pytest.mark.needs("delete_group_offsets")
def test_a_deleted_offset_is_gone(target: Target, client: Client, group: str) -> None:
    topic = create_topic(target)
    coordinator(target, group)
    client.commit(group, topic.name, 5, "")
    client.delete_group_offsets(group, topic.name)  # type: ignore[attr-defined]
    assert client.committed(group, topic.name) is None


@pytest.mark.capability("DescribeLogDirs per broker")
@pytest.mark.needs("log_dirs")
def test_every_broker_has_a_log_dir_and_leaders_hold_the_bytes(target: Target, client: Client) -> None:
    topic = create_topic(target, partitions=3)
    for partition in range(3):
        client.produce(topic.name, [Record(bytes(2000), partition=partition)])
    found = client.log_dirs(topic.name)  # type: ignore[attr-defined]
    assert sorted(found) == list(range(target.brokers))
    sizes = {broker: sum(size for _, size in dirs) for broker, dirs in found.items()}
    assert all(len(dirs) == 1 for dirs in found.values())
    assert all(sizes[node] == 0 or sizes[node] > 2000 for node in sizes)
    assert {node for node, size in sizes.items() if size} == set(topic.leaders)
