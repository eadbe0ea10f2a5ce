"""The gateway's ports: found free or refused with the name of who holds them, then held for the cluster's life.

Gateways share ports by SO_REUSEPORT, so a second cluster of the same user would share them too, silently. Therefore the
parent binds each port alone first, and only then lets others of its own user join.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Sequence

from tailrace.cli.data_dir import UpRefused
from tailrace.cli.port_holder import holder_of

_BLOCK_ATTEMPTS = 50
# A machine may have no IPv6, whose addresses are among the defaults of programs and of the image.
_OF_ANY_MACHINE = ("127.0.0.1", "::1", "0.0.0.0", "::")


class Reservation:
    """Bound sockets that do not listen: they receive nothing and keep the ports while a gateway restarts."""

    def __init__(
        self, hosts: Sequence[str], port: int, count: int, *, of_host: str = "--listen", of_port: str = "--port"
    ) -> None:
        """Takes count ports from `port` on each host; 0 looks for a free block. Raises UpRefused.

        of_host, of_port: the settings that choose others.
        """
        self._of_port = of_port
        self.hosts = [host for host in hosts if _exists(host)]
        away = [host for host in hosts if host not in self.hosts]
        if not self.hosts or any(host not in _OF_ANY_MACHINE for host in away):
            raise UpRefused(f"{', '.join(away)} is no address of this machine; {of_host} takes others.")
        self.sockets: list[socket.socket] = []
        self.port = port or self._take_free_block(count)
        if port:
            self._take(port, count)

    def close(self) -> None:
        for taken in self.sockets:
            taken.close()
        self.sockets.clear()

    def _take(self, port: int, count: int) -> None:
        try:
            for number in range(port, port + count):
                for host in self.hosts:
                    try:
                        self.sockets.append(_bind_alone(host, number))
                    except OSError as error:
                        raise UpRefused(_sentence(host, number, self._of_port, error)) from error
        except UpRefused:
            self.close()
            raise

    def _take_free_block(self, count: int) -> int:
        for _ in range(_BLOCK_ATTEMPTS):
            with _bind_alone(self.hosts[0], 0) as first:
                port: int = first.getsockname()[1]
            with contextlib.suppress(UpRefused):
                self._take(port, count)
                return port
        raise UpRefused(f"no {count} free ports in a row were found; give {self._of_port}.")


def check_admin_port(hosts: Sequence[str], port: int) -> None:
    """Raises UpRefused if somebody listens there already."""
    for host in hosts:
        try:
            _bind_alone(host, port).close()
        except OSError as error:
            raise UpRefused(_sentence(host, port, "--admin-port", error)) from error


def _bind_alone(host: str, port: int) -> socket.socket:
    """A socket bound where nobody listens or holds a reservation; afterwards sharing by SO_REUSEPORT is allowed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Over connections in TIME_WAIT, but taken back at once: two sockets with it could share an idle port.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        bound.close()
        raise
    return bound


def _exists(host: str) -> bool:
    try:
        _bind_alone(host, 0).close()
    except OSError:
        return False
    return True


def _sentence(host: str, port: int, option: str, error: OSError) -> str:
    other = f"Choose another port with {option}."
    if error.errno == errno.EACCES:
        return f"Port {port} needs more rights than this user has. {other}"
    if error.errno != errno.EADDRINUSE:
        return f"Port {port} on {host} cannot be used: {error.strerror}. {other}"
    holder, ports = holder_of(port), "--port" if option == "--admin-port" else option
    if holder is None:
        return f"Port {port} on {host} is taken by a process that cannot be seen from here. {other}"
    if holder.is_tailrace:
        return (
            f"Port {port} on {host} is taken by another Tailrace (pid {holder.pid}: {holder.command}). "
            f"Stop it with `kill {holder.pid}`, or choose other ports with {ports} and --admin-port."
        )
    return f"Port {port} on {host} is taken by pid {holder.pid} ({holder.command}). {other}"
