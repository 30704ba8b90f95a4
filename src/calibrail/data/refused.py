"""What is said of a row, or of a whole source, that is of no use?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from calibrail.data.rows import Problem
from calibrail.settings import ReadOptions
from calibrail.settings.option import either, option_of

_DUPLICATE: Final = "give every row its own id, or name another id column"


class _Read(Protocol):
    """What is known of a source, as `calibrail.data.reading.Reading` knows it."""

    source: str
    format: str
    fields: tuple[str, ...]
    n_rows: int

    @property
    def reasons(self) -> Mapping[tuple[str, str], int]: ...

    @property
    def filtered(self) -> Mapping[str, int]: ...


def duplicate(number: int, id: str, file: str) -> Problem:
    """Return what is wrong with a row whose id stood there before."""
    return Problem(number, "id", "duplicate", repr(id), "", _DUPLICATE, file)


def describe(problem: Problem, source: str) -> str:
    """Say what is wrong with a row, and what to do about it."""
    seen = f", got {problem.value}" if problem.value else ""
    remedy = f". {problem.remedy[0].upper()}{problem.remedy[1:]}" if problem.remedy else ""
    reason = problem.entry()["reason"]
    where = problem.file or source
    return f"{where}, row {problem.row}, field {problem.field}: {reason}{seen}{remedy}"


def nothing_usable(read: _Read, first: Problem | None, quarantine: Path | None) -> str:
    """Say why no row of a source is of use, and how its columns are named."""
    if not read.n_rows:
        return f"{read.source} is empty: it holds no row"
    reasons = sorted(read.reasons.items(), key=lambda item: -item[1])[:5]
    kinds = [f"{field}: {reason} ({n})" for (field, reason), n in reasons]
    left_out = sorted(read.filtered.items(), key=lambda item: -item[1])[:3]
    kinds += [f"left out: {reason} ({n})" for reason, n in left_out]
    seen = f" Columns seen: {', '.join(read.fields[:30])}." if read.fields else ""
    example = f" The first: {describe(first, read.source)}." if first else ""
    where = f" Every problem is in {quarantine}." if quarantine else ""
    *some, last = (
        option_of(ReadOptions, name)
        for name in ("mapping", "label_column", "group_column", "id_column")
    )
    columns = f"{', '.join(some)} and {last}"
    return (
        f"{read.source}, read as {read.format}, has no usable row among {read.n_rows}: "
        f"{'; '.join(kinds)}.{example}{seen}{where} Columns are named with {columns}; "
        f"{either('`calibrail doctor`', 'calibrail.diagnose(...)')} lists them all"
    )


def nobody_marked(read: _Read) -> str:
    """Say that a source says of no sentence whether it is supported, and how it could."""
    spans, answer_id = (
        option_of(ReadOptions, "mapping", {field: "COLUMN"}) for field in ("spans", "answer_id")
    )
    seen = f" Columns seen: {', '.join(read.fields[:30])}." if read.fields else ""
    return (
        f"{read.source} says of no sentence whether it is supported: a hallucinated answer needs "
        f"spans ([[start, end], ...]; {spans} where the column has another name) or sentences with "
        f"a label each; where every row is a sentence, {answer_id} names the column of its answer."
        f"{seen} {either('`calibrail doctor`', 'calibrail.diagnose(...)')} says what is there"
    )
