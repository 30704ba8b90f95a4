"""How often is a verdict wrong that is looked for after every label of a session?

Traces lie in a file, the guardrail is frozen from another one, and labels are given through
``calibrail.label`` until the verdict falls or the labels run out. The truth lies just on the other
side of what a verdict says, as for verdicts about a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

import calibrail
from calibrail import Drawing, Guardrail, LabelOptions, Session
from calibrail.settings import Requirement
from calibrail.validity.check import Check, Setting
from calibrail.validity.from_files.certificates import PROMISE, requirements, wrong
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.labelled import with_texts
from calibrail.validity.from_files.population import ALONE, QUESTIONS, Population

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
                    verdict = calibrail.certify(guardrail, labels=labels).verdict
                    failed.setdefault(name, []).append(wrong(verdict, name))
        for name, items in failed.items():
            what = "label and certify, wrong verdict at any label"
            yield at.check(what, items, at.alpha, design=f"{name}, {design.name}")


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
    options = LabelOptions(seed=seed, shared=design.options.shared)
    with calibrail.label(
        traces,
        labels,
        requirement,
        guardrail=guardrail,
        drawing=design.drawing,
        options=options,
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
