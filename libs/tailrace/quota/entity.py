"""Which byte rate holds for a client id: its own, else the default client id's (KIP-124, KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

CLIENT_ID = "client-id"
QuotaEntity = tuple[tuple[str, str | None], ...]


class QuotaKind(IntEnum):
    """What is counted; the numbers go over the wire in AcquireLease."""

    PRODUCE = 0
    FETCH = 1


KEY_OF = {QuotaKind.PRODUCE: "producer_byte_rate", QuotaKind.FETCH: "consumer_byte_rate"}


class ClientQuotas:
    """The byte rates of client ids, taken from the metadata image's quotas. Entities with a user are passed over.

    A client id's own quota counts per key: one that has only a producer rate follows the default in fetching. A client
    that sends no client id has the id "", as in Apache Kafka. The default rate holds for each client id by itself.
    """

    __slots__ = ("_default", "_own")

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None) -> None:
        self._own: dict[tuple[str, QuotaKind], float] = {}
        self._default: dict[QuotaKind, float] = {}
        for entity, values in (quotas or {}).items():
            if len(entity) != 1 or entity[0][0] != CLIENT_ID:
                continue
            client_id = entity[0][1]
            for kind, key in KEY_OF.items():
                rate = values.get(key)
                if rate is None:
                    continue
                if client_id is None:
                    self._default[kind] = rate
                else:
                    self._own[client_id, kind] = rate

    def rate(self, client_id: str, kind: QuotaKind) -> float | None:
        """Bytes per second over the whole cluster, None for no limit."""
        own = self._own.get((client_id, kind))
        return self._default.get(kind) if own is None else own

    def __bool__(self) -> bool:
        """Whether anybody is limited."""
        return bool(self._own or self._default)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientQuotas):
            return NotImplemented
        return self._own == other._own and self._default == other._default

    __hash__ = None  # type: ignore[assignment]  # a value that is compared, never a key
