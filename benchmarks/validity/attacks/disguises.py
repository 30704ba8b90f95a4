"""Looks in disguise: other names, other texts beside an answer, another seed, one text for many."""

import json
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

import calibrail
from calibrail import Guardrail
from calibrail.options import Requirement, SplitOptions

from .attack import Attack
from .copies import WORDS, apology, letter_case

Rng = np.random.Generator
Rows = dict[str, list[Any]]
#: Answers of one look, and detectors, looks or seeds that are tried.
_N, _TRIED = 240, 10
#: Distance of the two classes, a threshold, and what it catches.
_SEPARATION, _THRESHOLD = 2.0, 0.8
_CAUGHT: Final = float(ndtr(_SEPARATION - _THRESHOLD))
_LITTLE: Final = 1e-6
#: Probability of a wrong verdict that is accepted.
_ERROR: Final = 0.2
_ASKED: Final[dict[str, Any]] = {
    "min_caught": _CAUGHT + _LITTLE,
    "max_false_alarms": 0.95,
    "confidence": 1.0 - _ERROR,
}
_ALPHA: Final = 0.2
#: Answers to a question, questions of a class, and the share of faithful answers flagged.
_SIZE, _QUESTIONS, _FLAGGED = 8, 51, 0.3


def _spec(name: str) -> str:
    return f"column:column={name},higher=hallucinated"


def _scores(rng: Rng, labels: list[int]) -> list[float]:
    scores: list[float] = rng.normal(_SEPARATION * np.array(labels)).tolist()
    return scores


def _answers(rng: Rng, n: int = _N) -> Rows:
    ids = [f"{name:x}" for name in rng.integers(1 << 60, size=n).tolist()]
    return {"id": ids, "label": rng.integers(2, size=n).tolist()}


def one_column_name(rng: Rng, place: Path) -> bool:
    """Test one threshold of ten detectors, each in a file of its own whose column is ``score``."""
    rows = _answers(rng)
    return any(
        calibrail.test(
            rows | {"score": _scores(rng, rows["label"])},
            _spec("score"),
            threshold=_THRESHOLD,
            looks=place / "run" / "looks.json",
            **_ASKED,
        ).verdict
        == "certified"
        for _ in range(_TRIED)
    )


def renamed(rng: Rng, place: Path) -> bool:
    """Compare thirty equal columns, and test the best of them under another name."""
    rows = _answers(rng)
    columns = {f"s{number}": _scores(rng, rows["label"]) for number in range(30)}
    made = calibrail.compare(
        rows | columns,
        [_spec(name) for name in columns],
        alpha=_ALPHA,
        baselines=False,
        splitting=SplitOptions(calibration_share=0.1),
        looks=place / "compared" / "looks.json",
    )
    shown = {name: report.test.auroc.estimate or 0.0 for name, report in made.comparison.detectors}
    best = columns[max(shown, key=shown.__getitem__)]
    found = calibrail.test(
        rows | {"score": best},
        _spec("score"),
        threshold=_THRESHOLD,
        looks=place / "best" / "looks.json",
        **_ASKED,
    )
    return found.verdict == "certified"


def by_seeds(rng: Rng, place: Path) -> bool:
    """Calibrate with groups by ten seeds, until a threshold that flags too much is certified."""
    rows: Rows = {"id": [], "label": [], "question_id": [], "score": []}
    for number in range(2 * _QUESTIONS):
        label = number % 2
        for answer in range(_SIZE):
            rows["id"].append(f"a{number}-{answer}")
            rows["label"].append(label)
            rows["question_id"].append(f"q{number}")
            rows["score"].append(float(label or rng.random() < _FLAGGED))
    for seed in range(_TRIED):
        run = calibrail.calibrate(
            rows,
            _spec("score"),
            alpha=_ALPHA,
            guarantee="pac",
            max_false_alarms=_FLAGGED - _LITTLE,
            confidence=1.0 - _ERROR,
            group_column="question_id",
            baselines=False,
            splitting=SplitOptions(seed=seed),
            looks=place / "run" / "looks.json",
        )
        if run.verdict == "certified":
            return True
    return False


def by_columns(rng: Rng, place: Path) -> bool:
    """Test one threshold by ten columns of groups: other answers of each count every time."""
    rows = _answers(rng, 400)
    rows["score"] = _scores(rng, rows["label"])
    for number in range(_TRIED):
        rows[f"source{number}"] = [f"q{part // _SIZE}" for part in rng.permutation(400)]
    return any(
        calibrail.test(
            rows,
            _spec("score"),
            threshold=_THRESHOLD,
            group_column=f"source{number}",
            looks=place / "run" / "looks.json",
            **_ASKED,
        ).verdict
        == "certified"
        for number in range(_TRIED)
    )


