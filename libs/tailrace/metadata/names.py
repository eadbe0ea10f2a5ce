"""Names as Kafka allows them: of topics, and of brokers as config resources."""

import re

MAX_LENGTH = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,10})")
CLUSTER_METADATA = "__cluster_metadata"


def refusal(name: str) -> str | None:
    """Returns Kafka's sentence for a name that is no topic name, None for one that is."""
    why = None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_LENGTH:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.issuperset(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None if why is None else f"Topic name is invalid: {why}"


def can_collide(name: str) -> bool:
    """Whether another topic's metrics could have the same name: Kafka takes '.' and '_' for the same there."""
    return "." in name or "_" in name


def in_metrics(name: str) -> str:
    """Returns what two topics that collide have in common."""
    return name.replace(".", "_")


def broker_number(name: str) -> int | None:
    """The id that a broker's config resource is named by; None where Java's Integer.parseInt would refuse."""
    found = _NUMBER.fullmatch(name)
    if found is None:
        return None
    number = int("".join(found.groups()))
    return number if -(1 << 31) <= number < 1 << 31 else None
