"""The parts that pages watch, by name, and what one look at each asks of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from tailrace.access.resources import CLUSTER_NAME, ResourceType
from tailrace.clock import Clock
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.console.hub import Look, Looks
from tailrace_gateway.rest.console.looks import activity, groups, rights, status, topics
from tailrace_gateway.rest.errors import plain

ARGUMENT_CHARS: Final = 32_768  # of a group's id


def looks_of(backend: AdminBackend, clock: Clock) -> Looks:
    """The looks of one user, whose rights the backend asks for."""
    whole: Mapping[str, Callable[[], Look]] = {
        "status": lambda: status.StatusLook(backend).look,
        "log-dirs": lambda: partial(status.log_dirs, backend),
        "topics": lambda: topics.TopicsLook(backend).look,
        "figures": lambda: topics.FiguresLook(backend, clock).look,
        "groups": lambda: groups.GroupsLook(backend, clock).look,
        "transactions": lambda: partial(activity.transactions, backend),
        "users": lambda: partial(rights.users, backend),
        "acls": lambda: rights.AclsLook(backend).look,
        "rights": lambda: partial(rights.rights, backend, ResourceType.CLUSTER, CLUSTER_NAME),
        "quotas": lambda: partial(activity.quotas, backend),
        "quota-limits": lambda: activity.QuotaLimitsLook(backend).look,
    }
    of_one: Mapping[str, Callable[[str], Look]] = {
        "topic": lambda name: topics.PartitionsLook(backend, clock, name).look,
        "group": lambda name: partial(groups.group, backend, clock, name),
        "topic-rights": lambda name: partial(rights.rights, backend, ResourceType.TOPIC, name),
        "group-rights": lambda name: partial(rights.rights, backend, ResourceType.GROUP, name),
    }

    def look_of(name: str) -> Look:
        kind, colon, argument = name.partition(":")
        if not colon and kind in whole:
            return whole[kind]()
        if colon and kind in of_one and len(argument) <= ARGUMENT_CHARS:
            return of_one[kind](argument)
        raise plain(HTTPStatus.BAD_REQUEST, f"There is no part {kind}.")

    return look_of
