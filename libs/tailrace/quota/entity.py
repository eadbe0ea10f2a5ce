"""Which rate holds for a client: Kafka's entities and their order of precedence (KIP-55, KIP-546, KIP-612).

An entity is what an administrator names: a user, a client id, both, an IP address, or a default of these. An account is
what is counted together: a default holds for each user and client id by itself, and all client ids of a user share the
user's rate. So an account has names only, and one entity that gives it its rate. With quota.scope=broker an account has
the id of a broker besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from hashlib import sha256
from ipaddress import AddressValueError, IPv4Address, IPv6Address

CLIENT_ID, USER, IP = "client-id", "user", "ip"
BROKER = "broker"  # in accounts alone: with quota.scope=broker each broker's part is counted by itself
QuotaEntity = tuple[tuple[str, str | None], ...]  # ((entity type, name or None for the default), ...), sorted by type
Account = QuotaEntity  # one without defaults


NAME_CHARS_MAX = 255
"""Of a name without a quota of its own: a client may send ids of 32 KB, and thousands of accounts are kept and sent."""
_KEPT_CHARS = 200
DEFAULT = "<default>"  # as Kafka's tools write it
_V4_BYTES, _BYTE_MAX, _DIGITS = 4, 255, 10


class QuotaKind(IntEnum):
    """What is counted; the numbers go over the wire in AcquireLease."""

    PRODUCE = 0
    FETCH = 1
    REQUEST = 2
    CONNECTION = 3
    CONTROLLER_MUTATION = 4


KEY_OF = {
    QuotaKind.PRODUCE: "producer_byte_rate",
    QuotaKind.FETCH: "consumer_byte_rate",
    QuotaKind.REQUEST: "request_percentage",
    QuotaKind.CONNECTION: "connection_creation_rate",
    QuotaKind.CONTROLLER_MUTATION: "controller_mutation_rate",
}
METERED = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST)
"""What a client is charged for where its socket is. Mutations are charged by the controller: there is only one."""

UNITS = {
    QuotaKind.PRODUCE: 1.0,
    QuotaKind.FETCH: 1.0,
    QuotaKind.REQUEST: 1e4,
    QuotaKind.CONNECTION: 1e3,
    QuotaKind.CONTROLLER_MUTATION: 1.0,
}
"""What one of a quota's key is counted as: bytes, microseconds of a core for a percent, thousandths of a connection."""


class ClientQuotas:
    """The quotas of the metadata image, by kind. Rates are in the units of their kind, over the whole cluster.

    Each kind has its own precedence: a client id with only a producer rate follows the default in fetching. A client
    that sends no client id has the id "", as in Apache Kafka.
    """

    __slots__ = ("_rates",)

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None) -> None:
        self._rates: dict[QuotaKind, dict[QuotaEntity, float]] = {kind: {} for kind in QuotaKind}
        for entity, values in (quotas or {}).items():
            known = _ip_entity(entity) if entity and entity[0][0] == IP else entity
            for kind, key in KEY_OF.items():
                rate = values.get(key)
                if rate is not None:
                    self._rates[kind][known] = rate * UNITS[kind]

    def of_client(self, user: str, client_id: str, kind: QuotaKind) -> tuple[Account, float] | None:
        """The account that a client is charged to, and its rate; None for no limit."""
        rates = self._rates[kind]
        if rates:
            for account, entity in _by_precedence(user, client_id):
                rate = rates.get(entity)
                if rate is not None:
                    return _short(account, entity), rate
        return None

    def of_ip(self, ip: str) -> tuple[Account, float] | None:
        """The same for new connections of an address."""
        account: Account = ((IP, ip),)
        rate = self.of_account(account, QuotaKind.CONNECTION)
        return None if rate is None else (account, rate)

    def of_account(self, account: Account, kind: QuotaKind) -> float | None:
        """The rate of an account, None where nothing gives it one any more."""
        rates = self._rates[kind]
        if account[0][0] == BROKER:
            account = account[1:]
        return next((rates[entity] for entity in _entities(account) if entity in rates), None) if rates else None

    def limited(self, user: str, client_id: str) -> bool:
        """Whether a client is charged for anything where its socket is."""
        return any(self.of_client(user, client_id, kind) is not None for kind in METERED)

    def __bool__(self) -> bool:
        """Whether any client is charged where its socket is."""
        return any(self._rates[kind] for kind in METERED)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientQuotas):
            return NotImplemented
        return self._rates == other._rates

    __hash__ = None  # type: ignore[assignment]  # a value that is compared, never a key


