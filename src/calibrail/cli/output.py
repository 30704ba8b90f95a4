"""Where does what a command says go: results to standard output, notes to standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def command_line() -> str:
    """Return the command that was run, without where its results went."""
    words = ["calibrail"]
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in ("-o", "--output"):
            next(arguments, None)
        elif not argument.startswith("--output=") and argument != "--json":
            words.append(argument)
    return shlex.join(words)


def note(message: str) -> None:
    """Say something that is not the result."""
    typer.echo(message, err=True)


def print_json(content: Mapping[str, Any]) -> None:
    """Print the machine-readable result."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def stdout_console() -> Console:
    """Return the console for tables; without colours where nobody looks."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)
