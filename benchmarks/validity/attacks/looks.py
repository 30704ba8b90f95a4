"""Looks: again and again, with other limits, other data, other seeds, or the same data rescored."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibrail
from calibrail import Guardrail
from calibrail.options import Promise, Requirement, SplitOptions

from ..from_files.certificates import frozen
from ..from_files.files import ALONE, SCORE, Answers
from .attack import Attack, Try

#: Answers of one look.
_N: Final = 240
_LITTLE: Final = 1e-6
_PROMISE: Final = Promise(alpha=0.2, guarantee="pac", delta=0.1, allow_flag_all=True)
_LIMIT: Final = Requirement(0.6, 0.8)


@lru_cache
def _guardrail() -> Guardrail:
    """Return one guardrail, whose true rates are known, for all attempts."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return frozen(Path(folder), ALONE, np.random.default_rng(0))


def _rates() -> tuple[float, float]:
    threshold = _guardrail().calibration.threshold
    return ALONE.coverage(threshold), ALONE.fpr(threshold)


def _rows(answers: Answers) -> dict[str, Any]:
    return {"id": answers.names, "label": answers.labels, "s0": answers.scores[0]}


def _certify(answers: Answers, limits: Requirement, place: Path) -> Any:
    guardrail, rows = _guardrail(), _rows(answers)
    return calibrail.certify(guardrail, rows, limits, looks=place / "guardrail.looks.json")


def limits_read_off(rng: np.random.Generator, place: Path) -> bool:
    """Certify the same answers again with the limits that the first look showed."""
    answers, (coverage, fpr) = ALONE.draw(rng, _N), _rates()
    shown = _certify(answers, Requirement(0.95, 0.1), place).certificate
    limits = Requirement(shown.fpr_at_most, shown.coverage_at_least)
    again = _certify(answers, limits, place)
    broken = coverage < shown.coverage_at_least or fpr > shown.fpr_at_most
    return bool(again.verdict == "certified" and broken)


def _again(looks: int, *, grows: bool, good: bool, declared: bool = False) -> Try:
    """Return an attempt to get the wrong verdict in one of several looks."""

    def attempt(rng: np.random.Generator, place: Path) -> bool:
        coverage, fpr = _rates()
        limits = Requirement(0.95, coverage + _LITTLE)
        if good:
            limits = Requirement(fpr + _LITTLE, coverage - _LITTLE)
        if declared:
            limits = replace(limits, n_looks=looks)
        answers = ALONE.draw(rng, _N)
        for step in range(1, looks + 1):
            batch = answers.first(_N * step // looks) if grows else ALONE.draw(rng, _N)
            verdict = _certify(batch, limits, place).verdict
            if verdict == ("rejected" if good else "certified"):
                return True
        return False

    return attempt


#: Ways in which the same answers come back: what is written for a score, and the score of that.
_RESCORED: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any], bool]]] = {
    "scores moved by 1e-9": (lambda s: s * (1.0 + 1e-9), lambda s: s, False),
    "four digits": (lambda s: np.array([float(f"{x:.4g}") for x in s]), lambda s: s, False),
    "new ids": (lambda s: s * (1.0 + 1e-9), lambda s: s, True),
    "a monotone transform": (np.exp, np.log, True),
}


def _rescored(way: str, *, good: bool = False) -> Try:
    """Return an attempt to get the wrong verdict by another seed on the same answers, rescored."""
    change, back, anew = _RESCORED[way]

    def attempt(rng: np.random.Generator, place: Path) -> bool:
        answers = ALONE.draw(rng, 2 * _N)
        limit = _LIMIT
        if good:
            at = ALONE.quantile(0.15)
            limit = Requirement(ALONE.fpr(at), 0.85)
        for seed in range(8):
            rows = _rows(answers)
            if seed:
                rows["s0"] = change(rows["s0"])
                if anew:
                    rows["id"] = [f"{seed} {name}" for name in rng.permutation(rows["id"])]
            promise = replace(_PROMISE, alpha=0.15, guarantee="marginal") if good else _PROMISE
            run = calibrail.calibrate(
                rows,
                SCORE,
                promise,
                limit,
                splitting=SplitOptions(seed=seed),
                looks=place / "looks.json",
            )
            threshold = run.calibration.threshold
            meets = ALONE.meets(float(back(threshold)) if seed else threshold, limit)
            if run.verdict == ("rejected" if good else "certified") and meets == good:
                return True
        return False

    return attempt


ATTACKS = [
    Attack(
        "certify with the limits that the first look showed",
        f"{_N} answers",
        0.05,
        (1, 1),
        limits_read_off,
        1000,
    ),
    Attack(
        "certified in any of six fresh batches",
        f"coverage just too low, {_N} answers each",
        0.05,
        (1, 1),
        _again(6, grows=False, good=False),
    ),
    Attack(
        "certified in any of six declared looks",
        f"coverage just too low, {_N} answers each; undeclared before",
        0.05,
        (1, 1),
        _again(6, grows=False, good=False, declared=True),
    ),
    Attack(
        "rejected in any of eight looks at data that grows",
        f"both limits just met, {_N} answers",
        0.05,
        (1, 1),
        _again(8, grows=True, good=True),
    ),
    *(
        Attack(
            f"certified by any of eight seeds, {way}",
            f"pac, {2 * _N} answers",
            0.125,
            (1, 1),
            _rescored(way),
            200,
        )
        for way in _RESCORED
    ),
    Attack(
        "rejected by any of eight seeds",
        f"marginal, both limits just met by some thresholds, {2 * _N} answers",
        0.05,
        (1, 1),
        _rescored("scores moved by 1e-9", good=True),
        200,
    ),
]
