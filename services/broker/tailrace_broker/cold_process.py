"""Who reads cold data into the page cache: `python -m tailrace_broker.cold_process FD`, started by a broker.

A process of its own, of the kind that the kernel lets run where nobody else wants to (SCHED_IDLE): as a thread of the
broker it would hold the interpreter's lock while it waits for a processor, and the event loop would wait with it. FD is
one end of a socket of whole messages: an order with a file's descriptor, answered by a status. It ends with the broker:
by the end of the socket.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from threading import Thread
from typing import Final

from tailrace_broker.cold_orders import HELLO, MOST_AT_ONCE, ORDER, STATUS, Order, Status

_NICEST: Final = 19
_LOOK_BYTES: Final = 262_144


def yield_to_others() -> None:
    """Runs where a processor would stand still; where that is not to be had, at the lowest priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (OSError, AttributeError):
        with suppress(OSError):
            os.nice(_NICEST)


def touch(descriptor: int, position: int, length: int, sink: int) -> None:
    """Returns when these bytes are in the page cache.

    The descriptor is the broker's own, so that the kernel sees one reader that goes on: it reads ahead in few large
    folios then, which a description that is new each time would not get. A disk brings them past the processor. Under
    a hypervisor its first look at such memory may cost it 0.1 ms, which is better spent here than in the event loop.
    """
    at, end, byte = position, position + length, bytearray(1)
    while at < end and (count := os.sendfile(sink, descriptor, at, end - at)):
        at += count
    for place in range(position, end, _LOOK_BYTES):
        os.preadv(descriptor, [byte], place)


def serve(orders: socket.socket) -> None:
    """Does one order after the other until there is nobody to give any."""
    sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    with suppress(ConnectionError):
        while True:
            data, descriptors, _, _ = socket.recv_fds(orders, ORDER.size, 1)
            if not data:
                return
            orders.send(STATUS.pack(*done(Order(*ORDER.unpack(data)), descriptors, sink)))


def done(order: Order, descriptors: list[int], sink: int) -> Status:
    """Does it and closes the descriptors; there is none where this process may open no more of them."""
    error = errno.EMFILE
    for descriptor in descriptors:
        try:
            touch(descriptor, order.position, order.length, sink)
            error = 0
        except OSError as failed:
            error = failed.errno or errno.EIO
        finally:
            os.close(descriptor)
    return Status(order.number, error)


def main(arguments: list[str]) -> None:
    """Several at once: a disk may be slow for one and quick for the others."""
    yield_to_others()
    orders = socket.socket(fileno=int(arguments[0]))
    orders.send(STATUS.pack(*HELLO))
    threads = [Thread(target=serve, args=(orders,), daemon=True) for _ in range(MOST_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