def at_broker(account: Account, broker_id: int | None) -> Account:
    """The account's part at one broker; None: the whole of it."""
    return account if broker_id is None else ((BROKER, str(broker_id)), *account)


def _short(account: Account, entity: QuotaEntity) -> Account:
    """The account without long names, but for those that the entity names: their beginning and a hash of the whole."""
    return tuple(
        (kind, name if name is None or len(name) <= NAME_CHARS_MAX or (kind, name) in entity else short_name(name))
        for kind, name in account
    )


def short_name(name: str) -> str:
    """The beginning of a long name and a hash of the whole."""
    return f"{name[:_KEPT_CHARS]}…{sha256(name.encode(errors='surrogatepass')).hexdigest()[:32]}"


def text_of(entity: QuotaEntity) -> str:
    """An entity or account in one line, as in the SQL views: no two have the same."""
    return ", ".join(f"{kind}={text_of_name(name)}" for kind, name in entity)


def text_of_name(name: str | None) -> str:
    """A name of an entity as text, `<default>` for the default alone."""
    if name is None:
        return DEFAULT
    text = name.replace("\\", r"\\").replace("\0", r"\0").replace(", ", r"\, ")
    return f"\\{text}" if text == DEFAULT else text


def _entities(account: Account) -> Iterator[QuotaEntity]:
    """What can give an account its rate, the first that is set."""
    if len(account) == 1:
        yield account
        yield ((account[0][0], None),)
        return
    (_, client_id), (_, user) = account
    for of_user in (user, None):
        for of_client in (client_id, None):
            yield (CLIENT_ID, of_client), (USER, of_user)


def _by_precedence(user: str, client_id: str) -> Iterator[tuple[Account, QuotaEntity]]:
    both: Account = ((CLIENT_ID, client_id), (USER, user))
    of_user: Account = ((USER, user),)
    of_client: Account = ((CLIENT_ID, client_id),)
    pairs = _entities(both)
    for of_users in _entities(of_user):
        yield both, next(pairs)
        yield both, next(pairs)
        yield of_user, of_users
    for of_clients in _entities(of_client):
        yield of_client, of_clients


def _ip_entity(entity: QuotaEntity) -> QuotaEntity:
    (_, name) = entity[0]
    return ((IP, None if name is None else canonical_ip(name) or name),)


def canonical_ip(text: str) -> str | None:
    """An address as sockets spell it; None for what is none. Other than Kafka's, no name is looked up but localhost."""
    if text == "localhost":
        return "127.0.0.1"
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" not in inner:
        return _ip_v4(inner)
    try:
        address = IPv6Address(inner.partition("%")[0])
    except AddressValueError:
        return None
    return str(address.ipv4_mapped or address)


def _ip_v4(text: str) -> str | None:
    """Up to four numbers; the last one fills the bytes that are left, as in Java."""
    parts = text.split(".")
    if len(parts) > _V4_BYTES or not all(
        part.isascii() and part.isdecimal() and len(part) <= _DIGITS for part in parts
    ):
        return None
    *first, last = (int(part) for part in parts)
    rest = 8 * (_V4_BYTES - len(first))
    if any(number > _BYTE_MAX for number in first) or last >> rest:
        return None
    return str(IPv4Address(sum(number << 8 * (3 - at) for at, number in enumerate(first)) + last))
