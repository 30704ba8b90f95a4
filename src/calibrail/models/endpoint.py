"""Which endpoint is called, and which key may it see?"""

import ipaddress
import os
import re
from typing import Final
from urllib.parse import urlsplit

from calibrail.errors import InputError, ModelError

OPENAI: Final = "https://api.openai.com/v1"

#: Environment variables with the address and the key, as the OpenAI SDK names them.
ADDRESS_VARIABLE: Final = "OPENAI_BASE_URL"
KEY_VARIABLE: Final = "OPENAI_API_KEY"

# What clients read in one way only: no spaces, control characters or backslashes.
_PLAIN: Final = re.compile(r"[^\s\\\x00-\x1f\x7f]+")


def resolve_endpoint(base_url: str | None) -> str:
    """Return the address of an OpenAI-compatible endpoint, without a slash at its end.

    Parameters
    ----------
    base_url : str or None
        E.g. ``http://localhost:8000/v1``; None for ``OPENAI_BASE_URL``, or OpenAI itself.

    Raises
    ------
    InputError
        If it is no http(s) address, or holds a password, a query or a fragment: a key belongs into
        the environment, since addresses stand in reports and guardrails.

    Examples
    --------
    >>> resolve_endpoint("http://localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    if base_url is None:
        base_url = os.environ.get(ADDRESS_VARIABLE) or OPENAI
    if not isinstance(base_url, str):
        raise InputError(
            f"base_url must be an address, http://... or https://...; got {base_url!r}"
        )
    base_url = base_url.strip()
    try:
        parts = urlsplit(base_url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
        is_address = parts.scheme in ("http", "https") and host and _PLAIN.fullmatch(base_url)
    except ValueError:
        is_address = False
    if not is_address:
        raise InputError(
            "base_url must be an address such as http://localhost:8000/v1; got "
            f"{_without_secrets(base_url)!r}"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            f"base_url must hold no user, password, query or fragment; put the key into the "
            f"environment variable {KEY_VARIABLE}, which no report or guardrail holds"
        )
    return base_url.rstrip("/")


def key_for(endpoint: str) -> str | None:
    """Return the key that may be sent to an endpoint, None where none may be or none is set.

    The key of the environment goes to OpenAI, to the endpoint that the environment names
    (``OPENAI_BASE_URL``) and to this machine itself. Any other address may come from a file
    written by someone else, such as a guardrail, and gets no key.

    Raises
    ------
    ModelError
        If OpenAI is to be called and there is no key.
    """
    if not is_trusted(endpoint):
        return None
    # A file that holds a key usually ends in a newline.
    key = os.environ.get(KEY_VARIABLE, "").strip() or None
    if endpoint == OPENAI and key is None:
        raise ModelError(
            f"{OPENAI} wants a key: set the environment variable {KEY_VARIABLE}, or name another "
            "endpoint with base_url"
        )
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ModelError(f"the environment variable {KEY_VARIABLE} holds more than a key")
    return key


def is_trusted(endpoint: str) -> bool:
    """Return whether what the environment says of OpenAI, the key above all, may go there."""
    named = os.environ.get(ADDRESS_VARIABLE, "").strip().rstrip("/") or OPENAI
    return endpoint in (OPENAI, named) or _is_loopback(endpoint)


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_secrets(address: str) -> str:
    """Return an address without what stands before an @ or after a question mark or a hash."""
    head, at, tail = address.rpartition("@")
    scheme, mark, _ = head.partition("://")
    plain = f"{scheme}{mark}...@{tail}" if mark else f"...@{tail}" if at else address
    return plain.partition("?")[0].partition("#")[0]
