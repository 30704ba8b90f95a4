"""What became of the export of another tool, in words?"""

import shlex
from collections.abc import Iterator
from typing import Final

from calibrail.phrases import count
from calibrail.report.blocks import Json

#: Verdicts that are listed.
_LISTED: Final = 8


def export_facts(export: Json | None) -> Iterator[tuple[str, str]]:
    """Yield what was made of an export, and where its labels and scores stand.

    Parameters
    ----------
    export : mapping or None
        What `ExportNotes.to_dict` gives; None for what is no export.
    """
    if export is None:
        return
    yield "Export of", f"{export['tool']}: {_made(export)}"
    for reason, n in export["left_out"].items():
        yield "", f"{n:,} x left out: {reason}"
    if people := _verdicts(export["annotations"]):
        yield "Said by people", people
    if programs := _verdicts(export["scores"]):
        first = next(iter(export["scores"]))
        yield (
            "Said by programs",
            f"{programs}: scores (--score-column {shlex.quote(first)}); --label-column takes one "
            "as the label all the same",
        )


def export_note(export: Json | None) -> Iterator[str]:
    """Yield what a reader of a report should know of an export that it rests on."""
    if export is None:
        return
    left = sum(export["left_out"].values())
    without = f", and {left:,} without an answer were left out" if left else ""
    yield (f"Read as an export of {export['tool']}: {_made(export)}{without}.")


def _made(export: Json) -> str:
    n, part = export["n_parts"], str(export["part"])
    parts = f"{n:,} {part.removesuffix('s') if n == 1 else part}"
    return f"{parts} made {count(export['n_answers'], 'answer')}"


def _verdicts(counts: Json) -> str:
    named = [f"{name} ({n:,})" for name, n in list(counts.items())[:_LISTED]]
    more = [f"{len(counts) - _LISTED} more"] if len(counts) > _LISTED else []
    return ", ".join((*named, *more))
