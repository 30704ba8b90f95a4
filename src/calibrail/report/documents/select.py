"""What does `calibrail select` say about the answers it releases?"""

from calibrail.phrases import count, number, percent
from calibrail.report.blocks import Column, Json, Table, Text, numbers, section
from calibrail.report.document import Document
from calibrail.report.documents.part_words import part_note


def document(selection: Json, *, is_written: bool = True) -> Document:
    """Return what is released, what that promises, and the bounds of other cut-offs.

    Parameters
    ----------
    selection : mapping
        What ``calibrail select --json`` prints.
    is_written : bool
        Whether a file says which answers they are.
    """
    answers = count(selection["n"], "answer")
    rows = [
        (
            number(row["cutoff"]),
            f"{row['released']:,}",
            f"{row['most_hallucinated']:,}",
            "none" if row["share"] is None else percent(row["share"]),
            "chosen" if row["chosen"] else "",
        )
        for row in selection["table"]
    ]
    heads = numbers("p-value up to", "Released", "Hallucinated at most", "Share at most")
    methods = numbers("Share assumed", "Released", "Hallucinated at most")
    return Document(
        "selection from",
        subject=answers,
        headline=f"Released: {selection['n_released']:,} of {answers}",
        summary=_summary(selection),
        blocks=(
            section(
                "Other choices",
                Table("Other choices", (*heads, Column("Choice", brief="")), rows),
                Text(_bounds(selection)),
            ),
            section(
                "Other methods",
                Table(
                    "Other methods",
                    (Column("Method"), *methods, Column("Choice", brief="")),
                    [_method(row) for row in selection["methods"]],
                ),
                Text(
                    "The share of hallucinated answers that a method reckons with divides the "
                    "rate: bh takes all of them for possible, storey estimates the share from this "
                    "batch and errs upwards, both-classes takes that of the "
                    f"{count(selection['n_labelled'], 'labelled answer')}. The promise of a method "
                    "is one for those who choose it before they see this table."
                ),
            ),
        ),
        notes=[
            *part_note(selection.get("part")),
            *(
                f"{count(selection[key], 'answer')} {what}"
                for key, what in (
                    (
                        "n_seen_before",
                        "set the threshold and were left out: select from fresh ones",
                    ),
                    ("n_undefined", "without a score: not released"),
                    ("n_errors", "that could not be judged: not released"),
                )
                if selection[key]
            ),
        ],
        next_step=_next_step(selection, is_written=is_written),
        data={"source": selection.get("source"), "n": selection["n"]},
    )


def _next_step(selection: Json, *, is_written: bool) -> str:
    fdr = f"{selection['fdr']:g}"
    if selection["n_released"] and is_written:
        return (
            "Release the answers that OUTPUT says are released, and have the others reviewed. "
            "Label some of the released ones from time to time: the promise holds while answers "
            "come from the same source."
        )
    if selection["n_released"]:
        return (
            "Write down which answers these are: calibrail select GUARDRAIL DATA "
            f"--fdr {fdr} -o released.jsonl"
        )
    n, needed = selection["n_calibration"], selection["n_calibration_for_one"]
    if n < needed:
        labels = f"calibrate on {needed:,} hallucinated answers in place of {n:,}"
        return f"Accept a larger share of hallucinated answers (--fdr), or {labels}."
    return (
        "Accept a larger share of hallucinated answers (--fdr), or use a detector that tells "
        "answers apart better (calibrail compare)."
    )


def _bounds(selection: Json) -> str:
    """Say what the bounds of all cut-offs together rest on, and whether they hold."""
    if grouped := selection["n_grouped"]:
        return (
            "Were the answers independent, all these bounds would hold together with "
            f"{percent(selection['confidence'])} confidence. {count(grouped, 'answer')} share a "
            "group with another, so none of them is promised: select from one answer per group "
            "for bounds that hold."
        )
    calibration = count(selection["n_calibration"], "hallucinated calibration answer")
    return (
        f"With {percent(selection['confidence'])} confidence all these bounds hold together, so "
        "you may choose a row after looking, that of another method included. In the whole batch "
        f"at most {selection['most_hallucinated_in_batch']:,} of "
        f"{count(selection['n'], 'answer')} are hallucinated. The bounds rest on {calibration} "
        "from the same source as the batch."
    )


#: Why a method promises nothing here.
_OBSTACLES = {
    "grouped_batch": "no promise: answers of the batch share a group",
    "grouped_labels": "no promise: labelled answers share a group",
    "unknown_mix": "unknown to this guardrail: calibrate and export again",
}


def _method(row: Json) -> tuple[str, ...]:
    """Return a method's row: what it reckons with, and what it would release."""
    if row["obstacle"] is not None:
        return row["method"], "none", "none", "none", _OBSTACLES[row["obstacle"]]
    return (
        row["method"],
        percent(min(1.0, row["share"])),
        f"{row['released']:,}",
        f"{row['most_hallucinated']:,}",
        "chosen" if row["chosen"] else "",
    )


def _promise(selection: Json) -> str:
    """Say what holds of the released answers, and what it takes."""
    fdr, share = percent(selection["fdr"]), percent(min(1.0, selection["share"]))
    mean = "the expected share of hallucinated answers among the released is at most"
    grouped = selection["n_grouped"]
    alike = (
        f" {count(grouped, 'answer')} of the batch share a group with another: such scores may be "
        "alike, so long as one is not the lower for another's being high."
    )
    if selection["method"] == "bh":
        return (
            "Over calibration sets and batches whose hallucinated answers come from the same "
            f"source, {mean} {fdr} times their share in the batch, so at most {fdr} whatever that "
            f"is (method bh).{alike if grouped else ''}"
        )
    if selection["method"] == "storey":
        return (
            "Over calibration sets and batches of independent answers whose hallucinated ones come "
            f"from the same source, {mean} {fdr} (method storey; hallucinated in this batch are, "
            f"estimated upwards, {share})."
        )
    return (
        "If the batch is a sample of the same answers as the labelled ones were, hallucinated as "
        f"often as these ({share} of {selection['n_labelled']:,}) and neither chosen by class, "
        f"{mean} {fdr} over calibration sets and batches (method both-classes)."
        f"{alike if grouped else ''}"
    )


def _summary(selection: Json) -> str:
    """Say what the released answers promise, or why there are none."""
    fdr, needed = percent(selection["fdr"]), selection["n_calibration_for_one"]
    if selection["n_released"]:
        cutoff = number(selection["cutoff"])
        which = f"Released are the answers with a p-value up to {cutoff}."
        scored = selection["n"] - selection["n_undefined"] - selection["n_errors"]
        if selection["share"] <= selection["fdr"] and selection["n_released"] == scored:
            which = (
                "Released is every answer with a score: the share of hallucinated ones reckoned "
                f"with, {percent(selection['share'])}, is itself within {fdr}."
            )
        return f"{which} {_promise(selection)}"
    reason = (
        f"Nothing can be released at a false discovery rate of {fdr}: too few answers look "
        "harmless enough."
    )
    if (n := selection["n_calibration"]) >= needed:
        return reason
    return (
        f"{reason} The smallest p-value that {count(n, 'calibration answer')} can give is "
        f"{number(1 / (n + 1))}; to release a single answer of {selection['n']:,}, {needed:,} are "
        "needed."
    )
