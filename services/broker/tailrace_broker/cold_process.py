"""Who reads cold data and sends it: `python -m tailrace_broker.cold_process FD`, started by a broker.

A process of its own, of the kind that the kernel lets run where nobody else wants to (SCHED_IDLE): as a thread of the
broker it would hold the interpreter's lock while it waits for a processor, and the event loop would wait with it. FD is
one end of a socket of whole messages: an order with descriptors, answered by a status. It ends with the broker: by the
end of the socket.
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
from tailrace_broker.cold_orders import HELLO, MOST_DESCRIPTORS, ORDER, STATUS, THREADS, Order, Status

_NICEST: Final = 19
# A kernel that does not preempt itself lets whoever wants the processor wait for the end of a system call.
_SEND_BYTES: Final = 32_768


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
            data, descriptors, _, _ = socket.recv_fds(orders, ORDER.size, MOST_DESCRIPTORS)
            if not data:
                return
            orders.send(STATUS.pack(*done(Order(*ORDER.unpack(data)), descriptors)))


def done(order: Order, descriptors: list[int]) -> Status:
    """Does it and closes the descriptors; some are missing where this process may open no more of them."""
    try:
        if len(descriptors) != order.descriptors:
            return Status(order.number, errno.EMFILE)
        if order.sends:
            return Status(order.number, *send(descriptors[1], descriptors[0], order))
        # The broker's own descriptor, so that the kernel sees one reader that goes on, and reads ahead for it.
        bring(descriptors[0], order.position, order.length)
        return Status(order.number, 0)
    except OSError as failed:
        return Status(order.number, failed.errno or errno.EIO)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def send(client: int, file: int, order: Order) -> tuple[int, int]:
    """Until the socket takes no more; an errno, or 0, and how many bytes were sent."""
    sent = 0
    try:
        while sent < order.length:
            left = order.length - sent
            count = os.sendfile(client, file, order.position + sent, min(_SEND_BYTES, left))
            if not count:
                return errno.ENODATA, sent
            sent += count
    except BlockingIOError:
        pass
    except OSError as failed:
        return failed.errno or errno.EIO, sent
    return 0, sent


def main(arguments: list[str]) -> None:
    """Several at once: a disk may be slow for one and quick for the others."""
    yield_to_others()
    orders = socket.socket(fileno=int(arguments[0]))
    orders.send(STATUS.pack(*HELLO))
    threads = [Thread(target=serve, args=(orders,), daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