@lru_cache
def _guardrails() -> tuple[Guardrail, ...]:
    """Return one guardrail for columns of several names."""
    rng = np.random.default_rng(0)
    rows = _answers(rng)
    scores = _scores(rng, rows["label"])
    made = (
        calibrail.calibrate(rows | {name: scores}, _spec(name), alpha=_ALPHA, baselines=False)
        for name in (f"s{number}" for number in range(_TRIED))
    )
    return tuple(run.freeze() for run in made)


def _broken(guardrail: Guardrail) -> Requirement:
    caught = float(ndtr(_SEPARATION - guardrail.calibration.threshold))
    return Requirement(0.95, caught + _LITTLE, 1.0 - _ERROR)


def renamed_guardrail(rng: Rng, place: Path) -> bool:
    """Certify a guardrail on ten fresh batches, whose column has another name each time."""
    for number, guardrail in enumerate(_guardrails()):
        guardrail.save(file := place / f"guardrail{number}.json")
        rows = _answers(rng)
        rows[f"s{number}"] = _scores(rng, rows["label"])
        if calibrail.certify(file, rows, _broken(guardrail)).verdict == "certified":
            return True
    return False


def other_texts(rng: Rng, place: Path) -> bool:
    """Test each of six detectors on the same answers, beside which other texts stand."""
    rows = _answers(rng)

    def said(words: int) -> list[str]:
        return [" ".join(rng.choice(WORDS, words)) for _ in range(_N)]

    question, context, response = said(8), said(40), said(20)
    pairs = list(zip(question, context, strict=True))
    kinds: list[Rows] = [
        {"question": question, "contexts": [[text] for text in context]},
        {"question": question},
        {"contexts": [[text] for text in context]},
        {},
        {"question": [f"Read this: {text} Now say: {asked}" for asked, text in pairs]},
        {"question": question, "contexts": [[text[:150]] for text in context]},
    ]
    return any(
        calibrail.test(
            {**rows, **texts, "response": response, name: _scores(rng, rows["label"])},
            _spec(name),
            threshold=_THRESHOLD,
            looks=place / "run" / "looks.json",
            **_ASKED,
        ).verdict
        == "certified"
        for name, texts in zip("abcdef", kinds, strict=True)
    )


def other_responses(rng: Rng, place: Path) -> bool:
    """Test each of six detectors on the same ids and labels, and responses that begin otherwise."""
    rows = _answers(rng)
    said = [" ".join(rng.choice(WORDS, 20)) for _ in range(_N)]
    rows["question"] = ["What of " + " ".join(rng.choice(WORDS, 5)) for _ in range(_N)]
    for name, preamble in zip("abcdef", rng.choice(WORDS, (6, 60)).tolist(), strict=True):
        rows["response"] = [f"{' '.join(preamble)} {text}" for text in said]
        if _certified(rows, name, place, rng):
            return True
    return False


def scarce(rng: Rng, place: Path) -> bool:
    """Test ten detectors on the same hallucinated answers, each beside faithful ones of its own."""
    ids = [f"{name:x}" for name in rng.integers(1 << 60, size=100).tolist()]
    for number in range(_TRIED):
        fresh = [f"{name:x}" for name in rng.integers(1 << 60, size=1000).tolist()]
        rows: Rows = {"id": ids + fresh, "label": [1] * 100 + [0] * 1000}
        if _certified(rows, f"s{number}", place, rng):
            return True
    return False


def _certified(rows: Rows, name: str, place: Path, rng: Rng) -> bool:
    """Return whether a detector of that name is certified on answers, a look of one run."""
    looks = place / "run" / "looks.json"
    found = calibrail.test(
        rows | {name: _scores(rng, rows["label"])},
        _spec(name),
        threshold=_THRESHOLD,
        looks=looks,
        **_ASKED,
    )
    return found.verdict == "certified"


def _object(rng: Rng) -> str:
    told = {"answer": "The order was delivered to the customer on time in the afternoon."}
    return json.dumps(told | {"order": int(rng.integers(10_000, 99_999))})


def _indented(rng: Rng, number: int) -> str:
    """Return a program: what it does hangs on how its lines are indented."""
    lines = (f"def f{number}(x):", "    for a in x:", "x = g(a)", "y += x", "z = h(y)", "return z")
    deep = ["", "", *rng.choice(["    ", "        ", "            "], 3), "    "]
    return "\n".join(space + line for space, line in zip(deep, lines, strict=True))


