"""All messages, as tests go through them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from calibrail.errors import tables_beside
from calibrail.report.messages import message


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """Return all messages by code: the text, and the title where one has it."""
    folder = files("calibrail.report") / "catalogue"
    topics = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    codes = [
        f"{topic.removesuffix('.toml')}.{name}"
        for topic in topics
        for name in tables_beside(str(folder / topic), topic)
    ]
    return {code: message(code) for code in codes}
