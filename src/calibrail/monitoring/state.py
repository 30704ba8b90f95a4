"""What stands in the file from which a watch goes on, and when is it refused?"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from calibrail.errors import InputError

#: Name of the content of a state.
SCHEMA: Final = "calibrail.watch-state/1"


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of a state: equal content, equal bytes; with a digest of it."""
    held = {"schema": SCHEMA, **content}
    return _canonical({**held, "digest": _digest(held)})


def from_bytes(raw: bytes | str) -> dict[str, Any]:
    """Return the content of a state.

    Raises
    ------
    InputError
        If it is none, of another version, or was changed.
    """
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the state of the watch cannot be read: {error}; {REMEDY}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise InputError(f'the state of a watch has the schema "{SCHEMA}"; got {found!r}; {REMEDY}')
    digest = content.pop("digest", None)
    if digest != _digest(content):
        raise InputError(f"the state of the watch was changed after it was written; {REMEDY}")
    return content


#: What can be done about a state that is of no use.
REMEDY: Final = "restore the file, or begin a new watch in another folder"


def _digest(content: Mapping[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode()
