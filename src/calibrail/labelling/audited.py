"""What do people say of the answers drawn from a decision log, in the order drawn?"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import InputError
from calibrail.labelling.batches import Batches, check_batches
from calibrail.labelling.folder import LabelFolder, read_plan
from calibrail.labelling.ledger import Answer
from calibrail.labelling.replay import check_draws
from calibrail.settings.drawing import Drawing


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """Answers drawn from a decision log, in the order drawn; arrays of shape (n,).

    Attributes
    ----------
    flagged : ndarray of bool
        Whether the guardrail did not pass the answer.
    label : ndarray of float64
        1 hallucinated, 0 faithful; NaN where there is no label, or none that says which.
    settled : ndarray of bool
        False where people are to label it and have not yet, or disagree. Answers that the lot
        left unlabelled are settled: nothing of them is to come.
    unsure : ndarray of bool
        Whether the final label is that nobody can tell.
    handed_out : ndarray of bool
        Whether the lot of its probability handed it out.
    probability : ndarray of float64
        With which it was to be handed out, in (0, 1]; known before its label.
    guess : ndarray of float64
        P(hallucinated) as guessed before its label; NaN with the design ``uniform``.
    share : ndarray of float64
        Of the lines of the log that its batch was drawn from, how many were drawn.
    time : ndarray of float64
        When it was logged, in seconds since 1970 (UTC); NaN where that is not known.
    batch : ndarray of int64
        1, 2, ...: the call that drew it.
    score : ndarray of float64
        What the guardrail said; NaN where undefined.
    group : ndarray of object
        Group (str) where the guardrail has thresholds by group, else None.
    language : ndarray of object
        Language (str) where it is known, else None.
    id : ndarray of object
        Of the answer (str); several logged lines may bear one.
    drawing : Drawing
        How they were drawn.
    guardrail : str
        Digest of the guardrail that decided about them.
    n_disagreements : int
        Answers about which annotators disagree, and nobody has settled it.
    line : ndarray of object, or None
        Chain (str) and number there (int) of the logged line, as a pair; None where not known.
    question : ndarray of object, or None
        Digest (str) of the words of question and chunks, None where not known.
    order : ndarray of int64, or None
        1, 2, ...: the number of the draw, where these are some of the draws.
    problems : tuple of str
        Lines of labels that cannot be used, each with its file, its number and a remedy.
    """

    flagged: Bools
    label: Floats
    settled: Bools
    unsure: Bools
    handed_out: Bools
    probability: Floats
    guess: Floats
    share: Floats
    time: Floats
    batch: Ints
    score: Floats
    group: NDArray[np.object_]
    language: NDArray[np.object_]
    id: NDArray[np.object_]
    drawing: Drawing = field(default_factory=Drawing)
    guardrail: str = ""
    n_disagreements: int = 0
    line: NDArray[np.object_] | None = None
    question: NDArray[np.object_] | None = None
    order: Ints | None = None
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many answers were drawn."""
        return len(self.flagged)


def audited(folder: Path) -> Audited:
    """Return what a folder holds that ``calibrail audit-sample`` made, checked against its seed.

    Lines of labels that cannot be used (of an answer that was not drawn, a second one of one
    person, damaged ones) are left out and named. Draws that are not what the seed, the plan and
    the batches say are refused: their probabilities would be made up.

    Parameters
    ----------
    folder : Path
        That holds ``session.json``.

    Raises
    ------
    DataError
        The folder holds no labels, or a draw is not what it was.
    InputError
        Its answers were not drawn from a decision log.
    """
    plan = read_plan(folder, "audit-sample")
    if plan.purpose != "watch":
        raise InputError(
            f"the answers in {folder} were not drawn from a decision log; name a folder that "
            "`calibrail audit-sample` made"
        )
    problems: list[str] = []
    files = LabelFolder(folder, problems)
    with files.lock():
        batches = Batches(files)
        batches.refresh()
    answers = files.ledger.answers
    draws = [item.draw for item in answers]
    check_draws(draws, plan, files.draws.path)
    check_batches(draws, batches.all, files)
    return replace(
        _columns(answers),
        drawing=plan.drawing,
        guardrail=plan.guardrail or "",
        problems=tuple(problems),
    )


def _columns(answers: Sequence[Answer]) -> Audited:
    draws = [item.draw for item in answers]
    standing = [item.standing for item in answers]
    labels = [item.label for item in answers]
    line = np.empty(len(draws), np.object_)
    line[:] = [(draw.chain or "", draw.seq or 0) for draw in draws]
    final = np.array([name == "final" for name in standing], np.bool_)
    label = np.array([np.nan if value is None else value for value in labels], np.float64)
    return Audited(
        flagged=np.array([bool(draw.flagged) for draw in draws], np.bool_),
        label=label,
        settled=np.array([name in ("final", "passed over") for name in standing], np.bool_),
        unsure=np.asarray(final & np.isnan(label)),
        handed_out=np.array([draw.handed_out for draw in draws], np.bool_),
        probability=_numbers([draw.probability for draw in draws]),
        guess=_numbers([draw.guess for draw in draws]),
        share=_numbers([draw.share for draw in draws]),
        time=_numbers([seconds(draw.time) for draw in draws]),
        batch=np.array([draw.batch or 0 for draw in draws], np.int64),
        score=_numbers([draw.score for draw in draws]),
        group=_objects([draw.log_group for draw in draws]),
        language=_objects([draw.log_language for draw in draws]),
        id=_objects([draw.id for draw in draws]),
        n_disagreements=standing.count("disagreement"),
        line=line,
        question=_objects([draw.question for draw in draws]),
    )


def seconds(time: str | None) -> float | None:
    """Return a time in seconds since 1970, UTC; None where none can be read.

    >>> seconds("1970-01-01T00:01:00Z"), seconds("yesterday")
    (60.0, None)
    """
    try:
        moment = None if time is None else datetime.fromisoformat(time)
    except ValueError:
        return None
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _objects(values: Sequence[str | None]) -> NDArray[np.object_]:
    found = np.empty(len(values), np.object_)
    found[:] = values
    return found
