"""Do batches, drift audits, labelling sessions and watches keep their promises, file to file?

Sessions: traces lie in a file, the guardrail is frozen from another one, and labels are given
through ``calibrail.label`` until the verdict falls or the labels run out. The truth lies just on
the other side of what a verdict says, as for verdicts about a file.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibrail
from calibrail import Example, Guardrail
from calibrail.conformal import Selection
from calibrail.errors import DataError
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.labelling.session import Session
from calibrail.options import Drawing, LabelOptions, Promise, Requirement

from ..check import DELTA, Check, MeanCheck, Setting
from ..sequential import JUDGES
from .certificates import PROMISE, frozen, requirements, wrong
from .files import ALONE, QUESTIONS, SCORE, SEPARATION, Answers, Population, command, folder

#: Answers of a batch, one of each group.
_BATCH: Final = 100
#: Share of hallucinated ones among them.
_SHARE: Final = 0.5


def released(at: Setting) -> Iterator[Check | MeanCheck]:
    """Release hallucinated answers: on average at most a share alpha, by each method.

    By ``bh`` at most alpha times their share of the batch. That the bound for all cut-offs is
    exceeded at any: at most 0.05.
    """
    for population in (ALONE, QUESTIONS):
        rng, exceeded = at.rng(f"select, {population.name}"), []
        shares: dict[str, list[float]] = {}
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                guardrail = calibrail.calibrate(path, SCORE, PROMISE).freeze()
                batch = population.draw(rng, _BATCH).one_per_group(rng)
                path = population.write(place, "batch", batch)
                result = calibrail.select(guardrail, path, fdr=at.alpha)
                hallucinated = set(batch.names[batch.labels == 1])
                bad = np.array([name in hallucinated for name in result.ids])
                for method, found in ((result.method, result.selection), *result.others.items()):
                    if isinstance(found, Selection):
                        wrong = np.sum(found.released & bad) / max(1, found.n_released)
                        shares.setdefault(method, []).append(float(wrong))
                p_values = result.selection.p_values
                exceeded.append(
                    any(
                        np.sum(bad & (p_values <= row["cutoff"])) > row["most_hallucinated"]
                        for row in result.table()
                    )
                )
        for name, items in shares.items():
            promised = at.alpha * (_SHARE if name == "bh" else 1.0)
            design = f"{name}, {population.name}"
            yield at.mean("select, hallucinated among released", items, promised, design=design)
        what = "select, bound exceeded at a cut-off"
        yield at.check(what, exceeded, 0.05, design=population.name)


def drift_seen(at: Setting) -> Iterator[Check]:
    """Call a promise broken where both files come from one population: at most 1 - confidence."""
    for population in (ALONE, QUESTIONS):
        rng, seen = at.rng(f"shift, {population.name}"), []
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "before", population.draw(rng, at.n))
                later = population.write(place, "after", population.draw(rng, at.n))
                run = calibrail.shift(
                    path, SCORE, test=later, alpha=PROMISE.alpha, confidence=1.0 - at.alpha
                )
                seen.append(run.to_dict()["tests"][0]["finding"] == "broken")
        yield at.check("shift, drift where there is none", seen, at.alpha, design=population.name)


#: Answers that a threshold comes from.
_CALIBRATING: Final = 120


@dataclass(frozen=True, slots=True)
class Labelled:
    """One way in which labels come about.

    Attributes
    ----------
    name : str
        Of the design.
    population : Population
        The traces.
    drawing, options
        As for ``calibrail.label``.
    annotators : tuple of str
        Who labels, in turns.
    unsure, skipped : float
        Shares of the answers that somebody cannot judge, or puts off at first.
    """

    name: str
    population: Population
    drawing: Drawing = field(default_factory=Drawing)
    options: LabelOptions = field(default_factory=LabelOptions)
    annotators: tuple[str, ...] = ("ada",)
    unsure: float = 0.0
    skipped: float = 0.0


DESIGNS: Final = (
    Labelled("uniform", ALONE),
    Labelled("active, guess learnt", ALONE, Drawing("active")),
    Labelled("uniform, one answer of a question", QUESTIONS),
    Labelled("active, whole questions", QUESTIONS, Drawing("active", whole_groups=True)),
    Labelled(
        "active, two annotators, some unsure or skipped",
        ALONE,
        Drawing("active"),
        LabelOptions(shared=0.2),
        ("ada", "bob"),
        unsure=0.03,
        skipped=0.05,
    ),
)


def session_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict after any label: at most alpha = 1 - confidence, of either kind."""
    for design in DESIGNS:
        rng = at.rng(f"session, {design.name}")
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            guardrail = _frozen(place, design.population, rng)
            asked = requirements(design.population, guardrail.calibration.threshold, at.alpha)
            for run in range(at.runs):
                answers = design.population.draw(rng, at.n)
                path = with_texts(place, design.population, answers)
                truth = dict(zip(answers.names.tolist(), answers.labels.tolist(), strict=True))
                for number, (name, requirement) in enumerate(asked.items()):
                    labels = place / f"labels-{run}-{number}"
                    _label(labels, path, guardrail, requirement, design, truth, rng)
                    verdict = calibrail.certify(guardrail, labels=labels, looks=False).verdict
                    failed.setdefault(name, []).append(wrong(verdict, name))
        for name, items in failed.items():
            what = "label and certify, wrong verdict at any label"
            yield at.check(what, items, at.alpha, design=f"{name}, {design.name}")


