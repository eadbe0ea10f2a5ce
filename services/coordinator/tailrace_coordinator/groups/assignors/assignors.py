"""The assignors by the names that members ask for (`group.consumer.assignors`); the first is the default."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tailrace_coordinator.groups.assignors import range as by_range
from tailrace_coordinator.groups.assignors import uniform
from tailrace_coordinator.groups.assignors.spec import Assignor

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": uniform.assign, "range": by_range.assign})
