"""Writes descriptors/__init__.pyi, the types of our own messages: `python -m tailrace.wire.stubs [--check]`.

kafka-python ships such stubs for its own classes and the generator that made them; the gate checks that ours are
current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka.protocol.generate_stubs import emit_class

from tailrace.wire import descriptors

_HEAD = """# Written by python -m tailrace.wire.stubs
import uuid
from typing import Any

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer
"""


def render() -> str:
    """The stub's text for every message class in the descriptors package."""
    lines = [_HEAD]
    for name, value in sorted(vars(descriptors).items()):
        if name.endswith(("Request", "Response")):
            lines += ["", *emit_class(value), ""]
    return "\n".join(lines).replace("-> dict:", "-> dict[str, Any]:")


def main() -> int:
    """Writes the stub, or with --check says whether it is current."""
    path = Path(descriptors.__file__).with_suffix(".pyi")
    text = render()
    if "--check" in sys.argv:
        current = path.exists() and path.read_text() == text
        return 0 if current else 1
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
