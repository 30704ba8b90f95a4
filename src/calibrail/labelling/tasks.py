"""What does an annotator see, and what is said of how far the labels are?"""

from dataclasses import dataclass
from typing import Any, Final

from calibrail.conformal.certificate import Verdict
from calibrail.data.example import Example
from calibrail.labelling.lines import Draw

#: What becomes of an answer of which somebody is unsure, by what the labels are for.
UNSURE: Final = {
    "certify": "it counts against either verdict",
    "calibrate": "it takes no part in the threshold",
    "watch": "it counts against whatever is shown, that the promise is kept or that it is broken",
}

#: What an annotator reads where a decision log holds no text of an answer.
NO_TEXT: Final = (
    "The decision log holds no text of this answer, and none was found by its id. Look it up "
    "where answers are kept: its id is {id}; it was logged at {time} as number {seq} of the chain "
    "{chain}."
)


@dataclass(frozen=True, slots=True)
class Task:
    """An answer to label: what an annotator may see of it, and its id.

    Attributes
    ----------
    order : int
        By which a label refers to it.
    id : str
        Of the answer. It may name the model, or the label: no page, terminal or file shows it.
    question, contexts, response
        Of the answer; where a decision log holds no text of it, the question says so.
    settles : bool
        Whether two annotators disagree about it.
    alias : str
        Stands for the id in a file for an annotator: the order, and the begin of the digest.
    """

    order: int
    id: str
    question: str
    contexts: tuple[str, ...]
    response: str
    settles: bool = False
    alias: str = ""


def task_of(example: Example, draw: Draw, *, settles: bool) -> Task:
    """Return what an annotator sees of an answer that was drawn.

    Parameters
    ----------
    example : Example
        The answer, as far as its texts are known.
    draw : Draw
        How it was drawn.
    settles : bool
        Whether annotators disagree about it.
    """
    question = example.question
    if not has_text(example):
        question = NO_TEXT.format(id=draw.id, time=draw.time, seq=draw.seq, chain=draw.chain)
    texts = question, example.contexts, example.response
    return Task(draw.order, example.id, *texts, settles=settles, alias=draw.alias)


def has_text(example: Example) -> bool:
    """Return whether any text of an answer is known."""
    return bool(example.question or example.contexts or example.response)


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the labels are; of what they say nothing before the data has decided.

    Attributes
    ----------
    by_you : int
        Labels that this annotator has given.
    labelled : int
        Answers whose label is final.
    hallucinated, faithful, unsure : int
        Of these.
    drawn : int
        Answers drawn, those among them that the lot left unlabelled included.
    counted : int
        Answers drawn that the verdict counts: all before the first that is not settled.
    skipped, disagreements : int
        Answers that this annotator has put off, and those about which annotators disagree.
    waiting : int
        Answers handed out whose label is not final.
    holding : int
        Answers behind the first of these, final already, that the verdict does not count yet.
    copies : int
        Near copies of earlier answers that were passed over.
    needed : int or None
        Hallucinated answers that are needed, where labels are for a threshold.
    found : int or None
        Hallucinated answers found, with those that stand behind an open answer.
    missing : int or None
        How many of those needed are still missing among the answers that count.
    to_expect : int or None
        About how many labels it takes to find the rest, by the share of hallucinated ones so far.
    exhausted : bool
        Whether all traces are drawn.
    lost : int
        Labels that were there and are gone, though nobody took them back.
    decided : bool
        Whether labelling may stop: the verdict fell, or there are enough.
    verdict : {"certified", "rejected"} or None
        Only once it fell.
    """

    by_you: int
    labelled: int
    hallucinated: int
    faithful: int
    unsure: int
    drawn: int
    counted: int
    skipped: int
    disagreements: int
    waiting: int
    holding: int
    copies: int
    needed: int | None
    found: int | None
    missing: int | None
    to_expect: int | None
    exhausted: bool
    lost: int
    decided: bool
    verdict: Verdict | None

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by their names."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
