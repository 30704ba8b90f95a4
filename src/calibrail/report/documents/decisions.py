"""Check, score, select."""

from calibrail.formatting import count, listed, number, percent
from calibrail.report.document import (
    Document,
    Facts,
    Json,
    Table,
    TableColumn,
    Text,
    numbers,
    section,
)
from calibrail.report.documents.measures import part_note

#: Outcomes in words, and what became of answers whose sentences were removed.
_OUTCOMES = {
    "pass": "passed",
    "trimmed": "trimmed",
    "emptied": "with nothing left",
    "flag": "flagged",
    "review": "for review",
    "error": "not judged",
}


def check_document(content: Json) -> Document:
    """Return how many answers had which outcome.

    Parameters
    ----------
    content : mapping
        What ``calibrail check --json`` prints.
    """
    total, outcomes, trimmed = content["checked"], content["outcomes"], content.get("trimmed")
    if trimmed is not None:
        outcomes = _by_result(outcomes, trimmed)
    rows = [
        (said, f"{outcomes[name]:,}", percent(outcomes[name] / total))
        for name, said in _OUTCOMES.items()
        if name in outcomes
    ]
    columns = (TableColumn("Outcome"), *numbers("Answers", "Share"))
    shares = listed([f"{n} {said} ({share})" for said, n, share in rows])
    left = [f"{reason} ({n:,})" for reason, n in content.get("left_out", {}).items()]
    return Document(
        "decisions",
        headline=f"{count(total, 'answer')}: {shares}" if rows else "no answers",
        blocks=(Table("Outcomes", columns, rows, where="page"),),
        notes=(
            *part_note(content.get("part")),
            *((f"Left out, not decided about: {listed(left)}.",) if left else ()),
        ),
        next_step=_next_step(total, outcomes, trims=trimmed is not None),
        data={"source": content["source"], "n": total},
        footer="The decision about each answer stands in the file that was written.",
    )


def _by_result(outcomes: Json, trimmed: Json) -> Json:
    """Return how many answers came to what, where the flagged ones were trimmed."""
    withheld = outcomes.get("flag", 0) - sum(trimmed.values())
    results = {**outcomes, **trimmed, "flag": withheld}
    return {name: n for name, n in results.items() if n}


def _next_step(total: int, outcomes: Json, *, trims: bool) -> str:
    if outcomes.get("error") == total:
        return "Mend what the lines of DECISIONS give as the reason, and run it again."
    if trims and outcomes.get("emptied", 0) + outcomes.get("error", 0) == total:
        return (
            "Nothing is left of any answer, so this threshold decides nothing here. Try a detector "
            "that tells sentences apart: calibrail calibrate LABELLED --score SCORE --unit "
            "sentence --alpha ALPHA -o RUN"
        )
    if trims:
        return (
            "Read what was removed beside what is left: each line of DECISIONS holds the text that "
            "may be shown, and the sentences that may not with the reason for each."
        )
    if outcomes.get("flag", 0) + outcomes.get("error", 0) == total:
        return (
            "No answer passes, so this threshold decides nothing here. See whether some of the "
            "answers can be released as a batch: calibrail select GUARDRAIL DATA --fdr 0.1"
        )
    return (
        "Label some of these answers, drawn by lot, and see whether the promise holds on them: "
        "calibrail certify GUARDRAIL LABELLED --max-fpr LIMIT"
    )


def score_document(content: Json) -> Document:
    """Return how many answers each score is undefined for, and what it cost.

    Parameters
    ----------
    content : mapping
        What ``calibrail score --json`` prints.
    """
    scores = [
        (name, f"{count(content['examples'], 'example')}, {undefined:,} undefined")
        for name, undefined in content["undefined"].items()
    ]
    return Document(
        "scores",
        headline=f"{count(content['examples'], 'example')} scored",
        blocks=(Facts(scores),),
        notes=part_note(content.get("part")),
        data={"source": content["source"], "n": content["examples"]},
        footer="The scores stand in the file that was written.",
    )


def select_document(selection: Json, *, is_written: bool = True) -> Document:
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
                Table("Other choices", (*heads, TableColumn("Choice", brief="")), rows),
                Text(_bounds(selection)),
            ),
            section(
                "Other methods",
                Table(
                    "Other methods",
                    (TableColumn("Method"), *methods, TableColumn("Choice", brief="")),
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
        next_step=_next_step_select(selection, is_written=is_written),
        data={"source": selection.get("source"), "n": selection["n"]},
    )


def _next_step_select(selection: Json, *, is_written: bool) -> str:
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
