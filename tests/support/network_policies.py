"""What network policies of Kubernetes let through, between pods and addresses, by the rules of its documentation.

A pod that no policy selects for a direction may do all in it; else one of those that select it must allow it. A
connection needs the leave of both ends. https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from support.helm import Manifest, of_kind

NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class Pod:
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "default"  # where `helm template` puts the release


@dataclass(frozen=True)
class Outside:
    """A host that is no pod."""

    address: str


Peer = Pod | Outside


def may_connect(manifests: Sequence[Manifest], source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether both ends allow it."""
    policies = [one["spec"] for one in of_kind(manifests, "NetworkPolicy").values()]
    out = _allowed(policies, source, "Egress", target, port, protocol)
    return out and _allowed(policies, target, "Ingress", source, port, protocol)


def _allowed(policies: Sequence[Manifest], pod: Peer, direction: str, peer: Peer, port: int, protocol: str) -> bool:
    if isinstance(pod, Outside):
        return True
    mine = [
        one
        for one in policies
        if pod.namespace == "default" and direction in one["policyTypes"] and _selects(one["podSelector"], pod.labels)
    ]
    rules = [rule for one in mine for rule in one.get(direction.lower(), ())]
    side = "to" if direction == "Egress" else "from"
    return not mine or any(_has(rule, side, peer) and _has_port(rule, port, protocol) for rule in rules)


def _has(rule: Manifest, side: str, peer: Peer) -> bool:
    """An absent list is everybody."""
    return not rule.get(side) or any(_is(one, peer) for one in rule[side])


def _has_port(rule: Manifest, port: int, protocol: str) -> bool:
    return any(
        protocol == one["protocol"] and one["port"] <= port <= one.get("endPort", one["port"]) for one in rule["ports"]
    )


def _is(one: Manifest, peer: Peer) -> bool:
    if isinstance(peer, Outside):
        return "ipBlock" in one and ip_address(peer.address) in ip_network(one["ipBlock"]["cidr"])
    if "ipBlock" in one:
        return False
    namespace = {NAME_OF_NAMESPACE: peer.namespace}
    there = _selects(one["namespaceSelector"], namespace) if "namespaceSelector" in one else peer.namespace == "default"
    return there and _selects(one.get("podSelector", {}), peer.labels)


def _selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """An empty selector selects all."""
    wanted = selector.get("matchLabels", {})
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return all(labels.get(key) == value for key, value in wanted.items())
