"""Free ports in a row: brokers are nodes on neighbouring ports, so one free port is not enough.

TEST_PORTS=lowest-highest keeps to these (without the highest): runs that are side by side choose each its own.
"""

import os
import random
import socket
from collections import deque

HOST = "127.0.0.1"
LOWEST, HIGHEST = 20000, 31000  # below the kernel's ephemeral range, so that no client socket takes them meanwhile
_GIVEN: deque[int] = deque(maxlen=500)  # not given again at once: nothing may listen there yet


def free_ports(count: int) -> int:
    """Answers the first of count neighbouring TCP ports that nobody holds."""
    lowest, highest = map(int, os.environ.get("TEST_PORTS", f"{LOWEST}-{HIGHEST}").split("-"))
    chooser = random.SystemRandom()
    for _ in range(200):
        first = chooser.randrange(lowest, highest - count + 1)
        ports = range(first, first + count)
        if not any(port in _GIVEN for port in ports) and all(map(is_free, ports)):
            _GIVEN.extend(ports)
            return first
    raise OSError(f"no {count} neighbouring free ports between {lowest} and {highest}")


def is_free(port: int) -> bool:
    """Tells whether the port can be bound on the loopback."""
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
