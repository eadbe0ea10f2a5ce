"""All ACLs of a cluster, found by the name of a resource in microseconds, however many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from tailrace.access.acls import WILDCARD, Acl, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.resources import ResourceType

ByPrincipal = Mapping[str, Set[Acl]]
ByName = Mapping[str, ByPrincipal]


@dataclass(frozen=True, slots=True)
class Patterns:
    """The ACLs of one type of resources. A lookup tries the prefixes with these lengths, and no others."""

    literal: ByName = field(default_factory=dict)
    prefixed: ByName = field(default_factory=dict)
    prefix_lengths: tuple[int, ...] = ()

    def on(self, name: str) -> Iterator[ByPrincipal]:
        """The ACLs of each pattern that the resource falls under."""
        if (found := self.literal.get(name)) is not None:
            yield found
        if name != WILDCARD and (found := self.literal.get(WILDCARD)) is not None:
            yield found
        for length in self.prefix_lengths:
            if length > len(name):
                return
            if (found := self.prefixed.get(name[:length])) is not None:
                yield found

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> Patterns:
        """The patterns after a change."""
        literal = _changed(self.literal, _of(PatternType.LITERAL, added), _of(PatternType.LITERAL, removed))
        prefixed = _changed(self.prefixed, _of(PatternType.PREFIXED, added), _of(PatternType.PREFIXED, removed))
        if prefixed is self.prefixed:
            return Patterns(literal, prefixed, self.prefix_lengths)
        return Patterns(literal, prefixed, tuple(sorted(set(map(len, prefixed)))))


@dataclass(frozen=True, slots=True)
class AclImage:
    """The ACLs of each type of resources that has some."""

    types: Mapping[ResourceType, Patterns] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Acl]:
        for patterns in self.types.values():
            for by_name in (patterns.literal, patterns.prefixed):
                for by_principal in by_name.values():
                    for acls in by_principal.values():
                        yield from acls

    def changed(self, added: Iterable[Acl] = (), removed: Iterable[Acl] = ()) -> AclImage:
        """The image after a change: first it loses ACLs, then it gets others."""
        by_type: dict[ResourceType, tuple[list[Acl], list[Acl]]] = defaultdict(lambda: ([], []))
        for number, acls in enumerate((added, removed)):
            for acl in acls:
                by_type[acl.resource_type][number].append(acl)
        types = dict(self.types)
        for resource_type, (more, less) in by_type.items():
            types[resource_type] = types.get(resource_type, Patterns()).changed(more, less)
        return AclImage({found: patterns for found, patterns in types.items() if patterns.literal or patterns.prefixed})

    def __contains__(self, acl: object) -> bool:
        if not isinstance(acl, Acl):
            return False
        patterns = self.of(acl.resource_type)
        by_name = patterns.literal if acl.pattern_type is PatternType.LITERAL else patterns.prefixed
        return acl in by_name.get(acl.name, {}).get(acl.principal, ())

    def of(self, resource_type: ResourceType) -> Patterns:
        """The ACLs of one type of resources."""
        return self.types.get(resource_type, NO_PATTERNS)

    def matching(self, wanted: AclFilter) -> Iterator[Acl]:
        """The ACLs that a filter names."""
        return (acl for acl in self.candidates(wanted) if wanted.matches(acl))

    def candidates(self, wanted: AclFilter) -> Iterator[Acl]:
        """The ACLs that are compared with a filter: all of them where it names no resource."""
        return iter(self) if wanted.name is None else self._named(wanted.resource_type, wanted.name)

    def _named(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """The ACLs that a filter with this name may name."""
        for patterns in self.types.values() if resource_type is ResourceType.ANY else (self.of(resource_type),):
            for by_principal in patterns.on(name):
                for acls in by_principal.values():
                    yield from acls


NO_PATTERNS = Patterns()


def _of(pattern_type: PatternType, acls: Iterable[Acl]) -> list[Acl]:
    return [acl for acl in acls if acl.pattern_type is pattern_type]


def _changed(by_name: ByName, added: Iterable[Acl], removed: Iterable[Acl]) -> ByName:
    fresh: dict[str, dict[str, Set[Acl]]] = {}
    for acls, adding in ((removed, False), (added, True)):
        for acl in acls:
            if acl.name not in fresh:
                fresh[acl.name] = dict(by_name.get(acl.name, {}))
            held = fresh[acl.name].get(acl.principal, frozenset())
            fresh[acl.name][acl.principal] = held | {acl} if adding else held - {acl}
    if not fresh:
        return by_name
    changed = dict(by_name)
    for name, by_principal in fresh.items():
        if rest := {principal: acls for principal, acls in by_principal.items() if acls}:
            changed[name] = rest
        else:
            changed.pop(name, None)
    return changed
