"""Ports for servers that tests start."""

import contextlib
import itertools
import os
import socket

__all__ = ["free_port"]

# Connections have ports from 32768 on, Ray's workers those below 20000, its clients' processes some of the
# 23000s: one of those could be taken between being found and being listened at.
_FIRST, _COUNT = 24_000, 8_000
_tried = itertools.count(97 * os.getpid())  # each process begins elsewhere


def free_port() -> int:
    """A port of this machine at which nobody listens, another one at each call."""
    for number in _tried:
        port = _FIRST + number % _COUNT
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError  # not reached
