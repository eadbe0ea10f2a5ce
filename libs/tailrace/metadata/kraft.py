"""The metadata log of an Apache Kafka 4 cluster as an image of ours: what it says of topics, configs, quotas and users.

Kafka's records come in several versions, some inside transactions (KIP-868), and some are about what we have no place
for; those are counted by name. A record that nobody here knows is refused: leaving it out might lose something.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tailrace.metadata import codec
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord, PartitionChangeRecord
from tailrace.metadata.replay import replay

_REGISTER, _UNREGISTER = 0, 1
_BEGIN, _END, _ABORT, _CLEAR_ELR = 23, 24, 25, 28
# What is about Kafka's own processes, or about nothing that lasts: brokers and controllers register again.
_PASSED_OVER: Final = frozenset({7, 8, 17, 20, 21, 27})
# What we have no place for yet, in words for the person who imports; a removal takes one away again.
_COUNTED: Final = {10: "delegation token"}
_UNCOUNTED: Final = {26: 10}
# Older versions whose bytes the newest schema reads: what it adds are tagged fields.
_READ_AS_NEWEST: Final = {3: (1,), 5: (0, 1)}
_NEWEST = 2
# How a RegisterBrokerRecord begins: broker id, since version 2 whether it migrates, incarnation id, broker epoch.
_REGISTRATION: Final = struct.Struct(">i16xq")
_REGISTRATION_SINCE_2: Final = struct.Struct(">i17xq")
_BROKER_ID: Final = struct.Struct(">i")


@dataclass
class Replayed:
    """The image so far, without brokers: their epochs; and how many records of each kind found no place."""

    image: MetadataImage = field(default_factory=MetadataImage)
    broker_epochs: dict[int, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    _transaction: list[bytes] | None = None

    def apply(self, values: Iterable[bytes], offset: int, epoch: int) -> None:
        """Takes the records of a batch whose last offset this is; MalformedRecord for what is not known."""
        records: list[MetadataRecord] = []
        for value in self._outside_transactions(values):
            key, version, start = _frame(value)
            if key in (_REGISTER, _UNREGISTER):
                self._register(key, version, value[start:])
            elif key == _CLEAR_ELR:
                self.image = replay(self.image, records, offset, epoch)
                records = list(_cleared(self.image, value))
            elif key in _COUNTED or key in _UNCOUNTED:
                name = _COUNTED[_UNCOUNTED.get(key, key)]
                self.left_out[name] += 1 if key in _COUNTED else -1
            elif key not in _PASSED_OVER:
                records.append(_decode(value, key, version))
        self.image = replay(self.image, records, offset, epoch)

    def _register(self, key: int, version: int, fields: bytes) -> None:
        layout = _REGISTRATION if version < 2 else _REGISTRATION_SINCE_2
        try:
            if key == _REGISTER:
                broker_id, epoch = layout.unpack_from(fields)
                self.broker_epochs[broker_id] = epoch
            else:
                (broker_id,) = _BROKER_ID.unpack_from(fields)
                self.broker_epochs.pop(broker_id, None)
        except struct.error:
            raise MalformedRecord("a broker's registration is cut off") from None

    def _outside_transactions(self, values: Iterable[bytes]) -> Iterator[bytes]:
        """The records that count: those of a transaction come with its end, and never if it is aborted."""
        for value in values:
            key = _frame(value)[0]
            if key == _BEGIN:
                self._transaction = []
            elif key in (_END, _ABORT):
                held, self._transaction = self._transaction or [], None
                if key == _END:
                    yield from held
            elif self._transaction is not None:
                self._transaction.append(value)
            else:
                yield value


def _frame(value: bytes) -> tuple[int, int, int]:
    """(api key, version, where the fields begin)."""
    numbers, position = [], 0
    for _ in range(3):
        number = shift = 0
        while True:
            if position >= len(value) or shift > 28:
                raise MalformedRecord("a metadata record is cut off")
            byte = value[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(number)
    if numbers[0] != codec.FRAME_VERSION:
        raise MalformedRecord(f"metadata record frame {numbers[0]} is not known")
    return numbers[1], numbers[2], position


def _decode(value: bytes, key: int, version: int) -> MetadataRecord:
    if version in _READ_AS_NEWEST.get(key, ()):
        assert value[2] == version, "a version below 128 is one byte, after those of the frame and the key"
        value = value[:2] + bytes((_NEWEST,)) + value[3:]
    return codec.decode(value)


def _cleared(image: MetadataImage, value: bytes) -> Iterator[PartitionChangeRecord]:
    """ClearElrRecord: the eligible leaders of one topic, or of all, are forgotten."""
    start = _frame(value)[2]
    name = value[start + 1 : start + value[start]].decode()
    topics = [image.topics[name]] if name else list(image.topics.values())
    for topic in topics:
        for index in range(len(topic.partitions)):
            yield PartitionChangeRecord(index, topic.topic_id, eligible_leader_replicas=(), last_known_elr=())