#: Shares of hallucinated answers where a judge says what to look at.
_BASE_RATES: Final = (0.02, 0.1, 0.5)
#: The judge that turns says the opposite in one segment.
_TURNS: Final = "turns"


def judged_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict after any label where a judge of any kind says what to look at.

    At most alpha of either kind; the share of hallucinated answers is drawn by lot. Errors of a
    judge hang on class and score, or it says the opposite in one segment. ``n`` is the number of
    questions; where answers stand alone, of hallucinated answers.
    """
    for population, judge in product((ALONE, QUESTIONS), JUDGES | {"useless": (0.5,) * 4}):
        rng = at.rng(f"judged, {population.name}, {judge}")
        drawing = Drawing("active", 0.2, whole_groups=population.grouped)
        design = Labelled("judge", population, drawing, LabelOptions(judge_column=("judge",)))
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            guardrail = _frozen(place, population, rng)
            threshold = guardrail.calibration.threshold
            asked = requirements(population, threshold, at.alpha)
            for run in range(at.runs):
                answers = population.draw(rng, at.n)
                if not population.grouped:
                    answers = _alone(rng, at.n, float(rng.choice(_BASE_RATES)))
                judged = _said(judge, rng, answers, threshold)
                path = with_texts(place, population, answers, judge=judged)
                truth = dict(zip(answers.names.tolist(), answers.labels.tolist(), strict=True))
                for number, (what, requirement) in enumerate(asked.items()):
                    labels = place / f"labels-{run}-{number}"
                    _label(labels, path, guardrail, requirement, design, truth, rng)
                    verdict = calibrail.certify(guardrail, labels=labels, looks=False).verdict
                    failed.setdefault(what, []).append(wrong(verdict, what))
        name = "opposite in a segment" if judge == _TURNS else judge
        for truly, items in failed.items():
            what = "label and certify with a judge, wrong verdict at any label"
            yield at.check(what, items, at.alpha, design=f"{truly}, {name}, {population.name}")


def _alone(rng: np.random.Generator, hallucinated: int, rate: float) -> Answers:
    """Return about so many hallucinated answers, at most 1,000 in all; all stand alone."""
    n = min(1000, round(hallucinated / rate))
    labels = (rng.random(n) < rate).astype(np.int64)
    scores = (rng.standard_normal(n) + SEPARATION * labels)[None]
    return Answers(rng.integers(1 << 60, size=n), labels, scores, np.arange(n), 0 * labels)


def _said(judge: str, rng: np.random.Generator, answers: Answers, threshold: float) -> list[int]:
    """Return what a judge says of each answer."""
    flagged = (answers.scores[0] >= threshold).astype(np.int64)
    # Of the passed ones and then of the flagged ones: how often it is right by class, 1 and then 0.
    often = np.array(JUDGES.get(judge, (0.5,) * 4))[2 * flagged + 1 - answers.labels]
    right = rng.random(len(answers)) < often
    if judge == _TURNS:
        right ^= answers.ids % 2 == 1
    return [int(label) for label in np.where(right, answers.labels, 1 - answers.labels)]


#: What a judge misses and raises: it just may not stand in for people (twice), or just may.
_JUDGES: Final = {
    "judge misses just too much": (0.2 + 1e-6, 0.03),
    "judge raises just too much": (0.03, 0.2 + 1e-6),
    "judge may just stand in": (0.2 - 1e-6, 0.2 - 1e-6),
}


def queued_verdicts(at: Setting) -> Iterator[Check]:
    """Label disagreements first: wrong verdicts on the guardrail, and on the judge by its labels.

    At most alpha of either. The judge errs more often where the guardrail errs; labels end once the
    verdict on the guardrail falls, or with the traces.
    """
    for which, rates in _JUDGES.items():
        rng = at.rng(f"queue, {which}")
        failed: dict[str, list[bool]] = {}
        design = Labelled(
            which, ALONE, Drawing("disagreements", 0.2), LabelOptions(judge_column=("judge",))
        )
        with folder() as place:
            guardrail = _frozen(place, ALONE, rng)
            threshold = guardrail.calibration.threshold
            asked = requirements(ALONE, threshold, at.alpha)
            for run in range(at.runs):
                answers = ALONE.draw(rng, at.n)
                # Among the answers of a class its errors lie where the guardrail errs, too.
                flagged, judged = answers.scores[0] >= threshold, answers.labels.copy()
                for label, rate in zip((1, 0), rates, strict=True):
                    hard = (answers.labels == label) & (flagged != label)
                    share = ALONE.below(threshold, label) if label else ALONE.fpr(threshold)
                    chance = np.where(hard, 2.0 * rate, rate * (1.0 - 2.0 * share) / (1.0 - share))
                    judged ^= (answers.labels == label) & (rng.random(len(answers)) < chance)
                path = with_texts(place, ALONE, answers, judge=judged.tolist())
                truth = dict(zip(answers.names.tolist(), answers.labels.tolist(), strict=True))
                for number, (name, requirement) in enumerate(asked.items()):
                    labels = place / f"labels-{run}-{number}"
                    _label(labels, path, guardrail, requirement, design, truth, rng)
                    verdict = calibrail.certify(guardrail, labels=labels, looks=False).verdict
                    failed.setdefault(name, []).append(wrong(verdict, name))
                    bad, said = "rejected" if max(rates) < 0.2 else "certified", None
                    # Of few labels none may stay.
                    with suppress(DataError):
                        said = calibrail.agree(
                            labels,
                            judge_column="judge",
                            min_caught=0.8,
                            max_false_alarms=0.2,
                            confidence=1.0 - at.alpha,
                        ).verdict
                    failed.setdefault(f"agree, {name}", []).append(said == bad)
        for name, items in failed.items():
            what = "disagreements labelled first, wrong verdict"
            yield at.check(what, items, at.alpha, design=f"{name}, {which}")


def _label(
    labels: Path,
    traces: Path,
    guardrail: Guardrail,
    requirement: Requirement,
    design: Labelled,
    truth: dict[str, int],
    rng: np.random.Generator,
) -> None:
    """Label truthfully until the verdict falls, or nothing is left to label."""
    seed = int(rng.integers(1 << 30))
    options = replace(design.options, seed=seed)
    with calibrail.label(
        traces,
        labels,
        requirement,
        guardrail=guardrail,
        drawing=design.drawing,
        options=options,
        looks=False,
    ) as session:
        idle: set[str] = set()
        while len(idle) < len(design.annotators):
            for name in design.annotators:
                if not _one(session, name, design, truth, rng):
                    idle.add(name)
            if session.counts(design.annotators[0]).verdict is not None:
                return


def _one(
    session: Session, name: str, design: Labelled, truth: dict[str, int], rng: np.random.Generator
) -> bool:
    """Label or skip the next answer; return whether there was one."""
    task = session.next(name)
    if task is None:
        return False
    if rng.random() < design.skipped:
        session.skip(name, task.order)
        return True
    # Nobody can judge some of them, and which ones lies in the answer.
    doubtful = hash_share(task.id) < design.unsure
    session.put(name, task.order, None if doubtful else truth[task.id])
    return True


def hash_share(text: str) -> float:
    """Return a number in [0, 1) that a text decides.

    >>> 0.0 <= hash_share("some answer") < 1.0
    True
    """
    return int.from_bytes(text.encode()[-4:], "big") * 2654435761 % 2**32 / 2**32


def _frozen(place: Path, population: Population, rng: np.random.Generator) -> Guardrail:
    answers = population.draw(rng, _CALIBRATING)
    path = with_texts(place, population, answers, "labelled")
    return calibrail.calibrate(path, SCORE, PROMISE).freeze()


#: Share of the answers about which nobody can tell.
_UNSURE: Final = 0.1


def until_calibrated(at: Setting) -> Iterator[Check | MeanCheck]:
    """Miss a hallucinated answer of a new group: alpha on average; with ``pac``, too much: DELTA.

    Traces are labelled until the session says that there is enough, and calibrated on.
    """
    for population in (ALONE, QUESTIONS):
        rng = at.rng(f"until calibrated, {population.name}")
        missed, bad = [], []
        with folder() as place:
            for _ in range(at.runs):
                answers = population.draw(rng, at.n)
                path = with_texts(place, population, answers)
                for promise in (at.promise(), at.promise("pac")):
                    labels = _labelled(path, answers, promise, rng)
                    found = calibrail.calibrate(labels, SCORE, promise).calibration
                    miss = population.below(found.threshold, 1)
                    if promise.guarantee == "marginal":
                        missed.append(miss)
                    else:
                        bad.append(miss > at.alpha)
        name = population.name
        yield at.mean("labelled until calibrated, missed", missed, at.alpha, design=name)
        yield at.check("labelled until calibrated, pac misses too much", bad, DELTA, design=name)


def with_texts(
    place: Path,
    population: Population,
    answers: Answers,
    name: str = "traces",
    **more: Iterable[Any],
) -> Path:
    """Return a file of answers with their texts; the labels that it has are not looked at."""
    texts = [f"Answer {id} is {id[::-1]}." for id in answers.names.tolist()]
    return population.write(place, name, answers, response=texts, **more)


def _labelled(traces: Path, answers: Answers, promise: Promise, rng: np.random.Generator) -> Path:
    """Return a folder in which one person has labelled traces until there is enough."""
    truth = dict(zip(answers.names.tolist(), answers.labels.tolist(), strict=True))
    seed = int(rng.integers(2**31))
    path = traces.parent / f"labels {seed}"
    with calibrail.label(traces, path, promise=promise, seed=seed) as session:
        while not session.counts("one").decided:
            task = session.next("one")
            if task is None:
                break
            label = None if rng.random() < _UNSURE else int(truth[task.id])
            session.put("one", task.order, label)
    return path


#: Answers that are compared with, and how often the log is looked at while it grows.
_REFERENCE, _LOOKS = 200, 2
#: By so little is a promise kept.
_LITTLE: Final = 1e-6
#: Texts are made of the first ones of these.
_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight")


def false_alarms(at: Setting) -> Iterator[Check]:
    """Raise a false alarm within so many answers of a log: at most alpha = answers / (2 ARL).

    The first reference is a log's own beginning, beside it the labelled answers: these are drawn
    anew each time, since the promise is about both.
    """
    rng, failed, n = at.rng("false alarms"), [], _REFERENCE + at.n
    with folder() as place:
        for run in range(at.runs):
            guardrail = frozen(place, ALONE, rng)
            guardrail.save(place / "guardrail.json", force=True)
            log, watch = place / f"log {run}", place / f"watch {run}"
            answers = ALONE.draw(rng, n)
            parts = np.array_split(np.arange(len(answers)), _LOOKS)
            seen = []
            for part in parts:
                write_log(log, guardrail, answers, part, rng)
                said = command(
                    *("monitor", "guardrail.json", log, "-o", watch, "--seed", run),
                    *("--reference", _REFERENCE, "--arl", round(n / (2.0 * at.alpha))),
                )
                seen.append(bool(said["traffic"]["alarm"]))
            assert said["n"] == len(answers) and said["log"]["whole"]
            failed.append(any(seen))
    what = f"monitor, false alarm within {n:,} answers"
    yield at.check(what, failed, at.alpha, design=f"log of independent answers, {_LOOKS} looks")


def write_log(
    log: Path,
    guardrail: Guardrail,
    answers: Answers,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Write what a guardrail decides about some answers of a population, as a service does.

    Texts have different lengths and are in one language.
    """
    counts = rng.integers(1, 1 + len(_WORDS), (len(answers), 3))
    words = [[" ".join(_WORDS[:count]) for count in row] for row in counts.tolist()]
    examples = [
        Example(
            question=f"How many of {words[row][0]}?",
            contexts=tuple(words[row][2].split()),
            response=f"There are {words[row][1]} of them, as it says there.",
            id=answers.names[row],
            columns={"s0": float(answers.scores[0, row])},
        )
        for row in rows.tolist()
    ]
    decisions = guardrail.decide(examples)
    with DecisionLog(log) as chain:
        chain.write(
            [
                Entry.of(guardrail, example, decision)
                for example, decision in zip(examples, decisions, strict=True)
            ]
        )


