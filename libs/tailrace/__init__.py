"""Tailrace: a Kafka-wire-compatible distributed commit log."""

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`tailrace.read` (__init__.pyi), which is imported when it is used: a service needs none of it."""
    if name != "read":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = import_module("tailrace.frames.topic").read
    return found
