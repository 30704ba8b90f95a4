"""Notes about data and exports."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from calibrail.formatting import count, listed, percent
from calibrail.report.document import Json
from calibrail.report.documents.measures import part_note

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


#: How far the share of answers that calibrate may be from what was asked for without a word.
_FAR: Final = 0.1

#: Share of answers that may be copies or alike by chance from which that is said.
_MANY: Final = 0.01


def _many_across(duplicates: Json) -> bool:
    # All of evaluation, and what it needs, is no part of a service that certifies nothing.
    from calibrail.evaluation.evaluate import many_across

    return many_across(duplicates)


def data_notes(data: Json, lessons: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what a reader of any report on this data should know about it.

    Parameters
    ----------
    data : mapping
        The report's ``data``: source, split and counts.
    lessons : iterable of str
        What the detectors themselves say of what they learnt.
    """
    duplicates = data["near_duplicates"] or {"count": 0}
    notes = [*lessons, *map(_of_calls, data["calls"]), *_of_split(data["split"])]
    notes += part_note((data.get("reading") or {}).get("part"))
    notes += export_note((data.get("reading") or {}).get("export"))
    origin = (data.get("reading") or {}).get("origin")
    notes += _of_origin(origin, data.get("filtered") or {})
    notes += _of_baselines(data.get("baselines") or {})
    notes += _of_labels((data.get("reading") or {}).get("labels"))
    if data["n_unanswered"]:
        notes.append(
            f"Answers on which the judge could not be asked: {data['n_unanswered']}; they "
            "take no part. Run the same command again: only they are asked for. In production "
            "such answers follow the policy for undefined scores."
        )
    if duplicates["count"] and not _many_across(duplicates):
        notes.append(
            f"Examples with a near-duplicate on the other side of the split: {duplicates['count']} "
            f"({duplicates['exact']} identical). Results look too good; give alike answers "
            "one group, or remove them."
        )
    notes += _of_copies(data)
    if data["n_truncated"]:
        notes.append(
            f"Texts longer than the encoder reads: {data['n_truncated']}; their sentence "
            "vectors are of their beginning. Split long contexts into smaller chunks."
        )
    if data["learnt_before"]:
        notes.append(
            f"{', '.join(data['learnt_before'])} had learnt before this run: make sure that "
            "no answer here was among what it learnt from."
        )
    if data["n_cut"]:
        notes.append(
            f"Answers (with a chunk each) too long for the model that judges them: "
            f"{data['n_cut']} pairs were read without the answer's end, and what stands "
            "there was not judged. Use a score that goes sentence by sentence (sec, claims)."
        )
    if n_otherwise := data.get("n_cut_otherwise"):
        notes.append(
            f"Answers whose sentences, as the data gives them, are others than `check` finds in a "
            f"text: {n_otherwise:,} of {data['n_examples']:,}. The threshold is about the data's "
            "sentences. Where answers will come without theirs, mark spans in place of sentences."
        )
    if data["n_quarantined"]:
        notes.append(
            f"Rows that could not be used and take no part: {data['n_quarantined']}; "
            "quarantine.jsonl names each with its reason."
        )
    return tuple(notes)


def _of_origin(origin: Json | None, left_out: Json) -> Iterator[str]:
    """Yield what follows from how answers were drawn to be labelled."""
    if origin is None:
        return
    if left_out:
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in left_out.items())
        yield (
            f"Answers drawn that take no part: {reasons}. What is promised and measured here is "
            "about answers like the others."
        )
    if origin["purpose"] == "watch":
        yield (
            "These answers were drawn from a decision log, as many for each day whatever its "
            "traffic: quiet days weigh as much here as busy ones."
        )
    if origin["purpose"] == "certify":
        yield (
            "These answers were labelled for the verdict on a guardrail, and labelling stops when "
            "that falls, which depends on the scores: a threshold set from them keeps its promise "
            "only roughly, and they cannot certify it. Draw answers to calibrate on (`calibrail "
            "label --until calibrated`)."
        )


