"""Do thresholds keep their promise where labelling stops as soon as there is enough?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

import calibrail
from calibrail.settings import Promise
from calibrail.validity.check import DELTA, Check, MeanCheck, Setting
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, QUESTIONS, Answers, Population

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


def with_texts(place: Path, population: Population, answers: Answers, name: str = "traces") -> Path:
    """Return a file of answers with their texts; the labels that it has are not looked at."""
    texts = [f"Answer {id} is {id[::-1]}." for id in answers.names.tolist()]
    return population.write(place, name, answers, response=texts)


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
