"""Where does what a command says go: results to standard output, notes to standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from calibrail.report import Document
    from calibrail.scores.table import Cost, ScoreTable
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


def print_result(
    content: Mapping[str, Any],
    document: Callable[[Mapping[str, Any]], Document],
    json: bool,
    page: Path | None = None,
) -> None:
    """Print a result as JSON or as its document says it; write its page where one is wanted."""
    from calibrail.report import print_document

    if json:
        print_json(content)
    else:
        print_document(document(content), stdout_console())
    if page is not None:
        _write_page(document(content), page)


def _write_page(document: Document, page: Path) -> None:
    from calibrail.errors import DataError
    from calibrail.workflow.run_folder import write_page

    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_page(document, page)
    except OSError as error:
        raise DataError(f"--page {page} cannot be written: {error}") from error
    note(f"wrote {page}")


def note_run(folder: Path, files: str, table: ScoreTable | None, n_quarantined: int) -> None:
    """Say what the detectors cost, which files a run has written, and what it set aside."""
    from calibrail.scores.registry import BASELINES

    costs = () if table is None else table.costs
    note_costs(cost for cost in costs if cost.score not in BASELINES)
    note(f"wrote {folder}/{files}")
    note_quarantined(n_quarantined, folder / "quarantine.jsonl")


def note_quarantined(count: int, path: Path) -> None:
    """Say how many rows were unusable, and where they stand."""
    if count:
        note(f"{count} unusable rows: see {path}")


def print_json(content: Mapping[str, Any]) -> None:
    """Print the machine-readable result."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def stdout_console() -> Console:
    """Return the console for tables; without colours where nobody looks."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)
