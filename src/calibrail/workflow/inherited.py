"""Is fresh data read as the data was that a guardrail was calibrated on?"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from calibrail.data.example import TEXT_FIELDS
from calibrail.data.reader import read
from calibrail.data.sources import Source
from calibrail.errors import CalibrailError
from calibrail.guardrail.runtime import Guardrail
from calibrail.settings import ReadOptions
from calibrail.settings.checks import optional
from calibrail.settings.option import changed, flags
from calibrail.settings.reading import PART

#: Which of two ways to say what labels mean wins, when the other one was frozen.
_EITHER: Final = {"label_map": "positive", "positive": "label_map"}
_OF_LABELS: Final = (
    *("label_column", "label_map", "positive", "annotators", "group_column", "span_share"),
)


def frozen_reading(how: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what a guardrail keeps of how its data was read: options and the columns they gave."""
    said = {} if not how else how["settings"]
    settings = {name: value for name, value in said.items() if name not in PART}
    if not how or not settings:
        return None
    return {"settings": settings, "columns": dict(how["columns"])}


def inherited(
    reading: ReadOptions | None, guardrail: Guardrail, source: Source, *, labelled: bool
) -> ReadOptions:
    """Return how to read fresh data: as is said, and otherwise as the guardrail's own was read.

    What was frozen is taken up where the data has the same columns for its texts, and for its
    labels where these are read: then it is a file of the same making. A file of another layout is
    read by what it shows itself.

    Parameters
    ----------
    reading : ReadOptions or None
        What is said; it wins, option by option.
    guardrail : Guardrail
        Its data record may hold options.
    source : Source
        The fresh data.
    labelled : bool
        Whether labels are read.
    """
    reading = optional(reading, ReadOptions, "reading")
    frozen = guardrail.config.data.reading
    if frozen is None or isinstance(source, Iterator):
        return reading
    given = changed(reading)
    settings = {
        name: value
        for name, value in frozen["settings"].items()
        if name not in given
        and _EITHER.get(name) not in given
        and (labelled or name not in _OF_LABELS)
    }
    likely = replace(reading, **settings)
    try:
        looked = replace(likely, quarantine=None, strict=False)
        found = read(source, looked, require=(), labelled=False, allow_none=True).columns
    except CalibrailError:
        return reading
    fields = (*TEXT_FIELDS, "label") if labelled else TEXT_FIELDS
    columns = {field: found.by_field[field] for field in fields if field in found.present}
    wanted = {field: frozen["columns"][field] for field in fields if field in frozen["columns"]}
    return likely if columns.items() >= wanted.items() else reading


def taking_up(
    reading: ReadOptions, guardrail: Guardrail, source: Source, *, labelled: bool
) -> tuple[ReadOptions, tuple[str, ...]]:
    """Return what `inherited` does, and the words of a command line that would say the same."""
    used = inherited(reading, guardrail, source, labelled=labelled)
    given = changed(reading)
    added = {name: value for name, value in changed(used).items() if name not in given}
    return used, flags(ReadOptions(**added))
