"""Notes about data and exports."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final

from calibrail.data.values import spelt_alike
from calibrail.report.document import Json
from calibrail.report.documents.measures import part_note
from calibrail.report.messages import say, say_each

#: Verdicts that are listed.
_LISTED: Final = 8
#: How far the share of answers that calibrate may be from what was asked for without a word.
_FAR: Final = 0.1
#: Share of answers that may be copies or alike by chance from which that is said.
_MANY: Final = 0.01
#: Values and classes of labels that need no explanation.
_PLAIN: Final = {
    *(("1", 1), ("0", 0), ("true", 1), ("false", 0), ("1.0", 1), ("0.0", 0)),
    *(("hallucinated", 1), ("faithful", 0)),
}


def export_facts(export: Json | None) -> Iterator[tuple[str, str]]:
    """Yield what was made of an export, and where its labels and scores stand.

    Parameters
    ----------
    export : mapping or None
        What `ExportNotes.to_dict` gives; None for what is no export.
    """
    if export is None:
        return
    yield "Export of", f"{export['tool']}: {say('data.made', export)}"
    for reason, n in export["left_out"].items():
        yield "", f"{n:,} x left out: {reason}"
    if people := _verdicts(export["annotations"]):
        yield "Said by people", people
    if programs := _verdicts(export["scores"]):
        first = shlex.quote(next(iter(export["scores"])))
        yield "Said by programs", say("data.scores_of_programs", programs=programs, first=first)


def _verdicts(counts: Json) -> str:
    named = [f"{name} ({n:,})" for name, n in list(counts.items())[:_LISTED]]
    more = [f"{len(counts) - _LISTED} more"] if len(counts) > _LISTED else []
    return ", ".join((*named, *more))


def labellers_note(found: Json | None) -> tuple[str, ...]:
    """Return who labelled, where a column says that a model did, or may have: a sentence, or none.

    Parameters
    ----------
    found : mapping or None
        What `Labellers.found` returns.
    """
    return () if found is None else (say("data.labellers", found),)


def alike_names(column: str, names: Iterable[str], what: str) -> tuple[str, ...]:
    """Return that names of segments, systems or groups differ in letter case or spaces, if any do.

    >>> alike_names("lang", ["de", "en"], "segments")
    ()
    """
    alike = spelt_alike(names)
    return (say("data.alike_names", column=column, alike=alike, what=what),) if alike else ()


def data_notes(data: Json, lessons: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what a reader of any report on this data should know about it.

    Parameters
    ----------
    data : mapping
        The report's ``data``: source, split and counts.
    lessons : iterable of str
        What the detectors themselves say of what they learnt.
    """
    # All of evaluation, and what it needs, is no part of a service that certifies nothing.
    from calibrail.evaluation.evaluate import many_across

    reading, duplicates = data.get("reading") or {}, data["near_duplicates"] or {"count": 0}
    exports = [reading.get("export")]
    origin, baselines = reading.get("origin") or {}, data.get("baselines") or {}
    labels, copies = reading.get("labels") or {"values": (), "several": None}, data["copies"]
    split, far = data["split"], dict[str, float]()
    if split["column"] is None:
        far = {
            name: share
            for name, share in split["calibration_rows"].items()
            if share is not None and abs(share - split["calibration_share"]) >= _FAR
        }
    read = {
        name: seen
        for name, label in (("hallucinated", 1), ("faithful", 0))
        if (seen := [item["value"] for item in labels["values"] if item["class"] == label][:8])
    }
    seen_classes = {(item["value"].lower(), item["class"]) for item in labels["values"]}
    applies: dict[str, Any] = {
        "data.left_out": origin and data.get("filtered"),
        "data.from_a_log": origin.get("purpose") == "watch",
        "data.to_certify": origin.get("purpose") == "certify",
        "data.no_longer_blind": origin.get("n_changed"),
        "data.no_baselines": baselines.get("none") == "not asked for",
        "data.no_texts": baselines.get("none") == "no texts",
        "data.baselines_undefined": baselines.get("undefined"),
        "data.labels_read": seen_classes - _PLAIN,
        "data.several_annotators": labels["several"],
        "data.unanswered": data["n_unanswered"],
        "data.near_duplicates": duplicates["count"] and not many_across(duplicates),
        "data.copies": copies and copies["n"],
        "data.alike_by_chance": data["n_untold"] and data["n_untold"] >= _MANY * data["n_examples"],
        "data.truncated": data["n_truncated"],
        "data.learnt_before": data["learnt_before"],
        "data.cut": data["n_cut"],
        "data.cut_otherwise": data.get("n_cut_otherwise"),
        "data.quarantined": data["n_quarantined"],
        "data.stand_ins": data.get("stand_ins"),
    }
    return (
        *lessons,
        *(say("data.calls", {"unit": "answer"}, item) for item in data["calls"]),
        *([say("data.groups_by_lot", data, far=far)] if far else []),
        *part_note(reading.get("part")),
        *labellers_note(reading.get("labellers")),
        *(say("data.export", it, made=say("data.made", it)) for it in exports if it is not None),
        *(note for _, note in say_each(applies, data, read=read)),
    )
