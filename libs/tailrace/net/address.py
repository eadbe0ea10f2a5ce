"""Where a service listens: host and port, or a Unix socket on the same host. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """`host:port`, `[v6]:port` or `unix:/path`; a Unix socket has port -1 and its path as host."""

    host: str
    port: int

    @property
    def is_unix(self) -> bool:
        return self.port < 0

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises ValueError with a sentence that shows what is expected."""
        if text.startswith("unix:"):
            return cls(text.removeprefix("unix:"), -1)
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is not an address: expected host:port or unix:/path")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):  # `::1` could be the host and the port 1
            raise ValueError(f"{text!r} is not an address: IPv6 is in brackets, as in [::1]:9092")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        if self.is_unix:
            return f"unix:{self.host}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
