"""The groups of the key exchange: X25519 and P-256, and no others.

Among OpenSSL's defaults are ffdhe4096 to ffdhe8192, which a client chooses alone and which hold the event loop for 20
to 150 ms.
"""

from __future__ import annotations

import ctypes
import ssl
import sys
from typing import Final

GROUPS: Final = "X25519:P-256"
_ALONE: Final = "prime256v1"  # P-256, which every client has (RFC 8446, section 9.1)
_SET_GROUPS_LIST: Final = 92  # SSL_CTRL_SET_GROUPS_LIST of openssl/ssl.h, what SSL_CTX_set1_groups_list(3) is made of


def limit_groups(context: ssl.SSLContext) -> bool:
    """Whether both groups are taken: where OpenSSL cannot be asked for two, P-256 is alone."""
    if sys.version_info >= (3, 15):
        context.set_groups(GROUPS)
        return True
    # Until Python 3.15 there is no way to name more than one.
    context.set_ecdh_curve(_ALONE)
    return _set_in_openssl(context)


def _set_in_openssl(context: ssl.SSLContext) -> bool:
    """Asks OpenSSL itself, whose SSL_CTX is the first field of CPython's object (PySSLContext of Modules/_ssl.c)."""
    import _ssl

    library = getattr(_ssl, "__file__", None)
    if library is None or sys.implementation.name != "cpython":
        return False
    try:
        control = ctypes.CDLL(library).SSL_CTX_ctrl  # found in the libssl that _ssl is linked with
    except (OSError, AttributeError):
        return False
    control.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_char_p)
    control.restype = ctypes.c_long
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    return bool(control(pointer, _SET_GROUPS_LIST, 0, GROUPS.encode()) == 1)
