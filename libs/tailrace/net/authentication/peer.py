"""Whose process is at the other end of a Unix socket (SO_PEERCRED, unix(7)), whatever the modes of its folders say."""

from __future__ import annotations

import os
import socket
from struct import Struct
from typing import Any

_CREDENTIALS = Struct("3i")  # pid, uid, gid
_ROOT = 0


def other_user(sock: Any) -> int | None:
    """The user id of a peer that is neither this process's user nor root; None also where the kernel does not say."""
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return None if uid in {os.geteuid(), _ROOT} else int(uid)
