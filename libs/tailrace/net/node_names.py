"""One port for a whole cluster: node n by its host name, which clients of TLS ask for (SNI, RFC 6066). Pure."""

from __future__ import annotations

from typing import Final

NODE_ID: Final = "{nodeId}"
"""Stands for a node's id in an advertised host: `broker-{nodeId}.kafka.example.com`."""
_DIGITS: Final = 10


def has_node_id(host: str) -> bool:
    """Whether each node has a host name of its own."""
    return NODE_ID in host


def name_of(host: str, node_id: int) -> str:
    """The host name of one node."""
    return host.replace(NODE_ID, str(node_id))


def node_of(host: str, server_name: str | None) -> int | None:
    """The node that a client asks for by name; None for a name of no node, as that of the cluster."""
    before, _, after = (part.lower() for part in host.partition(NODE_ID))
    name = (server_name or "").lower().removesuffix(".")
    digits = name[len(before) : len(name) - len(after)]
    fits = name.startswith(before) and name.endswith(after) and len(name) == len(before) + len(digits) + len(after)
    if not (fits and digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS):
        return None
    return int(digits) if digits == str(int(digits)) else None
