"""What does `calibrail select` say about the answers it releases?"""

from calibrail.phrases import count, number, percent
from calibrail.report.blocks import Column, Json, Table, Text, numbers, section
from calibrail.report.document import Document


def document(selection: Json) -> Document:
    """Return what is released, what that promises, and the bounds of other cut-offs.

    Parameters
    ----------
    selection : mapping
        What ``calibrail select --json`` prints.
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
    calibration = count(selection["n_calibration"], "hallucinated calibration answer")
    return Document(
        "selection from",
        subject=answers,
        headline=f"RELEASED {selection['n_released']:,} of {answers}",
        summary=_summary(selection),
        blocks=(
            section(
                "Other choices",
                Table("Other choices", (*heads, Column("Choice", brief="")), rows),
                Text(
                    f"With {percent(selection['confidence'])} confidence all these bounds hold "
                    "together, so you may choose a row after looking. In the whole batch at "
                    f"most {selection['most_hallucinated_in_batch']:,} of {answers} are "
                    f"hallucinated. The bounds rest on {calibration} from the same source as the "
                    "batch."
                ),
            ),
        ),
        notes=[
            f"{count(selection[key], 'answer')} {what}"
            for key, what in (
                ("n_seen_before", "set the threshold and were left out: select from fresh ones"),
                ("n_undefined", "without a score: not released"),
                ("n_errors", "that could not be judged: not released"),
            )
            if selection[key]
        ],
    )


def _summary(selection: Json) -> str:
    """Say what the released answers promise, or why there are none."""
    fdr, needed = percent(selection["fdr"]), selection["n_calibration_for_one"]
    if selection["n_released"]:
        return (
            f"Released are the answers with a p-value up to {number(selection['cutoff'])}. Over "
            "calibration sets and batches like these, the expected share of hallucinated answers "
            f"among the released is at most {fdr} times their share in the batch, so at most {fdr} "
            "whatever that is."
        )
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
