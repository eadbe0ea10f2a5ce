"""Finds the services by the entry-point group `tailrace.roles`, so that the command line imports none."""

from __future__ import annotations

from importlib.metadata import entry_points

from tailrace.runtime.role import Role


def find_role(name: str) -> Role:
    """Imports the service. Raises LookupError where it is not installed."""
    found = entry_points(group="tailrace.roles", name=name)
    if not found:
        raise LookupError(f"no service named {name!r} is installed")
    role = next(iter(found)).load()
    assert isinstance(role, Role)
    return role