def kept_promises(at: Setting) -> Iterator[Check]:
    """Say that a promise is broken which is just kept: at most alpha = delta.

    Half of the answers are drawn from the log, labelled in parts, and looked at after each.
    """
    rng, failed = at.rng("kept promises"), []
    with folder() as place:
        guardrail = frozen(place, ALONE, rng)
        guardrail.save(place / "guardrail.json")
        threshold = guardrail.calibration.threshold
        limits = ALONE.coverage(threshold) - _LITTLE, ALONE.fpr(threshold) + _LITTLE
        for run in range(at.runs):
            log, watch = place / f"log {run}", place / f"watch {run}"
            audit = place / f"audit {run}"
            answers = ALONE.draw(rng, 2 * at.n)
            truth = dict(zip(answers.names.tolist(), answers.labels.tolist(), strict=True))
            seen = []
            write_log(log, guardrail, answers, np.arange(len(answers)), rng)
            drawn = ("label", "--from-log", log, "--guardrail", "guardrail.json", "-o", audit)
            command(*drawn, "--per-day", at.n)
            for look in range(1, _LOOKS + 1):
                with calibrail.label(None, audit) as session:
                    for _ in range(at.n * look // _LOOKS - at.n * (look - 1) // _LOOKS):
                        if (task := session.next("one")) is not None:
                            session.put("one", task.order, int(truth[task.id]))
                said = command(
                    *("monitor", "guardrail.json", log, "-o", watch, "--labels", audit),
                    *("--min-coverage", limits[0], "--max-fpr", limits[1], "--delta", at.alpha),
                )
                seen.append(said["promise"]["state"] == "broken")
            failed.append(any(seen))
    what = "monitor, kept promise called broken"
    yield at.check(what, failed, at.alpha, design=f"labels by one person, {_LOOKS} looks")
