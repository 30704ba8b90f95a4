"""What does `calibrail check` say about a file of answers?"""

from calibrail.phrases import count
from calibrail.report.blocks import Column, Json, Table, numbers
from calibrail.report.document import Document


def document(content: Json) -> Document:
    """Return how many answers had which outcome.

    Parameters
    ----------
    content : mapping
        What ``calibrail check --json`` prints.
    """
    total, outcomes = content["checked"], content["outcomes"]
    rows = [
        (name, str(outcomes[name]), f"{outcomes[name] / total:.1%}")
        for name in ("pass", "flag", "review", "error")
        if name in outcomes
    ]
    columns = (Column("Outcome"), *numbers("Answers", "Share"))
    shares = ", ".join(f"{n} {name} ({share})" for name, n, share in rows)
    return Document(
        "decisions",
        headline=f"{count(total, 'answer')}: {shares}",
        blocks=(Table("Outcomes", columns, rows, where="page"),),
        data={"source": content["source"]},
        footer="The decision about each answer stands in the file that was written.",
    )
