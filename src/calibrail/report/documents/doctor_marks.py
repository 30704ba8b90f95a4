"""What does `calibrail doctor` say about what people marked in the answers?"""

from collections.abc import Iterator
from typing import Final

from calibrail.phrases import count, percent
from calibrail.report.blocks import Json
from calibrail.report.documents.doctor_commands import (
    calibrating,
    lowest_alpha,
    what_column_does,
)

MARKED: Final = "What is marked, sentence by sentence"

_KINDS: Final = {
    "spans": "marked spans",
    "sentences": "sentences with a label each",
    "rows": "a row for each sentence, gathered to answers",
}

#: What asks for it. A policy that removes everything keeps every promise, so that something must be
#: kept.
BY_SENTENCE: Final = "--unit sentence --min-kept 0.7"


def mark_facts(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield what is marked, what cannot be used, and what sentences can be calibrated with."""
    marks = diagnosis["marks"]
    yield "Marks", _KINDS[marks["kind"]]
    if marks["n"]:
        yield (
            "Answers",
            f"{marks['n']:,}: {marks['hallucinated']:,} hold an unsupported sentence",
        )
        share = percent(marks["unsupported"] / max(1, marks["sentences"]))
        yield (
            "Sentences",
            f"{marks['sentences']:,}: {marks['unsupported']:,} unsupported ({share})",
        )
        middle, high = f"{marks['median_sentences']:,.0f}", f"{marks['p95_sentences']:,.0f}"
        yield "Sentences an answer", f"{middle} (median), {high} at the 95th percentile"
    if marks["kind"] == "spans":
        if marks["span_share"]:
            cover = f"spans cover {percent(marks['span_share'])} of it or more"
            yield "A sentence is unsupported where", cover
        outside = marks["outside_chars"]
        rest = f", {outside:,} of them in no sentence" if outside else ""
        yield "Marked", f"{count(marks['marked_chars'], 'character')} without white space{rest}"
    same = marks["set_aside"] == diagnosis["reasons"]
    for field, reason, n in () if same else marks["set_aside"]:
        yield "Cannot be used", f"{n:,} x {field}: {reason}"
    # Of rows that are sentences the columns stand above already.
    listed = {item["name"] for item in diagnosis["numeric_columns"]}
    for item in marks["columns"]:
        if item["name"] not in listed:
            detail = what_column_does(item, " by sentence")
            if aside := item["set_aside"]:
                detail += f"; not for {count(aside, 'answer')}: not one number for each sentence"
            yield f"Column {item['name']}", detail
    alpha = removable_from(marks)
    if alpha is None:
        yield "Sentences can be removed", "not yet: there are too few answers of either class"
    else:
        command = f"add {BY_SENTENCE} to calibrail calibrate"
        yield "Sentences can be removed", f"from --alpha {alpha:g} on: {command}"


def calibrating_sentences(diagnosis: Json) -> str | None:
    """Return the command that removes sentences; None where they cannot be removed."""
    marks = diagnosis.get("marks")
    if not marks or (alpha := removable_from(marks)) is None:
        return None
    return f"{calibrating(diagnosis, marks['columns'])} {BY_SENTENCE} --alpha {alpha:g} -o run"


def removable_from(marks: Json) -> float | None:
    """Return the smallest alpha at which sentences can be removed; None where at none."""
    both = 0 < marks["hallucinated"] < marks["n"]
    return lowest_alpha(marks["supports"]) if both else None