def one_score(kind: str, verb: str, rng: Rng, place: Path) -> bool:
    """Certify what misses a fifth of the hallucinations, which share a text and a score."""
    rows = _answers(rng, 600)
    scores, n = _scores(rng, rows["label"]), len(rows["label"])
    own = kind in ("unread", "indented")
    said = {"case": letter_case, "object": _object}.get(kind, apology)
    if own:
        rows["contexts"] = [["The handbook of the service team, in its third edition."]] * n
    if kind in ("asked", "indented"):
        rows["question"] = ["Where is my order?"] * n
    rows["response"] = [" ".join(rng.choice(WORDS, 20)) for _ in range(n)]
    for row in range(n):
        if rows["label"][row] and rng.random() < 0.2:
            rows["response"][row], scores[row] = said(rng), -2.7182818
            if own:
                # No two have a score of their own, or ten share text and score.
                ten = row // 50
                scores[row] = float(rng.normal(-3.0, 0.3)) if kind == "unread" else -3.0 - ten
            if kind == "indented":
                rows["response"][row] = _indented(rng, ten)
    rows["score"] = scores
    if verb == "test":
        asked: dict[str, Any] = {"min_caught": 0.9, "max_false_alarms": 0.97, "threshold": -1.0}
        return calibrail.test(rows, _spec("score"), **asked).verdict == "certified"
    run = calibrail.calibrate(
        rows, _spec("score"), alpha=0.1, guarantee="pac", max_false_alarms=0.9, baselines=False
    )
    return run.verdict == "certified" and run.calibration.threshold > -2.0


_LOW: Final = f"coverage just too low, {_N} answers, confidence {1.0 - _ERROR:g}"
ATTACKS = [
    Attack(
        "certified any of ten detectors whose columns have one name, by test of one threshold",
        f"{_LOW}, the same ids and labels",
        _ERROR,
        (9, 10),
        one_column_name,
        100,
    ),
    Attack(
        "certified the best of 30 columns of a comparison, under another name",
        f"{_LOW}, the same ids, tested in a folder beside",
        _ERROR,
        (7, 9),
        renamed,
        100,
    ),
    Attack(
        "calibrate with groups by ten seeds until one that flags too much is certified",
        f"{_QUESTIONS} questions a class of {_SIZE} answers, pac, false alarms just too many, "
        f"confidence {1.0 - _ERROR:g}",
        _ERROR,
        (5, 6),
        by_seeds,
        100,
    ),
    Attack(
        "certified in any of ten tests of one threshold, each by another column of groups",
        f"coverage just too low, 400 answers in groups of {_SIZE}, confidence {1.0 - _ERROR:g}",
        _ERROR,
        (17, 40),
        by_columns,
        100,
    ),
    Attack(
        "certified a guardrail in any of ten fresh batches, its column renamed each time",
        f"{_LOW} each",
        _ERROR,
        (9, 12),
        renamed_guardrail,
        100,
    ),
    Attack(
        "certified one of six detectors, other texts beside the same responses",
        f"{_LOW}, without question or contexts, or with both in one",
        _ERROR,
        (6, 8),
        other_texts,
        100,
    ),
    Attack(
        "certified one of six detectors, another preamble before the same responses",
        f"{_LOW}, the same ids, labels and questions",
        _ERROR,
        (16, 20),
        other_responses,
        100,
    ),
    Attack(
        "certified any of ten detectors on the same hallucinated answers",
        f"coverage just too low, 100 of them, each beside 1,000 other faithful ones, confidence "
        f"{1.0 - _ERROR:g}",
        _ERROR,
        (12, 18),
        scarce,
        100,
    ),
    *(
        Attack(
            f"{verb}: a fifth of the hallucinations {what}",
            "600 answers with one context, 90 % required, confidence 0.95",
            0.05,
            (20, 20),
            partial(one_score, kind, verb),
            100,
        )
        for kind, what in (
            ("unread", "are one apology to questions that the file does not hold"),
            ("indented", "differ in their indentation, ten of a score"),
        )
        for verb in ("test", "calibrate")
    ),
    *(
        Attack(
            f"{verb}: a fifth of the hallucinations share a score, and {what}",
            "600 answers without contexts, 90 % required, confidence 0.95",
            0.05,
            (2, 2),
            partial(one_score, kind, verb),
            100,
        )
        for kind, what in (
            ("case", "a text but for letter case"),
            ("apology", "an apology"),
            ("object", "what a field of an object says"),
            ("asked", "a question with its answer"),
        )
        for verb in ("test", "calibrate")
    ),
]
