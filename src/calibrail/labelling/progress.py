"""Progress of labelling: tasks, counts, and how many labels are enough.

Answers are drawn one after another, in an order that depends on nothing but the lot, and labelling
stops with a number of hallucinated ones that is fixed beforehand, and not before there are a few
faithful ones. When it stops depends on labels alone, so that the scores of the hallucinated ones
are exchangeable with those of answers to come, whatever they are and however rare: what a threshold
promises rests on nothing else.
"""

import math
from dataclasses import dataclass
from typing import Final

from scipy.special import betaincinv

from calibrail.conformal.certificate import Verdict
from calibrail.conformal.threshold import minimum_n, rank
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.labelling.folder import LabelFolder, Seat
from calibrail.labelling.ledger import LabelLedger
from calibrail.labelling.sampling import Sampler
from calibrail.labelling.store import Draw
from calibrail.options.data import SplitOptions
from calibrail.options.guarantee import Promise
from calibrail.serialization import Record

#: Faithful answers that there must be, so that each part has one: else nothing says what is flagged
#: in vain.
FAITHFUL_NEEDED: Final = 2
#: Labels before which the share of hallucinated answers says too little.
_FIRST: Final = 10


def hallucinated_needed(promise: Promise) -> int:
    """Return the fewest hallucinated answers of which the part that calibrates holds enough.

    The rest tests the threshold: `calibrail calibrate` splits labelled answers in two.

    Raises
    ------
    InputError
        The promise is one for each group of a column, whose numbers nobody knows beforehand.

    Examples
    --------
    >>> hallucinated_needed(Promise(0.05)), hallucinated_needed(Promise(0.05, "pac"))
    (37, 89)
    """
    if promise.by is not None:
        raise InputError(
            "by must be left out while labelling: labels are counted for one threshold; name the "
            "column when it is calibrated"
        )
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    share = SplitOptions().shares(learning=False)["calibration_share"]
    # Of two equal remainders the calibration part's is rounded up.
    return math.ceil((least - 0.5) / share)


def coverage_to_expect(promise: Promise, n_hallucinated: int) -> list[dict[str, float]]:
    """Return between which coverages nine of ten thresholds lie, from so many answers and more.

    What a threshold truly catches is random: the k-th lowest of n scores that calibrate misses a
    share with a Beta(k, n + 1 - k) law, whatever the scores are.

    Parameters
    ----------
    promise : Promise
        Of the threshold.
    n_hallucinated : int
        Hallucinated answers labelled.

    Returns
    -------
    list of dict
        ``hallucinated``, ``lower`` and ``upper`` for so many, twice and four times as many.

    Examples
    --------
    >>> now, twice, four = coverage_to_expect(Promise(0.1), 17)
    >>> [round(now[end], 3) for end in ("lower", "upper")], four["hallucinated"]
    ([0.717, 0.994], 68)
    """
    share, expected = SplitOptions().shares(learning=False)["calibration_share"], []
    for times in (1, 2, 4):
        labelled = times * n_hallucinated
        n = math.floor(labelled * share + 0.5)
        k = rank(n, promise.alpha, promise.guarantee, promise.delta)
        lower, upper = betaincinv(n + 1 - k, k, [0.05, 0.95]).tolist()
        expected.append({"hallucinated": labelled, "lower": lower, "upper": upper})
    return expected


def class_counts(ledger: LabelLedger, stop: int | None = None) -> tuple[int, int]:
    """Return how many hallucinated and faithful answers there are: of a group drawn whole one each.

    Parameters
    ----------
    ledger : Ledger
        What was drawn, and its labels.
    stop : int, optional
        Only the first so many answers drawn.
    """
    answers = ledger.answers[:stop]
    return (
        len({item.draw.unit for item in answers if item.label == 1}),
        len({item.draw.unit for item in answers if item.label == 0}),
    )


def is_held_up(ledger: LabelLedger, needed: int | None) -> bool:
    """Return whether enough answers are labelled, if only those counted that are still open."""
    if needed is None:
        return False
    n_hallucinated, n_faithful = class_counts(ledger)
    counting = class_counts(ledger, ledger.counted)
    enough = n_hallucinated >= needed and n_faithful >= FAITHFUL_NEEDED
    return enough and (counting[0] < needed or counting[1] < FAITHFUL_NEEDED)


def labels_to_expect(missing: int, n_hallucinated: int, n_labelled: int) -> int | None:
    """Return about how many more labels it takes to find so many more hallucinated answers.

    None while too little is labelled to say.

    Examples
    --------
    >>> labels_to_expect(10, 10, 100), labels_to_expect(0, 10, 100), labels_to_expect(9, 0, 5)
    (97, 0, None)
    """
    if missing <= 0:
        return 0
    if n_labelled < _FIRST:
        return None
    return math.ceil(missing * (n_labelled + 1) / (n_hallucinated + 0.5))


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
class Counts(Record):
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


def counts_of(files: LabelFolder, sampler: Sampler, seat: Seat) -> Counts:
    """Return the counts for who sits on a seat; the files are up to date, and locked."""
    ledger, assignments = files.ledger, files.assignments
    test, needed = ledger.test, files.plan.needed
    verdict = None if test is None else test.verdict
    fallen = verdict in ("certified", "rejected")
    tally, counted, unsettled = ledger.tally, ledger.counted, ledger.unsettled
    n_final = tally.total()
    n_found = missing = to_expect = None
    enough = False
    if needed is not None:
        n_found = class_counts(ledger)[0]
        n_hallucinated, n_faithful = class_counts(ledger, counted)
        missing = max(0, needed - n_hallucinated)
        enough = missing == 0 and n_faithful >= FAITHFUL_NEEDED
        to_expect = labels_to_expect(needed - n_found, tally[1], n_final)
    return Counts(
        by_you=len(ledger.of_annotator[seat[0]]),
        labelled=n_final,
        hallucinated=tally[1],
        faithful=tally[0],
        unsure=tally[None],
        drawn=len(ledger.answers),
        counted=counted,
        skipped=len(assignments.put_off[seat].keys() & unsettled),
        disagreements=len(ledger.disagreements()),
        waiting=len(unsettled),
        # What a watch takes in counts at once: late labels have their place in the order drawn.
        holding=0
        if files.plan.purpose == "watch"
        else sum(item.standing == "final" for item in ledger.answers[counted:]),
        copies=sampler.pool.copies_before(len(ledger.answers)),
        needed=needed,
        found=n_found,
        missing=missing,
        to_expect=to_expect,
        exhausted=sampler.exhausted,
        lost=sum(files.lost().values()),
        decided=fallen or enough,
        verdict=verdict if fallen else None,
    )
