"""What does `calibrail check` say about a file of answers?"""

from calibrail.phrases import count, listed, percent
from calibrail.report.blocks import Column, Json, Table, numbers
from calibrail.report.document import Document
from calibrail.report.documents.part_words import part_note

#: Outcomes in words, and what became of answers whose sentences were removed.
_OUTCOMES = {
    "pass": "passed",
    "trimmed": "trimmed",
    "emptied": "with nothing left",
    "flag": "flagged",
    "review": "for review",
    "error": "not judged",
}


def document(content: Json) -> Document:
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
    columns = (Column("Outcome"), *numbers("Answers", "Share"))
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
