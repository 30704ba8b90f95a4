"""Ports for servers that start in a process of their own."""

from __future__ import annotations

import contextlib
import secrets
import socket


def free_port() -> int:
    """Return a port of this machine that nobody listens at, and nobody is given by chance.

    A server binds its port a while after this function has found it free. Ports that the kernel
    gives away by itself, to a notebook's kernel of the test beside, say, lie above 32,768.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as trying, contextlib.suppress(OSError):
            trying.bind(("127.0.0.1", port))
            return port
