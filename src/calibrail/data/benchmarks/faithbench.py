"""How is FaithBench read from its summaries and its annotators' spans?

Bao et al., "FaithBench: A Diverse Hallucination Benchmark for Summarization by Modern LLMs", 2025.
``summaries.csv`` holds a summary a row with what published detectors gave it, ``spans.csv`` what
each annotator marked: unwanted, questionable or benign. A summary's label is that of its worst mark
by anybody; benign marks, and those that say nothing, make no hallucination. All summaries of one
source share a group.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from calibrail.data.delimited import csv_rows
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.marked_spans import Span, merged
from calibrail.data.rows import ParsedItem, Problem, Row, shorten
from calibrail.errors import DataError, InputError

#: The two files.
FAITHBENCH_FILES: Final = ("summaries.csv", "spans.csv")
_SPANS: Final = "spans.csv"
#: Columns of the spans.
_SPAN: Final = ("id", "start", "end", "annotator", "label")

#: What a mark may say, from the mildest on.
LEVELS: Final = ("benign", "questionable", "unwanted")


def faithbench_files(path: Path) -> tuple[Path, Path]:
    """Return (summaries, spans), given their folder or either of the two files.

    Raises
    ------
    DataError
        One of the two is not there.
    """
    folder = path if path.is_dir() else path.parent
    summaries, spans = (folder / name for name in FAITHBENCH_FILES)
    for file in (summaries, spans):
        if not file.is_file():
            names = " and ".join(FAITHBENCH_FILES)
            raise DataError(f"FaithBench is read from {names}; {file} is missing")
    return summaries, spans


def faithbench_rows(
    path: Path, worst: object = "questionable", annotators: str = "any"
) -> Iterator[ParsedItem]:
    """Yield one row a summary, with what is marked in it.

    Parameters
    ----------
    path : Path
        The folder, or either of its files.
    worst : {"benign", "questionable", "unwanted"}
        The mildest mark that counts; by default what the benchmark's own label counts.
    annotators : {"any", "majority", "all"}
        Who must have marked a character for it to count: anybody, as for the benchmark's own label;
        more than half of those who annotated the batch (what stands before the "-" of an id), of
        whom somebody who marked nothing in a summary found nothing there; or all of them.

    Notes
    -----
    Spans are held in memory (2,189 in the whole benchmark).

    Raises
    ------
    InputError
        Another level.
    """
    if worst not in LEVELS:
        raise InputError(f"reader option worst must be one of {', '.join(LEVELS)}; got {worst!r}")
    least = LEVELS.index(str(worst))
    summaries, spans = faithbench_files(path)
    people: dict[str, set[str]] = defaultdict(set)
    marks: dict[str, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    odd: dict[str, str] = {}
    rows: dict[str, int] = {}
    for item in csv_rows(spans):
        if isinstance(item, Problem):
            yield Problem(
                item.row, "spans", item.reason, item.value, f"in {_SPANS}", file=item.file
            )
            continue
        name, start, end, person, kind = (str(item.values.get(key) or "") for key in _SPAN)
        people[_batch(name)].add(person)
        rows.setdefault(name, item.number)
        if not (start.isdecimal() and end.isdecimal() and int(start) <= int(end)):
            odd[name] = f"{start!r} to {end!r} in row {item.number} of {_SPANS}"
        elif _level(kind) >= least:
            marks[name][person].append((int(start), int(end)))
    for item in csv_rows(summaries):
        if isinstance(item, Problem):
            yield item
            continue
        name = str(item.values.get("id"))
        rows.pop(name, None)
        if name in odd:
            remedy = "take the benchmark's original files"
            yield Problem(item.number, "spans", "wrong type", odd[name], "", remedy)
            continue
        n = len(people[_batch(name)])
        needed = {"any": 1, "majority": n // 2 + 1, "all": n}[annotators]
        text = str(item.values.get("response") or "")
        counted = [
            span
            for span in agreed(list(marks.get(name, {}).values()), needed)
            if text[slice(*span)].strip() or span[1] > len(text)
        ]
        label, said = (HALLUCINATED if counted else FAITHFUL), item.values.get("label")
        if (worst, annotators) == ("questionable", "any") and said not in (None, str(label)):
            remedy = f"take the benchmark's original files: {_SPANS} says otherwise"
            yield Problem(item.number, "label", "differs from the marks", shorten(said), "", remedy)
            continue
        yield Row(item.number, {**item.values, "label": label, "spans": counted})
    for name, number in rows.items():
        remedy = "take both of the benchmark's original files"
        yield Problem(number, "spans", "no such summary", repr(name), "", remedy, _SPANS)


def agreed(marked: Sequence[Sequence[Span]], needed: int) -> tuple[Span, ...]:
    """Return the characters that so many people marked, each by spans of theirs.

    >>> agreed([[(0, 4), (2, 6)], [(3, 9)]], 2)
    ((3, 6),)
    """
    each = [merged(spans) for spans in marked]
    edges = sorted({edge for spans in each for span in spans for edge in span})
    return merged(
        [
            (start, end)
            for start, end in pairwise(edges)
            if sum(any(a <= start < b for a, b in spans) for spans in each) >= needed
        ]
    )


def _batch(name: str) -> str:
    return name.partition("-")[0]


def _level(label: str) -> int:
    """Return the worst that a mark says, as a place in `LEVELS`; -1 where it says nothing.

    >>> _level("Questionable|Unwanted.Intrinsic"), _level("")
    (2, -1)
    """
    kinds = (part.partition(".")[0].strip().lower() for part in label.split("|"))
    return max((LEVELS.index(kind) for kind in kinds if kind in LEVELS), default=-1)
