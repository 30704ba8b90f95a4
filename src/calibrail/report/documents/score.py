"""What does `calibrail score` say about a table of scores?"""

from calibrail.phrases import count
from calibrail.report.blocks import Facts, Json
from calibrail.report.document import Document
from calibrail.report.documents.part_words import part_note


def document(content: Json) -> Document:
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
