"""Forks one child of `up`. The parent has no thread and no event loop, so fork is safe and shares what was imported."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_libc = ctypes.CDLL(None, use_errno=True)


class Forked(NamedTuple):
    """The parent's ends: `pid_fd` becomes readable when the child died."""

    pid: int
    pid_fd: int
    log_fd: int
    report_fd: int


def fork(name: str, body: Callable[[int], int], leave_parent: Callable[[], None]) -> Forked:
    """Runs `body(report_fd)` in a child and returns the parent's side; the child exits with what `body` returns."""
    log_read, log_write = os.pipe()
    report_read, report_write = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _settle(name, parent, log_write, leave_parent)
            os.close(log_read)
            os.close(report_read)
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            status = body(report_write)
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        finally:  # a child never returns into its parent's stack
            if error := sys.exception():
                traceback.print_exception(error)
            sys.stderr.flush()
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    os.close(log_write)
    os.close(report_write)
    os.set_blocking(log_read, False)
    os.set_blocking(report_read, False)
    return Forked(pid, os.pidfd_open(pid), log_read, report_read)


def _settle(name: str, parent: int, log_fd: int, leave_parent: Callable[[], None]) -> None:
    """Makes the child a process of its own that dies with its parent."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
    os.setsid()  # Ctrl-C goes to the parent alone, which stops the roles in order
    _libc.prctl(_PR_SET_NAME, name.encode()[:15])
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    leave_parent()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
