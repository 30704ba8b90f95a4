"""Where does what a command says go: results to standard output, notes to standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from calibrail.scores.table import Cost
    from calibrail.workflow.dry_run import PlannedCalls


def command_line() -> str:
    """Return the command that was run, without where its results went."""
    words = ["calibrail"]
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in ("-o", "--output"):
            next(arguments, None)
        elif not argument.startswith("--output=") and argument not in ("--json", "--no-text"):
            words.append(argument)
    return shlex.join(words)


def note(message: str) -> None:
    """Say something that is not the result."""
    typer.echo(message, err=True)


def note_costs(costs: Iterable[Cost]) -> None:
    """Say what each detector cost."""
    for cost in costs:
        if cost.seconds_per_1000 is None:
            continue
        parts = [f"{cost.seconds_per_1000:.3g} s per 1,000 answers"]
        if cost.forward_passes:
            parts.append(f"{cost.forward_passes:,} forward passes")
        if cost.calls is not None:
            usage = cost.calls.usage
            parts.append(
                f"{usage.n_sent:,} calls sent, {usage.n_cached:,} answers known, "
                f"{usage.n_failed:,} failed"
            )
            if usage.n_counted:
                parts.append(f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out")
        if cost.shared_with:
            parts.append(f"shared with {', '.join(cost.shared_with)}")
        note(f"cost of {cost.score}: {', '.join(parts)}")


def print_plan(calls: Sequence[PlannedCalls], json: bool) -> None:
    """Print what a run would ask of endpoints."""
    if json:
        print_json({"schema": "calibrail.dry_run/1", "calls": [item.to_dict() for item in calls]})
        return
    if not calls:
        typer.echo("no endpoint would be called: none of these detectors asks a language model")
    for item in calls:
        typer.echo(item.sentence())
    typer.echo("nothing was sent (--dry-run)")


def print_json(content: Mapping[str, Any]) -> None:
    """Print the machine-readable result."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def stdout_console() -> Console:
    """Return the console for tables; without colours where nobody looks."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)
