"""A TCP proxy between a service and its database that can cut, hang, slow down, and swallow the answer of COMMIT."""

import contextlib
import socket
import threading

from support.ports import HOST

CHUNK_BYTES = 65_536


class TcpProxy:
    """Forwards a port of its own to another one; faults hold for connections that are open and for new ones."""

    def __init__(self, target_port: int) -> None:
        self._target = (HOST, target_port)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay_s = 0.0
        self.commit_lost = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        self._cut = False
        self._closed = threading.Event()
        self._lose_commit = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Breaks all connections; new ones are broken as well."""
        self._cut = True
        self._break_all()

    def mend(self) -> None:
        """Ends all faults."""
        self._cut, self.delay_s = False, 0.0
        self._flowing.set()

    def retarget(self, target_port: int) -> None:
        """Breaks all connections; new ones go to another port."""
        self._target = (HOST, target_port)
        self._break_all()

    def hang(self) -> None:
        """Nothing is forwarded any more, in no direction; connections stay, and new ones are accepted."""
        self._flowing.clear()

    def lose_the_next_commit(self) -> None:
        """The next COMMIT reaches the server, its answer nobody: the connection breaks. Sets commit_lost then."""
        self.commit_lost.clear()
        self._lose_commit = True

    def close(self) -> None:
        """Ends everything."""
        self._closed.set()
        self._flowing.set()
        self._listener.close()
        self._break_all()

    def _break_all(self) -> None:
        with self._lock:
            ends = list(self._open)
        for end in ends:
            _shut(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._cut:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            swallow = threading.Event()
            threading.Thread(target=self._pump, args=(client, server, swallow, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, swallow, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, swallow: threading.Event, upwards: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._flowing.wait()
                if self.delay_s:
                    self._closed.wait(self.delay_s)
                if upwards and self._lose_commit and b"COMMIT" in data:
                    self._lose_commit = False
                    swallow.set()
                if not upwards and swallow.is_set() and b"COMMIT" in data:  # the answer names what is complete
                    self.commit_lost.set()
                    break
                sink.sendall(data)
        _shut(source)
        _shut(sink)
        with self._lock:
            self._open.discard(source)
        source.close()


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