def _of_baselines(baselines: Json) -> Iterator[str]:
    """Yield why baselines are missing."""
    match baselines.get("none"):
        case "not asked for":
            yield (
                "No baselines stand beside the detectors (--no-baselines): whether the length of "
                "the answers or their new words do as well is not looked at."
            )
        case "no texts":
            yield (
                "No baselines stand beside the detectors: the data holds scores without the "
                "answers' texts, which baselines are computed from."
            )
    if undefined := baselines.get("undefined"):
        reasons = ", ".join(dict.fromkeys(undefined.values()))
        yield f"Baselines left out, as no answer has one: {listed(list(undefined))} ({reasons})."


def _of_labels(labels: Json | None) -> Iterator[str]:
    """Yield how labels were read, where that is more than 1 = hallucinated and 0 = faithful."""
    if labels is None:
        return
    plain = {("1", 1), ("0", 0), ("true", 1), ("false", 0), ("1.0", 1), ("0.0", 0)}
    if not all((item["value"].lower(), item["class"]) in plain for item in labels["values"]):
        parts = [
            f"{name}: {', '.join(seen)}"
            for name, label in (("hallucinated", 1), ("faithful", 0))
            if (seen := [item["value"] for item in labels["values"] if item["class"] == label][:8])
        ]
        by_name = ", as the column's name says" if labels["by_name"] else ""
        yield f"How labels in {labels['column']!r} were read{by_name}: {'; '.join(parts)}."
    if several := labels["several"]:
        yield (
            f"Rows with labels of several annotators: {several['n']}; they disagree on "
            f"{several['n_divided']}, which --annotators {several['annotators']} decides."
        )


def known_as_copies(copies: Json) -> str:
    """Say by what copies are known."""
    by_scores = copies["n_by_scores"]
    parts = [
        "the same or nearly the same texts" * (copies["n"] > by_scores),
        "scores that are the same to the last digit, which chance does not explain"
        * bool(by_scores),
    ]
    return " or ".join(filter(None, parts))


def _of_copies(data: Json) -> Iterator[str]:
    """Yield how many answers are copies, and whether that can be told."""
    copies = data["copies"]
    if copies and copies["n"]:
        across = (
            f" The column {data['split']['column']!r} puts copies on several sides: "
            f"{copies['n_across']:,} of them take no part, since others stand on an earlier side."
            if copies["n_across"]
            else " Each group is on one side."
        )
        yield (
            f"Copies, {known_as_copies(copies)}: {copies['n']:,}, in "
            f"{count(copies['n_groups'], 'group')} of up to {copies['largest']:,}.{across} One of "
            "each class counts (--assume-independent counts them all)."
        )
    if data["n_untold"] >= _MANY * data["n_examples"] and data["n_untold"]:
        yield (
            f"Copies cannot be told here from answers that are alike by chance: "
            f"{data['n_untold']:,} of {data['n_examples']:,} answers show the same as another one "
            "(a short answer alone, or a score alone). If the data holds answers several times, "
            "no verdict holds unless their copies share a group (--group-column)."
        )


def _of_split(split: Json) -> list[str]:
    """Return where groups of different sizes have led the split far from its share."""
    asked, rows = split["calibration_share"], split["calibration_rows"]
    known = {name: share for name, share in rows.items() if share is not None}
    far = {name: share for name, share in known.items() if abs(share - asked) >= _FAR}
    if split["column"] is not None or not far:
        return []
    held = " and ".join(f"{percent(share)} of the {name} answers" for name, share in far.items())
    return [
        f"Groups are assigned by lot, whatever their size: {held} calibrate, where "
        f"{percent(asked)} was asked for."
    ]


def _of_calls(item: Json) -> str:
    """Return what a score asked of an endpoint, and what that costs."""
    unit = item.get("unit", "answer")
    judged = f"{item['n_judged']:,} of {count(item['n'], unit)}"
    parts = [f"{item['score']} asked a model behind an endpoint about {judged}"]
    if item["tokens_in"] is not None:
        parts.append(
            f"{item['tokens_in']:.0f} tokens in and {item['tokens_out']:.3g} out per judged {unit}"
        )
    if item["dollars_per_1000"] is not None:
        parts.append(f"${item['dollars_per_1000']:.3g} per 1,000 answers")
    return f"{'; '.join(parts)}."
