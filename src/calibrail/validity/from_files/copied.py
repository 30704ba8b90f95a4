"""How often is a broken threshold certified where each answer stands there six times?"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

import calibrail
from calibrail.settings import Requirement
from calibrail.validity.check import DELTA, Check, Setting
from calibrail.validity.from_files.certificates import PROMISE
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, Answers

_TIMES: Final = 6
_WORDS: Final = np.array([f"word{number}" for number in range(500)])
#: Share of faithful answers that may be flagged: nothing but the misses decides.
_MAX_FPR: Final = 0.9


def broken_certified(at: Setting) -> Iterator[Check]:
    """Certify a ``pac`` threshold that misses too much, from copies: at most what is stated.

    Copies have ids of their own. They are known by their scores alone, or by texts of which the
    context bears another stamp in each copy.
    """
    promise = replace(PROMISE, guarantee="pac", delta=DELTA)
    limit = Requirement(_MAX_FPR, 1.0 - PROMISE.alpha, 1.0 - at.alpha)
    for design in ("copies of scores with ids", "copies with stamped contexts"):
        rng, failed = at.rng(design), []
        with folder() as place:
            for _ in range(at.runs):
                answers = ALONE.draw(rng, at.n)
                texts = _stamped(answers, rng) if "contexts" in design else {}
                copies = answers.repeated(_TIMES, rng)
                path = ALONE.write(place, "labelled", copies, **texts)
                run = calibrail.calibrate(path, SCORE, promise, limit, baselines=False)
                broken = ALONE.coverage(run.calibration.threshold) < 1.0 - PROMISE.alpha
                failed.append(run.verdict == "certified" and broken)
        stated = DELTA + at.alpha / 2.0
        yield at.check("calibrate, broken threshold certified", failed, stated, design=design)


def _stamped(answers: Answers, rng: np.random.Generator) -> dict[str, Iterable[Any]]:
    """Return texts of every copy: those of its answer, and when its context was retrieved."""
    texts: dict[str, list[str]] = {"question": [], "context": [], "response": []}
    for _ in range(len(answers)):
        question, context, response = (" ".join(rng.choice(_WORDS, n)) for n in (8, 30, 15))
        texts["question"] += [question] * _TIMES
        texts["response"] += [response] * _TIMES
        stamps = rng.integers(10**9, size=_TIMES).tolist()
        texts["context"] += [f"{context} retrieved {stamp}" for stamp in stamps]
    return dict(texts)
