"""What do drawn answers say of the guardrail where people have not labelled all of them yet?

Each answer that was drawn has its place in the order of drawing. One whose label is not there yet
(waiting, or annotators disagree), or will never be there (nobody can tell), counts as whatever
speaks most against the bet that is made: against "the promise is broken" as hallucinated where it
was flagged and as faithful where it was passed, against "it is kept" the other way round. Draw by
draw the wealth shown is then at most what it will be with all labels. So nothing depends on when a
label comes, in which order, or on what its coming depends: whenever somebody looks, what they see
is at most a wealth that is too high anywhere with probability at most delta.
"""

from dataclasses import fields, replace
from typing import Any, Final, Literal

import numpy as np

from calibrail.conformal import estimated_labels
from calibrail.conformal.restarts import Bets, counted_bets, weighted_bets
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import InputError
from calibrail.labelling.audited import Audited
from calibrail.monitoring.moments import moment

Rate = Literal["coverage", "fpr"]
#: What a bet is made on; a side of its limit follows from the rate.
Claim = Literal["kept", "broken"]
RATES: Final[tuple[Rate, Rate]] = ("coverage", "fpr")
#: So many times the narrowest width is about as narrow: a later time is worth a little.
_ABOUT: Final = 1.1


def nothing_drawn() -> Audited:
    """Return what is known where nothing was drawn."""
    no, numbers, things = np.zeros(0, bool), np.zeros(0), np.zeros(0, object)
    return Audited(
        flagged=no,
        label=numbers,
        settled=no,
        unsure=no,
        handed_out=no,
        probability=numbers,
        guess=numbers,
        share=numbers,
        time=numbers,
        batch=np.zeros(0, np.int64),
        score=numbers,
        group=things,
        language=things,
        id=things,
    )


def checked(audited: Audited | None) -> Audited:
    """Return draws that a watch can bet on, none where nothing is given."""
    if audited is None:
        return nothing_drawn()
    if audited.drawing.whole_groups:
        raise InputError("answers drawn as whole groups cannot be watched; draw single answers")
    return audited


def weighted(audited: Audited) -> bool:
    """Return whether answers weigh differently."""
    return audited.drawing.design == "active"


def some(audited: Audited, wanted: Bools) -> Audited:
    """Return some of the draws, in their order and with their numbers."""
    if audited.order is None:
        audited = replace(audited, order=1 + np.arange(len(audited)))
    arrays: dict[str, Any] = {
        item.name: getattr(audited, item.name)[wanted]
        for item in fields(audited)
        if isinstance(getattr(audited, item.name), np.ndarray)
    }
    return replace(audited, **arrays)


def first_asked(audited: Audited) -> Bools:
    """Return which draws do not bear the question of an earlier one, or its id where none is known.

    The lot says which is the first; no label does, and not whether it was handed out.
    """
    seen = set[tuple[str, str]]()
    found = np.ones(len(audited), bool)
    asked = [None] * len(audited) if audited.question is None else audited.question.tolist()
    for row, (id, question) in enumerate(zip(audited.id.tolist(), asked, strict=True)):
        key = ("id", id) if question is None else ("question", question)
        found[row] = key not in seen
        seen.add(key)
    return found


def waiting(audited: Audited) -> Bools:
    """Return which draws people are to label and have not."""
    return np.asarray(~audited.settled)


def unknown(audited: Audited) -> Bools:
    """Return which draws may be either: they wait for a label, or nobody can tell."""
    return np.asarray(~audited.settled | audited.unsure)


def hardest_labels(audited: Audited, claim: Claim) -> Floats:
    """Return labels, unknown ones as what speaks most against a claim; NaN where none is due."""
    label = np.where(unknown(audited), np.nan, audited.label)
    against = audited.flagged if claim == "broken" else ~audited.flagged
    return np.where(unknown(audited), against, label).astype(np.float64)


def masses(audited: Audited, labels: Floats) -> Floats:
    """Return W of each draw: what it adds to the number of hallucinated ones."""
    if not weighted(audited):
        return labels
    return estimated_labels(labels, audited.probability, audited.guess)


def bets_on(audited: Audited, rate: Rate, claim: Claim, limit: float) -> Bets:
    """Return the bets that a rate is on the right ("kept") or the wrong side of its limit."""
    labels = hardest_labels(audited, claim)
    above = (rate == "coverage") == (claim == "kept")
    if not weighted(audited):
        of_class = labels == (1.0 if rate == "coverage" else 0.0)
        outcome = np.where(of_class, audited.flagged, np.nan)
        return counted_bets(outcome, limit, above=above)
    mass = masses(audited, labels)
    mass = mass if rate == "coverage" else 1.0 - mass
    floors = audited.drawing.floors
    return weighted_bets(mass * audited.flagged, mass, limit, floors, above=above)


def batch_starts(audited: Audited) -> Ints:
    """Return the row of the first draw of each batch."""
    batch = audited.batch
    return np.flatnonzero(np.r_[len(batch) > 0, batch[1:] != batch[:-1]][: len(batch)])


def labelled_until(audited: Audited) -> int:
    """Return up to how many draws, a whole number of batches, intervals are read.

    Intervals of all times hold together, so any may be read, whatever it is chosen by. Answers that
    wait count as whatever makes an interval widest: of the batches that are at least half labelled,
    the latest is taken whose intervals are about as narrow as they get. How many of each class are
    labelled, and how many wait, tell how narrow; not how many of them were flagged, so that no
    change of the rates keeps a watch at a time before it. 0 where no batch is half labelled.
    """
    starts = batch_starts(audited)
    if not len(starts):
        return 0
    late, ends = waiting(audited), np.append(starts[1:], len(audited))
    due = np.add.reduceat(audited.handed_out.astype(np.int64), starts)
    done = np.add.reduceat((audited.handed_out & ~late).astype(np.int64), starts)
    ready = np.flatnonzero((2 * done >= due) & (due > 0))
    if not len(ready):
        return 0
    widths = np.zeros(len(ready))
    # Waiting ones that were passed may be missed, flagged ones may be false alarms.
    for label, passed in ((1.0, True), (0.0, False)):
        known = np.cumsum(~late & (audited.label == label))[ends[ready] - 1]
        open_ = np.cumsum(late & (audited.flagged != passed))[ends[ready] - 1]
        widths += open_ / np.maximum(1, open_ + known) + 1.0 / np.sqrt(np.maximum(1, known))
    near = ready[widths <= _ABOUT * widths.min()]
    return int(ends[near[-1]])


def place(audited: Audited, row: int) -> dict[str, Any]:
    """Return where a draw stands: number of the draw and of the batch, and the time of its answer.

    Within a batch draws stand in random order: for the time that draws reach see ``reached``.
    """
    return {
        "draw": row + 1 if audited.order is None else int(audited.order[row]),
        "batch": int(audited.batch[row]),
        "time": moment(float(audited.time[row])),
    }


def reached(audited: Audited, row: int) -> dict[str, Any]:
    """Return where draws up to one have got: its place, and the latest time of all up to it."""
    return {**place(audited, row), "time": moment(float(latest_times(audited)[row]))}


def latest_times(audited: Audited) -> Floats:
    """Return the latest time of all draws up to each; NaN before the first that has a time."""
    return np.asarray(np.fmax.accumulate(audited.time), np.float64)


def first(audited: Audited, n: int) -> Bools:
    """Return which draws are the first n."""
    return np.asarray(np.arange(len(audited)) < n)
