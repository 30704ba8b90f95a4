"""Is it enough, and no more than that, to label as many answers as a message says?"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import calibrate, compare, diagnose
from calibrail.conformal.power import plan
from calibrail.data.splits import CALIBRATION, apportioned, groups_to_add
from calibrail.errors import CalibrailError, TooFewExamplesError
from calibrail.labelling.session import hallucinated_needed
from calibrail.options import Promise, SplitOptions
from calibrail.pipelines.certify import certify
from calibrail.pipelines.shift import shift
from calibrail.report.documents.next_steps import label_anew, next_step

SCORE = "column:column=s,higher=hallucinated"


def rows(n_wrong: int, n_right: int, *, seed: int = 0, per: int = 1) -> list[dict[str, Any]]:
    """Return answers with a score, ``per`` of them in each group."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation([1] * n_wrong + [0] * n_right).tolist()
    return [
        {
            "id": f"{seed}-{k}",
            "group": f"{seed}-{k // per}",
            "response": f"It says that {seed * 1000 + k} is {rng.integers(10**9)}.",
            "label": label,
            "s": float(rng.normal(1.5 * label)),
            "part": ("calibration", "test")[k % 2],
            "site": "ab"[k % 3 == 0],
        }
        for k, label in enumerate(labels)
    ]


def marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers with spans in place of their labels."""
    return [
        {**{name: row[name] for name in ("id", "group", "response")}, "contexts": ["It says."]}
        | {"spans": [[0, len(row["response"])]] if row["label"] else []}
        for row in rows
    ]


def asked(error: CalibrailError) -> int:
    found = re.search(r"Label (?:answers of )?([\d,]+) more", str(error))
    assert found, error
    return int(found[1].replace(",", ""))


def split(**options: Any) -> dict[str, Any]:
    return {"splitting": SplitOptions(**options)}


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "one": {"n": 1},
    "odd": {"n": 9, **split(seed=3)},
    "pac": {"guarantee": "pac", "alpha": 0.2},
    "anytime": {"guarantee": "anytime", "alpha": 0.2},
    "small share": {"alpha": 0.1, **split(calibration_share=0.3)},
    "large share": split(calibration_share=0.8, seed=7),
    "fit share": split(fit_share=0.4),
    "groups": {"per": 3, "alpha": 0.1},
    "groups, pac": {"per": 4, "alpha": 0.2, "guarantee": "pac", **split(calibration_share=0.7)},
    "groups as they are": {"per": 3, "assume_independent": True},
    "by": {"by": "site", "alpha": 0.1},
    "by, groups": {"by": "site", "alpha": 0.1, "per": 2},
    "clustered": {"clustered": True, "alpha": 0.1},
    "column": split(column="part"),
    "review": {"n": 60, "n_right": 9, "alpha": 0.2, "beta": 0.1},
    "review, groups": {"n": 60, "n_right": 20, "alpha": 0.2, "beta": 0.05, "per": 3},
    "undefined": {"undefined": "pass", "alpha": 0.1},
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_number_that_calibrate_names_is_enough_and_no_less_is(setting: dict[str, Any]) -> None:
    options = {"alpha": 0.05, "baselines": False, **setting}
    n, n_right, per = (options.pop(name, least) for name, least in _SIZES.items())
    few = rows(n, n_right, per=per)
    with pytest.raises(TooFewExamplesError) as refused:
        calibrate(few, SCORE, **options)
    more = asked(refused.value)
    wrong = refused.value.of != "faithful"
    further = rows(more * wrong, more * (not wrong), seed=1)
    by_column = options.get("splitting", SplitOptions()).column is not None
    if by_column:
        further = [row | {"part": "calibration"} for row in further]
        assert "for the calibration set" in str(refused.value)
    assert calibrate([*few, *further], SCORE, **options).calibration.threshold > -np.inf
    if not options.get("assume_independent"):  # Else a group may bring several at once.
        with pytest.raises(TooFewExamplesError):
            calibrate([*few, *further[1:]], SCORE, **options)


@pytest.mark.parametrize("shares", [(0.0, 0.5, 0.5), (0.4, 0.3, 0.3), (0.0, 0.07, 0.93)])
def test_the_number_for_a_split_is_the_least_one_and_comes_at_once(shares: Any) -> None:
    parts = np.array(shares)
    for n in (0, 1, 10, 37):
        for least in range(1, 25):
            plain = (k for k in range(1000) if apportioned(n + k, parts)[CALIBRATION] >= least)
            assert groups_to_add(n, least, shares) == next(plain)
    assert groups_to_add(0, 10**9, shares) > 10**9


def test_shift_says_where_the_labels_that_it_lacks_count() -> None:
    few = rows(12, 40)
    with pytest.raises(TooFewExamplesError, match="where the threshold is set") as refused:
        shift(few, SCORE, by="site", alpha=0.05)
    side = re.search(r"all but ([ab])", str(refused.value))
    assert side
    further = [row | {"site": "b" if side[1] == "a" else "a"} for row in rows(99, 0, seed=1)]
    more = asked(refused.value)
    assert shift([*few, *further[:more]], SCORE, by="site", alpha=0.05).to_dict()["tests"]
    with pytest.raises(TooFewExamplesError):
        shift([*few, *further[: more - 1]], SCORE, by="site", alpha=0.05)


_SIZES = {"n": 5, "n_right": 40, "per": 1}


def test_a_comparison_and_sentences_ask_for_as_many() -> None:
    few, options = rows(5, 40), {"alpha": 0.1, "baselines": False}
    (reason,) = compare(few, SCORE, **options).comparison.uncalibrated.values()
    more = asked(CalibrailError(str(reason)))
    assert not compare([*few, *rows(more, 0, seed=1)], SCORE, **options).comparison.uncalibrated
    with pytest.raises(TooFewExamplesError) as refused:
        calibrate(marked(few), "novelty", unit="sentence", **options)
    assert asked(refused.value) == more
    further = marked(rows(more, 0, seed=1))
    assert calibrate([*marked(few), *further], "novelty", unit="sentence", **options).calibration


@pytest.mark.parametrize("command", [calibrate, compare])
def test_too_few_labels_are_no_look_at_those_that_come(tmp_path: Path, command: Any) -> None:
    looks, options = tmp_path / "looks.json", {"alpha": 0.1, "baselines": False}
    few = rows(5, 40)
    with nullcontext() if command is compare else pytest.raises(TooFewExamplesError):
        command(few, SCORE, looks=looks, **options)
    assert not any(json.loads(looks.read_text())["questions"].values())
    enough = [*few, *rows(100, 100, seed=1)]
    (report,) = reports(command(enough, SCORE, looks=looks, **options))
    assert report.looks == ()
    # What has shown a verdict stays a look.
    with suppress(TooFewExamplesError):
        command(enough, SCORE, looks=looks, **{**options, "alpha": 0.001})
    (report,) = reports(command(enough[1:], SCORE, looks=looks, **options))
    assert [look["n"] for look in report.looks] == [len(enough)]


def reports(run: Any) -> list[Any]:
    return [run.report] if hasattr(run, "report") else [one for _, one in run.comparison.detectors]


@pytest.mark.parametrize("per", [1, 3])
def test_doctor_says_how_many_more_each_promise_takes(per: int) -> None:
    few = rows(7, 40, per=per)
    for item in diagnose(few).to_dict()["supports"]:
        if not item["possible"] and item["to_label"] < 100:
            options = {"alpha": item["alpha"], "guarantee": item["guarantee"], "baselines": False}
            if item["guarantee"] == "pac":
                options["max_fpr"] = 0.9
            further = rows(item["to_label"], 0, seed=1)
            calibrate([*few, *further], SCORE, **options)
            with pytest.raises(TooFewExamplesError):
                calibrate([*few, *further[1:]], SCORE, **options)


@pytest.mark.parametrize(("alpha", "guarantee"), [(0.05, "marginal"), (0.2, "pac"), (0.1, "pac")])
def test_plan_and_label_count_the_half_that_tests(alpha: float, guarantee: Any) -> None:
    promise = Promise(alpha, guarantee)
    labels = plan(promise, base_rate=0.4).minimum_labels
    assert labels is not None
    needed = hallucinated_needed(promise)
    for n in (round(0.4 * labels[guarantee]), needed):
        calibrate(rows(n, 40), SCORE, promise, baselines=False)
    with pytest.raises(TooFewExamplesError):
        calibrate(rows(needed - 1, 40), SCORE, promise, baselines=False)


@pytest.mark.parametrize(
    ("guarantee", "alpha", "max_fpr", "apart", "seed", "min_coverage", "share"),
    [
        ("marginal", 0.1, 0.45, 1.5, 1, None, None),
        ("marginal", 0.2, 0.2, 1.5, 1, 0.75, None),
        # The report proves coverage by its construction, and certify must show it by a sample.
        ("pac", 0.1, 0.67, 1.5, 0, None, 0.5),
        ("pac", 0.2, 0.22, 2.0, 0, 0.75, 0.5),
        ("pac", 0.2, 0.35, 1.5, 2, 0.75, None),
    ],
)
def test_new_answers_as_a_verdict_asks_for_settle_it(
    guarantee: Any,
    alpha: float,
    max_fpr: float,
    apart: float,
    seed: int,
    min_coverage: Any,
    share: float | None,
) -> None:
    rng = np.random.default_rng(seed)
    source = [
        {"id": f"x{k}", "label": int(k < 120), "s": float(rng.normal(apart * (k < 120)))}
        for k in range(320)
    ]
    options = {"max_fpr": max_fpr, "min_coverage": min_coverage}
    run = calibrate(
        source,
        SCORE,
        alpha=alpha,
        guarantee=guarantee,
        baselines=False,
        **options,
        **split(seed=seed, calibration_share=share),
    )
    report, threshold = run.report.to_dict(), run.calibration.threshold
    assert run.verdict == "inconclusive"
    level = report["confidence"] if guarantee == "pac" else None
    n, k = report["n_calibration"], report["rank"]
    whole = guarantee == "pac" and share is None
    certificate = report["certificate"]
    if whole:
        # About so much is caught of new answers.
        seen = {"count": n - k, "n": n, "estimate": 1.0 - k / n}
        certificate = {**certificate, "coverage": seen}
    advice = label_anew(certificate, confidence=level)
    assert advice is not None
    assert not whole or " and ".join(advice[1]["wanted"]) in next_step(report)
    sides = certificate["coverage"], certificate["fpr"]
    fresh, wanted = [], {}
    for item in advice[1]["wanted"]:
        number, name = item.split()[:2]
        wanted[name] = int(number.replace(",", ""))
    # Where one class alone decides, as many of the other as there were.
    for label, name, side in zip((1, 0), ("hallucinated", "faithful"), sides, strict=True):
        n = wanted.get(name, side["n"])
        signs = np.where(np.arange(n) < round(side["estimate"] * n), 1.0, -1.0)
        values = threshold + signs * (1.0 + np.arange(n) / n)
        fresh += [{"id": f"{label}-{k}", "label": label, "s": v} for k, v in enumerate(values)]
    # Who declares that this is the only look has all of the error for it.
    made = certify(run.freeze(), fresh, n_looks=1, **options)
    assert made.to_dict()["verdict"] == advice[1]["verdict"] != "inconclusive"
