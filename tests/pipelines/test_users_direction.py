"""Is what a result shows of a score in its user's own numbers and direction?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Guardrail, audit, calibrate, card, compare, select
from calibrail.evaluation import Report
from calibrail.pipelines.shift import shift

#: Values near 130: one with a sign before it is the internal number.
INTERNAL = re.compile(r"(?:-|\N{MINUS SIGN})1[0-9]{2}\b")
MIRRORS: dict[str, Callable[[float], float]] = {
    "minus": lambda value: -value,
    "rest": lambda value: round(300.0 - value, 2),
}
EDGES = {"threshold", "shared_threshold", "pass_below", "flag_above"}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"max_fpr": 0.6},
    "pac": {"guarantee": "pac"},
    "by": {"by": "site"},
    "review": {"beta": 0.2},
    "risks": {"risks": ["recall>=0.5", "fpr<=0.8"]},
    "everything": {"alpha": 0.001, "allow_flag_all": True},
}


def rows(mirror: Callable[[float], float]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    drawn = []
    for k in range(300):
        label = int(rng.random() < 0.45)
        bad = round(130.0 + 9.0 * label + 8.0 * float(rng.normal()), 2)
        row = {"id": f"a{k}", "response": f"It is {k}.", "label": label, "site": "xy"[k % 2]}
        drawn.append({**row, "bad": bad, "good": mirror(bad)})
    return drawn


def edges(content: Any, path: str = "") -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield every threshold in JSON, and what stands beside it."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name in EDGES and not isinstance(value, dict):
                yield f"{path}.{name}", value, content
            yield from edges(value, f"{path}.{name}")
    elif isinstance(content, list | tuple):
        for item in content:
            yield from edges(item, path)


def alone(content: Any) -> set[str]:
    """Return the names of internal numbers that have none of the column beside them."""
    if isinstance(content, list | tuple):
        return set().union(*map(alone, content))
    if not isinstance(content, dict):
        return set()
    names = set[str]()
    for name, value in content.items():
        if name.startswith("column_"):
            continue
        values = value if isinstance(value, list) else [value]
        if any(isinstance(item, float) and item < -90.0 for item in values):
            names |= {name} - {beside.removeprefix("column_") for beside in content}
        names |= alone(value)
    return names


@pytest.fixture(scope="module", params=MIRRORS)
def answers(request: pytest.FixtureRequest) -> tuple[list[dict[str, Any]], Any]:
    return rows(MIRRORS[request.param]), MIRRORS[request.param]


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_a_mirrored_score_is_shown_in_its_own_numbers_and_decides_alike(
    answers: tuple[list[dict[str, Any]], Any], setting: dict[str, Any], tmp_path: Path
) -> None:
    source, mirror = answers
    options = {"alpha": 0.2, "baselines": False, **setting}
    bad, good = (
        calibrate(source, f"column:column={name},higher={way}", **options)
        for name, way in (("bad", "hallucinated"), ("good", "faithful"))
    )
    ours, theirs = bad.calibration, good.calibration
    everything = np.isinf(ours.threshold)
    assert theirs.threshold == (np.inf if everything else mirror(ours.threshold))
    assert theirs.scores.tolist() == sorted(map(mirror, ours.scores.tolist()))
    values = np.array([row["bad"] for row in source])
    mirrored = np.array([row["good"] for row in source])
    assert (ours.flags(values) == theirs.flags(mirrored)).all()
    assert (ours.p_value(values) == theirs.p_value(mirrored)).all()
    assert (ours.rank, ours.n, ours.promise) == (theirs.rank, theirs.n, theirs.promise)

    guardrails = bad.freeze(), good.freeze()
    guardrails[1].save(tmp_path / "g.json")
    assert Guardrail.load(tmp_path / "g.json").calibration.threshold == theirs.threshold
    for row in source[:40]:
        one, other = (item.check(columns=row) for item in guardrails)
        assert (one.outcome, one.p_value) == (other.outcome, other.p_value)
        assert other.column_value == row["good"]
        if one.threshold is not None and np.isfinite(one.threshold):
            assert other.column_threshold == mirror(one.threshold)

    if not everything and "by" not in setting:
        edge = bad.report.threshold
        assert edge is not None
        for result, name, side, at in (
            (bad, "bad", ("at least", "below"), edge),
            (good, "good", ("at most", "above"), mirror(edge)),
        ):
            shown = f"{name} is {side['beta' in setting]} {float(at)!r}"
            assert shown in repr(result) and shown in repr(result.report), repr(result)
            if "beta" not in setting:
                assert f"{name} is {side[0]} {at:.6g}" in repr(result.freeze())

    content = good.report.to_dict()
    for path, value, beside in edges(content):
        if "baselines" not in path and "near_duplicates" not in path:
            column = beside[f"column_{path.rpartition('.')[2]}"]
            assert column == (None if value is None else -value), path
    if mirror(1.0) != -1.0:
        made = card(guardrails[1])
        texts = [repr(good), repr(guardrails[1]), repr(theirs), good.markdown(), made.markdown()]
        texts += [good._repr_html_(), guardrails[1]._repr_html_()]
        texts += [repr(guardrails[1].check(columns=source[0]))]
        for text in texts:
            assert not INTERNAL.search(re.sub(r"<svg.*?</svg>", "", text, flags=re.S)), text


def test_what_other_commands_write_has_the_number_of_the_column(
    answers: tuple[list[dict[str, Any]], Any],
) -> None:
    source, mirror = answers
    score = "column:column=good,higher=faithful"
    tests = shift(source, score, by="site", alpha=0.2).to_dict()["tests"]
    known = [(path, value, beside) for path, value, beside in edges(tests)]
    assert len(known) >= 4
    assert all(
        beside[f"column_{path[1:].split('.')[-1]}"] == -value for path, value, beside in known
    )
    scores = [score, "column:column=bad,higher=hallucinated"]
    audited = audit(source, score, geometry=False).to_dict()
    tenth = audited["detectors"][0]["reliability"]["deciles"][0]
    assert tenth["column_upper"] == -tenth["lower"]
    report = calibrate(source, scores, alpha=0.2, baselines=False).report.to_dict()
    assert report["curve"]["column_thresholds"] == [-t for t in report["curve"]["thresholds"]]
    assert Report.from_dict(report).to_dict() == report
    compared = compare(source, scores, alpha=0.2, baselines=False)
    content = compared.to_dict()
    assert content["alpha_sweep"][3]["rows"][0]["column_threshold"] is not None
    assert not alone([audited, report, content])
    compared = compare(source, score, alpha=0.2, baselines=False)
    assert compared.to_dict()["detectors"][0]["column_threshold"] == mirror(
        calibrate(source, "column:column=bad,higher=hallucinated", alpha=0.2).calibration.threshold
    )
    guardrail = calibrate(source, score, alpha=0.2, baselines=False).freeze()
    fresh = [row | {"id": f"new-{row['id']}", "response": f"New: {row['id']}."} for row in source]
    for item, row in zip(select(guardrail, fresh, fdr=0.3).items(), fresh, strict=True):
        assert (item["column"], item["column_value"]) == ("good", row["good"])
        assert item["score"] == -row["good"]


def test_the_sweep_of_a_score_that_cannot_be_calibrated_has_the_number_of_the_column(
    answers: tuple[list[dict[str, Any]], Any],
) -> None:
    source, _ = answers
    scores = ["column:column=good,higher=faithful", "column:column=bad,higher=hallucinated"]
    rows = [{**row, "good": None} if k % 12 == 0 else row for k, row in enumerate(source)]
    content = compare(rows, scores, alpha=0.02, undefined="pass", baselines=False).to_dict()
    assert [item["name"] for item in content["uncalibrated"]] == ["good"]
    known = [row for entry in content["alpha_sweep"] for row in entry["rows"]]
    assert any(row["name"] == "good" and row["threshold"] for row in known)
    assert not alone(content)
