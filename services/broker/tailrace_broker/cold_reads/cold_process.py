"""Who reads cold data and sends it: `python -m tailrace_broker.cold_reads.cold_process FD MEMORY`, started by a broker.

A process of its own, of the kind that the kernel lets run where nobody else wants to (SCHED_IDLE): as a thread of the
broker it would hold the interpreter's lock while it waits for a processor, and the event loop would wait with it. FD is
one end of a socket of whole messages: an order with descriptors, answered by a status. MEMORY is that of the broker's
pool (pool.py), or -1. It ends with the broker: by the end of the socket.
"""

from __future__ import annotations

import errno
import mmap
import os
import socket
import sys
from contextlib import suppress
from threading import Thread
from typing import Final

from tailrace.log.filesystem.page_cache import bring
from tailrace_broker.cold_reads.messages import (
    HELLO,
    MOST_DESCRIPTORS,
    ORDER_BYTES,
    STATUS,
    THREADS,
    MessageKind,
    Order,
    OrderStatus,
)

_NICEST: Final = 19
# A kernel that does not preempt itself lets whoever wants the processor wait for the end of a system call.
_SEND_BYTES: Final = 32_768
_READ_BYTES: Final = 262_144


def yield_to_others() -> None:
    """Runs where a processor would stand still; where that is not to be had, at the lowest priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (OSError, AttributeError):
        with suppress(OSError):
            os.nice(_NICEST)


def serve(orders: socket.socket, memory: memoryview) -> None:
    """Does one order after the other until there is nobody to give any."""
    with suppress(ConnectionError):
        while True:
            data, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES, MOST_DESCRIPTORS)
            if not data:
                return
            orders.send(STATUS.pack(*done(Order.unpack(data), descriptors, memory)))


def done(order: Order, descriptors: list[int], memory: memoryview) -> OrderStatus:
    """Does it and closes the descriptors; some are missing where this process may open no more of them."""
    try:
        if len(descriptors) != order.descriptors:
            return OrderStatus(order.number, errno.EMFILE)
        if order.kind == MessageKind.SEND:
            return OrderStatus(order.number, *send(descriptors[1], descriptors[0], order))
        if order.kind == MessageKind.SEND_HELD:
            return OrderStatus(order.number, *send_held(descriptors[0], order, memory))
        if order.kind == MessageKind.READ:
            return OrderStatus(order.number, 0, read(descriptors[0], order, memory))
        # The broker's own descriptor, so that the kernel sees one reader that goes on, and reads ahead for it.
        bring(descriptors[0], order.position, order.length)
        return OrderStatus(order.number, 0)
    except OSError as failed:
        return OrderStatus(order.number, failed.errno or errno.EIO)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def read(file: int, order: Order, memory: memoryview) -> int:
    """Past the page cache; how many bytes there were. OSError, also where the file system has no such way."""
    # Opened once more: the flag is the open file's, and the broker's own goes through the page cache.
    descriptor = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    place = memory[order.place : order.place + order.length]
    # Pages that were never used are made here one by one, not all of them within one system call.
    place[:: mmap.PAGESIZE] = bytes(len(place[:: mmap.PAGESIZE]))
    got = 0
    try:
        while got < order.length:
            wanted = min(_READ_BYTES, order.length - got)
            count = os.preadv(descriptor, [place[got : got + wanted]], order.position + got)
            got += count
            os.sched_yield()
            if count < wanted:
                break  # the end of the file
        return got
    finally:
        os.close(descriptor)


def send_held(client: int, order: Order, memory: memoryview) -> tuple[int, int]:
    """As send, from the shared memory."""
    sent = 0
    try:
        for place, length in order.parts:
            at, end = place, place + length
            while at < end:
                count = os.write(client, memory[at : min(end, at + _SEND_BYTES)])
                at += count
                sent += count
                os.sched_yield()
    except BlockingIOError:
        pass
    except OSError as failed:
        return failed.errno or errno.EIO, sent
    return 0, sent


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
    shared = int(arguments[1])
    memory = memoryview(b"" if shared < 0 else mmap.mmap(shared, 0))
    threads = [Thread(target=serve, args=(orders, memory), daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
