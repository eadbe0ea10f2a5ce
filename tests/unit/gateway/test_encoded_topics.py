"""What Metadata tells of a topic is worked out once, and again only when the image says otherwise."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.metadata import encode_metadata, encode_refused_topic, encode_topic
from tailrace_gateway.handlers import metadata
from unit.gateway.test_gateway_handlers import ID_A, Stub, broker, context, image, partition, replicated


class Counting:
    """Describes as the handler does, and remembers which topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.threads = set[threading.Thread]()
        self._real = metadata.describe_topic
        monkeypatch.setattr(metadata, "describe_topic", self._described)

    def _described(self, reach: Any, topic: TopicImage, version: int, *, operations: bool) -> Any:
        self.names.append(topic.name)
        self.threads.add(threading.current_thread())
        return self._real(reach, topic, version, operations=operations)

    def taken(self) -> list[str]:
        names, self.names = self.names, []
        return names


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


async def ask(gateway: Stub, version: int = 12, *, operations: bool = False) -> Any:
    request = m.MetadataRequest(topics=None if version else [], include_topic_authorized_operations=operations)
    body = await metadata.handle(request, context(ApiKey.METADATA, version), gateway)
    return codec.decode_response(ApiKey.METADATA, version, body.body)


def changed(gateway: Stub, **changes: Any) -> None:
    gateway.show(replace(gateway.image, **changes))


async def test_a_topic_is_described_when_it_is_told_first_and_when_it_has_changed(described: Counting) -> None:
    gateway = Stub(image())
    before = await ask(gateway)
    assert described.taken() == ["a", "b"]
    assert await ask(gateway) == before and not described.taken()
    moved = TopicImage("a", ID_A, (partition(1), partition(0), partition(0)))
    changed(gateway, topics={**gateway.image.topics, "a": moved})
    answer = await ask(gateway)
    assert described.taken() == ["a"]
    assert [[row.leader_id for row in topic.partitions] for topic in answer.topics] == [[1, 0, 0], [1]]


async def test_other_brokers_have_every_topic_described_again(described: Counting) -> None:
    base = image()
    gateway = Stub(replace(base, topics={"a": TopicImage("a", ID_A, (replicated(),))}, topic_names={ID_A: "a"}))
    assert (await ask(gateway)).topics[0].partitions[0].offline_replicas == [2]
    changed(gateway, brokers={**base.brokers, 2: broker(2)})
    assert (await ask(gateway)).topics[0].partitions[0].offline_replicas == []
    assert described.taken() == ["a", "a"]


async def test_versions_and_those_who_want_the_operations_are_told_apart() -> None:
    gateway = Stub(image())
    answers = [await ask(gateway, version, operations=wants) for version in (0, 9, 12) for wants in (False, True)]
    again = [await ask(gateway, version, operations=wants) for version in (0, 9, 12) for wants in (False, True)]
    assert answers == again
    operations = [answer.topics[0].authorized_operations for answer in answers[2:]]
    assert operations[0] == operations[2] != operations[1] == operations[3]


async def test_what_is_gone_is_not_kept_for_ever(described: Counting) -> None:
    gateway = Stub(image())
    for number in range(1000):
        name = f"t{number}"
        changed(gateway, topics={name: TopicImage(name, ID_A, ())})
        await ask(gateway)
    assert sum(len(encoded) for encoded in gateway.encoded.of(gateway.image, (12, False)).values()) < 1000
    assert len(described.taken()) == 1000


@pytest.mark.parametrize("topics", [{"t": 1000}, {f"t{number}": 10 for number in range(100)}])
async def test_many_are_encoded_in_a_thread_and_once(topics: dict[str, int], described: Counting) -> None:
    images = {name: TopicImage(name, ID_A, (replicated(),) * count) for name, count in topics.items()}
    gateway = Stub(MetadataImage(topics=images, brokers=image().brokers))
    first = await ask(gateway)
    assert [len(topic.partitions) for topic in first.topics] == [topics[name] for name in sorted(topics)]
    assert described.taken() == sorted(topics)
    assert threading.main_thread() not in described.threads
    assert await ask(gateway) == first and not described.taken()


async def test_few_are_encoded_at_once(described: Counting) -> None:
    await ask(Stub(image()))
    assert described.threads == {threading.main_thread()}


@pytest.mark.parametrize("version", range(14))
def test_an_answer_put_together_is_the_one_that_the_codec_writes(version: int) -> None:
    def response(*topics: Any) -> Any:
        row = m.MetadataResponse.MetadataResponseBroker(node_id=7, host="h", port=1, rack=None)
        return m.MetadataResponse(brokers=[row], cluster_id="c", controller_id=7, topics=list(topics))

    row = m.MetadataResponse.MetadataResponseTopic
    rows = [
        row(error_code=3, name=f"t{number}", topic_id=ID_A, is_internal=False, partitions=[]) for number in range(200)
    ]
    for count in (0, 1, 126, 127, 128, 200):
        told = encode_metadata(response(), version, [encode_topic(one, version) for one in rows[:count]])
        assert told.body == codec.encode_response_body(response(*rows[:count]), version)


@pytest.mark.parametrize("version", range(14))
def test_a_topic_that_is_not_there_is_written_as_the_schema_says(version: int) -> None:
    rows: list[Any] = [
        (3, "a-topic", None, False),
        (17, "__consumer_offsets", None, True),
        (3, "x" * 249, UUID(int=7), False),
    ]
    rows += [(100, None, UUID(int=9), False)] if version >= 12 else []
    for code, name, topic_id, is_internal in rows:
        row = m.MetadataResponse.MetadataResponseTopic(
            error_code=code, name=name, topic_id=topic_id, is_internal=is_internal, partitions=[]
        )
        assert encode_refused_topic(version, code, name, topic_id, is_internal) == encode_topic(row, version)
