"""How is a file of answers to be read?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file; what is left out is guessed from it.

    Attributes
    ----------
    format : str or None
        ``jsonl``, ``csv``, ``parquet``, a benchmark's name, or one that a plug-in registers.
    preset : str or None
        Another tool whose field names the file has.
    mapping : mapping of str to str
        Column of each field whose column is named otherwise.
    label_column, group_column, id_column : str or None
        Columns of labels (1 = hallucinated, 0 = faithful), of what a split keeps whole, of ids.
    options : mapping
        For the format's own reader.
    strict : bool
        Stop at the first row that is unusable.
    quarantine : Path or None
        File for rows that are unusable, with the reasons.
    """

    format: str | None = setting(
        "jsonl, csv, parquet, halueval, ragtruth, natural_questions, truthfulqa or wikibio; "
        "guessed where it can be.",
        None,
        metavar="NAME",
    )
    preset: str | None = setting(
        "Field names of ragas, deepeval, llamaindex, trulens or phoenix.", None, metavar="NAME"
    )
    mapping: Mapping[str, str] | None = setting(
        "Read a field from your column, e.g. question=prompt.",
        None,
        flag="map",
        metavar="FIELD=COL",
    )
    label_column: str | None = setting("Column of labels: 1 = hallucinated, 0 = faithful.", None)
    group_column: str | None = setting("Column of groups that a split must keep whole.", None)
    id_column: str | None = setting("Column of ids.", None)
    options: Mapping[str, Any] | None = setting(
        "For native readers, e.g. min_chars=20.", None, flag="reader-option", metavar="KEY=VALUE"
    )
    strict: bool = setting("Stop at the first row that is unusable.", False)
    quarantine: Path | None = field(default=None)

    def __post_init__(self) -> None:
        if self.quarantine is not None:
            object.__setattr__(self, "quarantine", Path(self.quarantine))


class ReadShort(TypedDict, total=False):
    """Keywords that stand for the fields of the options in a short call."""

    format: str | None
    preset: str | None
    mapping: Mapping[str, str] | None
    label_column: str | None
    group_column: str | None
    id_column: str | None
    options: Mapping[str, Any] | None
    strict: bool
    quarantine: str | Path | None
