"""Looks: certify again and again until it is certified."""

from dataclasses import replace
from functools import lru_cache, partial
from math import ceil, floor
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np

import calibrail
from calibrail import Guardrail
from calibrail.options import Requirement

from ..from_files.certificates import frozen
from ..from_files.files import ALONE, SEPARATION, Answers, Population
from .attack import Attack, Try
from .copies import WORDS

#: Answers of one look.
_N: Final = 240
_LITTLE: Final = 1e-6
#: Detectors whose guardrails lie in one folder, and those that are tried on rewordings.
_EIGHT, _TEN = (Population("several detectors", columns=n) for n in (8, 10))
#: Words of an answer's sentences, and the share of them that a rewording changes.
_LENGTHS: Final = (9, 7, 8)
_CHANGED: Final = 0.06


@lru_cache
def _guardrail() -> Guardrail:
    """Return one guardrail, whose true rates are known, for all attempts."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return frozen(Path(folder), ALONE, np.random.default_rng(0))


@lru_cache
def _guardrails(n: int) -> tuple[Guardrail, ...]:
    """Return a guardrail of each of several detectors."""
    several = {8: _EIGHT, 10: _TEN}[n]
    rows = _rows(several.draw(np.random.default_rng(0), _N))
    specs = [f"column:column={name},higher=hallucinated" for name in several.detectors]
    return tuple(
        calibrail.calibrate(rows, spec, alpha=0.2, baselines=False).freeze() for spec in specs
    )


def _rows(answers: Answers) -> dict[str, Any]:
    scores = {f"s{number}": row for number, row in enumerate(answers.scores)}
    return {"id": answers.names, "label": answers.labels, **scores}


def _broken(guardrail: Guardrail) -> Requirement:
    """Return limits of which the guardrail just breaks one."""
    return Requirement(0.95, ALONE.coverage(guardrail.calibration.threshold) + _LITTLE)


def _again(looks: int, *, declared: bool) -> Try:
    """Return an attempt to get a wrong certificate in one of several looks."""

    def attempt(rng: np.random.Generator, place: Path) -> bool:
        guardrail, kept = _guardrail(), place / "guardrail.looks.json"
        limits = Requirement(
            0.95, _broken(guardrail).min_coverage, n_looks=looks if declared else None
        )
        return any(
            calibrail.certify(guardrail, _rows(ALONE.draw(rng, _N)), limits, looks=kept).verdict
            == "certified"
            for _ in range(looks)
        )

    return attempt


def _from_python(rng: np.random.Generator, place: Path) -> bool:
    """Certify six fresh batches in a loop that names no file of looks."""
    file = place / "guardrail.json"
    _guardrail().save(file)
    limits = _broken(_guardrail())
    return any(
        calibrail.certify(file, _rows(ALONE.draw(rng, _N)), limits).verdict == "certified"
        for _ in range(6)
    )


def _one_of_many(rng: np.random.Generator, place: Path) -> bool:
    """Certify the guardrails of a folder, one after another, on the same answers."""
    rows = _rows(_EIGHT.draw(rng, _N))
    verdicts = []
    for number, guardrail in enumerate(_guardrails(8)):
        guardrail.save(file := place / f"guardrail{number}.json")
        kept = file.with_suffix(".looks.json")
        verdicts.append(calibrail.certify(file, rows, _broken(guardrail), looks=kept).verdict)
    return "certified" in verdicts


def _ten(rng: np.random.Generator) -> dict[str, Any]:
    """Return answers with the scores of ten detectors, each of which errs by itself."""
    answers = ALONE.draw(rng, _N)
    scores = {name: rng.normal(SEPARATION * answers.labels) for name in _TEN.detectors}
    return {"id": answers.names, "label": answers.labels, **scores}


def _any_column(rng: np.random.Generator, place: Path, *, numbered: bool = False) -> bool:
    """Test one threshold of each of ten columns of rows without ids, or with new ones each time."""
    rows = _ten(rng)
    del rows["id"]
    coverage = _broken(_guardrail()).min_coverage
    return any(
        calibrail.test(
            rows | ({"id": [f"{name}-{row}" for row in range(_N)]} if numbered else {}),
            f"column:column={name},higher=hallucinated",
            threshold=_guardrail().calibration.threshold,
            min_caught=coverage,
            max_false_alarms=0.95,
            looks=place / "run" / "looks.json",
        ).verdict
        == "certified"
        for name in _TEN.detectors
    )


def _best_of_runs(rng: np.random.Generator, place: Path) -> bool:
    """Certify that of ten guardrails of which a look beside them at the same answers shows most."""
    rows = _ten(rng)
    caught = dict[int, float]()
    for number, guardrail in enumerate(_guardrails(10)):
        name = f"column:column=s{number},higher=hallucinated"
        threshold, least = guardrail.calibration.threshold, _broken(guardrail).min_coverage or 0.0
        kept = place / f"run{number}" / "looks.json"
        shown = calibrail.test(
            rows, name, threshold=threshold, min_caught=least, max_false_alarms=1.0, looks=kept
        )
        caught[number] = (shown.report.test.coverage.estimate or 0.0) - least
    return _best_is_certified(rows, caught, place)


def _none(*given: object) -> None:
    """Draw nothing."""


def _best_of_shifts(rng: np.random.Generator, place: Path) -> bool:
    """Certify that of ten guardrails whose detector catches most there by a test of shift."""
    rows, home = _ten(rng), _rows(_TEN.draw(np.random.default_rng(0), _N))
    caught = dict[int, float]()
    for number in range(10):
        name = f"column:column=s{number},higher=hallucinated"
        run = calibrail.shift(home, name, test=rows, alpha=0.2)
        # Nobody reads the page and its figures here.
        with mock.patch.multiple("calibrail.pipelines.run", write_page=_none, write_figures=_none):
            run.save(place / f"shift{number}")
        (shown,) = run.content["tests"]
        caught[number] = shown["coverage"]["estimate"] - ALONE.coverage(shown["threshold"])
    return _best_is_certified(rows, caught, place)


def _best_is_certified(rows: dict[str, Any], shown: dict[int, float], place: Path) -> bool:
    guardrail = _guardrails(10)[max(shown, key=shown.__getitem__)]
    guardrail.save(file := place / "guardrail.json")
    return calibrail.certify(file, rows, _broken(guardrail)).verdict == "certified"


def _reworded(rng: np.random.Generator, sentences: list[list[str]]) -> str:
    """Return an answer in other words here and there, other order and other punctuation."""
    said = []
    for place in rng.permutation(len(sentences)).tolist():
        words = [f"{word}s" if rng.random() < _CHANGED else word for word in sentences[place]]
        comma = int(rng.integers(1, len(words)))
        words[comma - 1] += "," * int(rng.integers(2))
        said.append(" ".join(words).capitalize() + str(rng.choice([".", "!"])))
    return " ".join(said)


def _on_rewordings(rng: np.random.Generator, place: Path) -> bool:
    """Certify each of ten detectors of a folder on a fresh rewording of the same answers."""
    answers = ALONE.draw(rng, _N)
    texts = [[rng.choice(WORDS, n).tolist() for n in _LENGTHS] for _ in range(_N)]
    verdicts = []
    for number, guardrail in enumerate(_guardrails(10)):
        guardrail.save(file := place / f"guardrail{number}.json")
        rows: dict[str, Any] = {
            "id": [f"{name:x}" for name in rng.integers(1 << 60, size=_N).tolist()],
            "question": ["What do we know of it?"] * _N,
            "contexts": [["Notes of the service team."]] * _N,
            "response": [_reworded(rng, text) for text in texts],
            "label": answers.labels,
            f"s{number}": rng.normal(SEPARATION * answers.labels),
        }
        verdicts.append(calibrail.certify(file, rows, _broken(guardrail), fresh=True).verdict)
    return "certified" in verdicts


def _just_met(guardrail: Guardrail) -> Requirement:
    """Return limits of which the guardrail just meets both."""
    threshold = guardrail.calibration.threshold
    return Requirement(ALONE.fpr(threshold) + _LITTLE, ALONE.coverage(threshold) - _LITTLE)


def _growing(rng: np.random.Generator, place: Path) -> bool:
    """Reject a guardrail that just meets both limits, in one of nine looks at data that grows."""
    guardrail = _guardrail()
    limits, answers = _just_met(guardrail), ALONE.draw(rng, 100)
    for _ in range(9):
        made = calibrail.certify(guardrail, _rows(answers), limits, looks=place / "looks.json")
        if made.verdict == "rejected":
            return True
        answers = answers.joined(ALONE.draw(rng, int(0.3 * len(answers))))
    return False


def _mixed(rng: np.random.Generator, place: Path) -> bool:
    """Reject it in one of eight looks: at fresh answers, at more, at a part, at respelt ones."""
    guardrail = _guardrail()
    limits, answers = _just_met(guardrail), ALONE.draw(rng, 200)
    for _ in range(8):
        made = calibrail.certify(guardrail, _rows(answers), limits, looks=place / "looks.json")
        if made.verdict == "rejected":
            return True
        move, n = int(rng.integers(4)), len(answers)
        if move == 0:
            answers = ALONE.draw(rng, int(rng.integers(120, 400)))
        elif move == 1:
            answers = answers.joined(ALONE.draw(rng, int(0.4 * n)))
        elif move == 2:
            answers = answers.first(max(60, n // 2))
        else:
            ids = rng.integers(1 << 60, size=n)
            answers = replace(answers, ids=ids, scores=np.round(answers.scores, 4))
    return False


def _read_off(rng: np.random.Generator, place: Path) -> bool:
    """Certify each of four batches with the limits that a first look at it has shown."""
    guardrail, kept = _guardrail(), place / "looks.json"
    threshold = guardrail.calibration.threshold
    coverage, fpr = ALONE.coverage(threshold), ALONE.fpr(threshold)
    for _ in range(4):
        rows = _rows(ALONE.draw(rng, 2 * _N))
        shown = calibrail.certify(guardrail, rows, _broken(guardrail), looks=kept).certificate
        # As they are printed.
        least = floor(1000.0 * shown.coverage_at_least) / 1000.0
        most = ceil(1000.0 * shown.fpr_at_most) / 1000.0
        made = calibrail.certify(guardrail, rows, Requirement(most, least), looks=kept)
        if made.verdict == "certified" and (coverage < least or fpr > most):
            return True
    return False


_LOW: Final = f"coverage just too low, {_N} answers each"
ATTACKS = [
    Attack(
        "certified in any of six fresh batches", _LOW, 0.05, (15, 70), _again(6, declared=False)
    ),
    Attack(
        "certified in any of six declared looks",
        f"{_LOW}; undeclared before",
        0.05,
        (15, 70),
        _again(6, declared=True),
    ),
    Attack(
        "certified in any of six rounds of a loop in Python", _LOW, 0.05, (30, 160), _from_python
    ),
    Attack(
        "certified one of eight guardrails of a folder",
        f"coverage just too low, the same {_N} answers",
        0.05,
        (32, 160),
        _one_of_many,
    ),
    Attack(
        "certified any of ten columns of scores, by test of one threshold",
        f"coverage just too low, the same {_N} rows without ids",
        0.05,
        (29, 100),
        _any_column,
        100,
    ),
    Attack(
        "certified any of ten columns of scores, each in a file that numbers its rows anew",
        f"coverage just too low, the same {_N} rows in one order",
        0.05,
        (4, 15),
        partial(_any_column, numbered=True),
        60,
    ),
    Attack(
        "certified the best of ten guardrails, by what tests beside them have shown",
        f"coverage just too low, the same {_N} answers",
        0.05,
        (37, 200),
        _best_of_runs,
        100,
    ),
    Attack(
        "certified the best of ten guardrails, by what shift has shown",
        f"coverage just too low, the same {_N} answers",
        0.05,
        (26, 100),
        _best_of_shifts,
        100,
    ),
    Attack(
        "certified one of ten detectors, each on a fresh rewording of the same answers",
        f"coverage just too low, {_N} answers, {_CHANGED:.0%} of the words and the order changed",
        0.05,
        (21, 50),
        _on_rewordings,
        100,
    ),
    Attack(
        "rejected in any of nine looks at data that grows",
        "both limits just met, 100 answers and 30 % more each time",
        0.05,
        (30, 200),
        _growing,
    ),
    Attack(
        "rejected in any of eight looks at fresh, grown, halved or respelt answers",
        "both limits just met, 200 answers at first",
        0.05,
        None,
        _mixed,
        100,
    ),
    Attack(
        "certified any of four batches by the limits it has shown",
        f"{2 * _N} answers each, limits to 0.1 %",
        0.05,
        (38, 100),
        _read_off,
    ),
]
