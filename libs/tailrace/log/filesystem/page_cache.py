"""What the page cache holds, asked without a read being begun, and how it is brought there without a copy.

It is asked by mincore(2) of a mapping that nobody reads through. preadv2 with RWF_NOWAIT does not wait for a page
that is not there, but has the kernel begin to read it. A single page that lies there in the way of what is read ahead
later has the kernel bring all of that page by page, instead of by the hundred, and milliseconds of work in one go
(`page_cache_ra_order` in the kernel's mm/readahead.c).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Final

_LOOK_BYTES: Final = 262_144
_FAILED: Final = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_map, _unmap, _mincore = _libc.mmap, _libc.munmap, _libc.mincore
_map.restype = ctypes.c_void_p
_map.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_ubyte))


def resident(descriptor: int, position: int) -> bool | None:
    """Whether the page with this byte of a file is in the page cache; None where the kernel does not tell.

    To who may neither write the file nor owns it the kernel says that everything is there.
    """
    page = mmap.PAGESIZE
    address = _map(None, page, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, position // page * page)
    if address == _FAILED:
        return None
    try:
        there = ctypes.c_ubyte()
        return bool(there.value & 1) if _mincore(address, page, there) == 0 else None
    finally:
        _unmap(address, page)


@cache
def _sink() -> int:
    """Where sendfile puts pages that are only wanted in the page cache: /dev/null, open for good."""
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def bring(descriptor: int, position: int, length: int) -> None:
    """Returns when these bytes of a file are in the page cache, and the processor has looked at them; OSError.

    The kernel's own reading ahead gives it large folios, POSIX_FADV_WILLNEED single pages: ten times the CPU. A disk
    brings them past the processor. Under a hypervisor its first look at such memory may cost it 0.1 ms, which is better
    spent here than in the event loop.
    """
    at, end, byte = position, position + length, bytearray(1)
    while at < end and (count := os.sendfile(_sink(), descriptor, at, end - at)):
        at += count
    for place in range(position, end, _LOOK_BYTES):
        os.preadv(descriptor, [byte], place)
