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

from tailrace.log.page_cache import bring
from tailrace_broker.cold_orders import HELLO, MOST_AT_ONCE, ORDER, STATUS, Order, Status

_NICEST: Final = 19


def yield_to_others() -> None:
    """Runs where a processor would stand still; where that is not to be had, at the lowest priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (OSError, AttributeError):
        with suppress(OSError):
            os.nice(_NICEST)


def serve(orders: socket.socket) -> None:
    """Does one order after the other until there is nobody to give any."""
    with suppress(ConnectionError):
        while True:
            data, descriptors, _, _ = socket.recv_fds(orders, ORDER.size, 1)
            if not data:
                return
            orders.send(STATUS.pack(*done(Order(*ORDER.unpack(data)), descriptors)))


def done(order: Order, descriptors: list[int]) -> Status:
    """Does it and closes the descriptors; there is none where this process may open no more of them."""
    error = errno.EMFILE
    for descriptor in descriptors:
        try:
            # The broker's own descriptor, so that the kernel sees one reader that goes on, and reads ahead for it.
            bring(descriptor, order.position, order.length)
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
