"""Is a stream that differs from the labelled answers found out from its first row on?"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrail
from calibrail import Example, Guardrail
from calibrail.errors import DataError, GuardrailError
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.file import MOST_SKETCHED, FrozenConfig, TrafficSketch, render
from calibrail.guardrail.file import content_digest as digest_of
from calibrail.monitoring.history import Rows
from calibrail.monitoring.monitor import Monitor, labelled_rows
from calibrail.monitoring.prevalence import possible_share
from calibrail.options import SplitOptions, WatchOptions
from calibrail.pipelines import run as runs
from tests.command_line import calibrail as run_command
from tests.pipelines.logs import entries, unsketched

RISK = "column:column=risk,higher=hallucinated"


def answers(
    rng: np.random.Generator, n: int, rate: float, *, worse: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and risks; hallucinated ones are two standard deviations higher, less worse."""
    labels = (rng.random(n) < rate).astype(int)
    return labels, rng.normal((2.0 - worse) * labels, 1.0).round(3)


def calibrated(labels: np.ndarray, risks: np.ndarray, **options: Any) -> Guardrail:
    rows = [
        Example(id=f"c{row}", label=int(label), columns={"risk": float(risk)})
        for row, (label, risk) in enumerate(zip(labels, risks, strict=True))
    ]
    asked = {"alpha": 0.1, "max_fpr": 0.6} if len(rows) > 100 else {"alpha": 0.2}
    return calibrail.calibrate(rows, RISK, **asked, **options).freeze()


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    """A guardrail whose labelled answers were drawn at random: three in ten are hallucinated."""
    return calibrated(*answers(np.random.default_rng(0), 1_500, 0.3))


def watched(guardrail: Guardrail, risks: np.ndarray, **options: Any) -> dict[str, Any]:
    rows = Rows.of(risks, risks > 1.0)
    return Monitor(guardrail, **options).update(rows).traffic()


def test_the_file_holds_what_the_labelled_answers_look_like_and_no_text() -> None:
    run = calibrail.calibrate("example:facts", score="novel_count", alpha=0.1)
    config = run.freeze().config
    sketch = config.traffic
    assert sketch is not None and sketch.base_rate is None
    assert run.table is not None
    # One answer of each group, of both classes.
    assert len(sketch.score) == len({*run.table.groups.to_pylist()})
    assert 0.3 < np.mean(sketch.hallucinated) < 0.7
    assert {"en"} <= {*sketch.language} and all(n and n > 0 for n in sketch.chunks)
    measured = {len(item.response) for item in calibrail.read("example:facts")}
    assert {*sketch.response} <= measured
    words = [text for item in [*calibrail.read("example:facts")][:50] for text in item.contexts]
    assert not any(text in json.dumps(sketch.model_dump()) for text in words)


def test_the_largest_sketch_takes_less_than_64_kilobytes() -> None:
    n = MOST_SKETCHED
    sketch = TrafficSketch(
        hallucinated=[1] * n,
        score=[-1.2345678901234567e-100] * n,
        question=[1_000_000] * n,
        response=[1_000_000] * n,
        chunks=[1_000] * n,
        language=["en"] * n,
    )
    assert len(json.dumps(sketch.model_dump(), separators=(",", ":"))) < 65_536


def test_which_answers_are_sketched_does_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random(1_700) < 0.4).astype(int)
    # Coarse scores: hundreds of rows share all that they hold.
    risks = labels + rng.integers(0, 4, 1_700) / 2.0
    rows = [
        Example(response=f"a{row}", label=int(label), columns={"risk": float(risk)})
        for row, (label, risk) in enumerate(zip(labels, risks, strict=True))
    ]
    sketches = []
    for order in (rows, rows[::-1]):
        config = calibrail.calibrate(order, RISK, alpha=0.1).freeze().config
        assert config.traffic is not None
        sketches.append(config.traffic)
    assert sketches[0] == sketches[1] and len(sketches[0].score) == MOST_SKETCHED
    bare = calibrated(labels, risks).config.traffic
    assert bare is not None
    drawn = [bare.score.count(value) / MOST_SKETCHED for value in np.unique(risks)]
    share = [float(np.mean(risks == value)) for value in np.unique(risks)]
    assert np.allclose(drawn, share, atol=0.05)


def test_answers_that_taught_the_detector_are_none_of_them() -> None:
    run = calibrail.calibrate(
        "example:facts", "fused", alpha=0.2, splitting=SplitOptions(fit_share=0.5)
    )
    assert run.traffic is not None and run.table is not None
    assert len(run.traffic.score) <= 0.6 * len({*run.table.groups.to_pylist()})


def test_a_stream_that_differs_from_its_first_row_on_is_found(guardrail: Guardrail) -> None:
    rng = np.random.default_rng(2)
    other = answers(rng, 2_000, 0.3, worse=1.5)[1]
    traffic = watched(guardrail, other)
    (alarm,) = traffic["alarms"]
    assert traffic["alarm"] and traffic["n_alarms"] == 1 and traffic["feature"] == "score"
    assert alarm["against"] == "calibration" and alarm["since"]["lower"]["row"] == 0
    assert traffic["calibration"]["alarm"]["row"] == alarm["row"] < 1_000
    assert traffic["calibration"]["n"] == MOST_SKETCHED
    # Its own beginning is no different, so that nothing else would tell.
    assert not watched(unsketched(guardrail), other)["alarm"]
    alike = watched(guardrail, answers(rng, 2_000, 0.3)[1])
    assert not alike["alarm"] and alike["calibration"]["alarm"] is None
    assert alike["calibration"]["now"]["score"] > 0.0


def test_a_later_change_is_told_by_both(guardrail: Guardrail) -> None:
    rng = np.random.default_rng(3)
    stream = np.concatenate([answers(rng, 1_600, 0.3)[1], rng.normal(4.0, 1.0, 900)])
    traffic = watched(guardrail, stream)
    assert sorted(alarm["against"] for alarm in traffic["alarms"]) == ["calibration", "stream"]
    rows = [alarm["row"] for alarm in traffic["alarms"]]
    assert rows == sorted(rows) and all(1_600 < row < 1_800 for row in rows)
    assert traffic["e_value"] == traffic["alarms"][-1]["e_value"]


def test_answers_drawn_by_label_count_by_the_base_rate() -> None:
    rng = np.random.default_rng(4)
    even = calibrated(np.repeat([0, 1], 400), rng.normal(np.repeat([0.0, 2.0], 400), 1.0).round(3))
    stream = answers(rng, 2_000, 0.05)[1]
    assert watched(even, stream)["alarm"]
    traffic = watched(even, stream, base_rate=0.05)
    assert not traffic["alarm"] and traffic["calibration"]["base_rate"] == 0.05
    assert 350 < traffic["calibration"]["n"] < 421
    assert watched(even, answers(rng, 2_000, 0.05, worse=-3.0)[1] - 0.7, base_rate=0.05)["alarm"]


def test_a_base_rate_that_costs_were_given_for_is_kept() -> None:
    labels, risks = answers(np.random.default_rng(5), 600, 0.5)
    rows = [
        {"id": f"c{k}", "label": int(a), "risk": float(b)}
        for k, (a, b) in enumerate(zip(labels, risks, strict=True))
    ]
    run = calibrail.calibrate(rows, RISK, cost_miss=20, cost_alarm=1, base_rate=0.1)
    config = run.freeze().config
    assert config.traffic is not None and config.traffic.base_rate == 0.1
    monitor = Monitor(config)
    assert monitor.traffic()["calibration"]["base_rate"] == 0.1
    run = calibrail.calibrate(rows, RISK, cost_miss=20, cost_alarm=1)
    kept = run.freeze().config.traffic
    assert kept is not None and kept.base_rate is None


def test_the_thinned_answers_are_a_draw_of_the_base_rate() -> None:
    labels = [1] * 500 + [0] * 500
    nothing: list[Any] = [None] * 1_000
    columns = dict.fromkeys(("question", "response", "chunks", "language"), nothing)
    sketch = TrafficSketch(hallucinated=labels, score=[float(x) for x in labels], **columns)
    shares, places = [], np.zeros(400)
    for seed in range(300):
        rows = labelled_rows(sketch, WatchOptions(base_rate=0.2, seed=seed))
        assert rows is not None
        shares.append(rows.score.sum())
        places += rows.score[:400]
    n = len(rows)
    assert 500 < n < 600
    # Their number varies as that of as many answers of traffic does, and they lie anywhere.
    assert abs(np.mean(shares) - 0.2 * n) < 4 * np.sqrt(0.16 * n / 300)
    assert 0.75 < np.var(shares) / (0.16 * n) < 1.3
    assert stats.chisquare(places.reshape(8, 50).sum(axis=1)).pvalue > 1e-4


def test_few_labelled_answers_leave_the_stream_to_itself() -> None:
    labels, risks = answers(np.random.default_rng(6), 36, 0.5)
    traffic = watched(calibrated(labels, risks), risks)
    assert traffic["calibration"] is None and traffic["threshold"] == 2 * 100_000 * 6


def test_false_alarms_of_both_together_are_as_rare_as_promised() -> None:
    watches, arl, rows, alarms = 200, 200, 200, 0
    for seed in range(watches):
        rng = np.random.default_rng(seed)
        labels, risks = answers(rng, 120, 0.4)
        content = dict.fromkeys(("question", "response", "chunks", "language"), [None] * 120)
        sketch = TrafficSketch(hallucinated=labels.tolist(), score=risks.tolist(), **content)  # type: ignore[arg-type]
        config = CONFIG.model_copy(update={"traffic": sketch})
        stream = answers(rng, rows, 0.4)[1]
        alarms += watched(config, stream, arl=arl, reference=40, seed=seed)["alarm"]  # type: ignore[arg-type]
    share = rows / (2 * arl)
    assert 0 < alarms <= stats.binom.ppf(1 - 1e-4, watches, share)


CONFIG = calibrated(*answers(np.random.default_rng(7), 300, 0.4)).config


def test_a_watch_goes_on_from_its_state(guardrail: Guardrail) -> None:
    stream = answers(np.random.default_rng(8), 900, 0.3, worse=1.0)[1]
    rows = Rows.of(stream, stream > 1.0)
    whole = Monitor(guardrail).update(rows)
    parts = Monitor(guardrail)
    for start in range(0, 900, 170):
        parts.update(rows.part(start, start + 170))
        parts = Monitor.restore(parts.to_state(), guardrail)
        parts.traffic()
    assert parts.to_state() == whole.to_state() and parts.traffic() == whole.traffic()
    assert len(whole.to_state()) < 1 << 20


def test_a_sketch_that_was_tampered_with_is_refused(guardrail: Guardrail) -> None:
    content = json.loads(guardrail.config.to_bytes())
    content["traffic"]["score"].pop()
    content["digest"] = digest_of(content)
    with pytest.raises(GuardrailError, match="its columns differ in length"):
        FrozenConfig.from_bytes(render(content))


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
@pytest.mark.parametrize(("coverage", "fpr"), [(0.95, 0.02), (0.9, 0.6), (0.9, None), (None, 0.1)])
def test_shares_outside_what_is_possible_break_a_limit(
    rate: float, coverage: float | None, fpr: float | None
) -> None:
    found = possible_share({"lower": rate, "upper": rate}, {"coverage": coverage, "fpr": fpr})
    for share in np.linspace(0.01, 0.99, 99):
        # The most false alarms, or misses, that a flag rate leaves room for.
        kept = (
            share * (coverage or 0.0)
            <= rate
            <= share + (1.0 - share) * (1.0 if fpr is None else fpr)
        )
        least, most = found["least"] or 0.0, 1.0 if found["most"] is None else found["most"]
        assert kept == (least - 1e-12 <= share <= most + 1e-12)


def write(path: Path, **columns: Any) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def test_from_a_file_to_the_page_of_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(9)
    labels, risks = answers(rng, 900, 0.3)
    write(tmp_path / "labelled.csv", id=range(900), label=labels, risk=risks)
    asked = ("--alpha", "0.1", "--max-false-alarms", "0.6", "-o", "run")
    run_command("calibrate", "labelled.csv", "--score", RISK, *asked)
    run_command("export", "run", "-o", "g.json")
    stream = answers(rng, 700, 0.3, worse=1.5)[1] - 0.5
    write(tmp_path / "traffic.csv", id=range(1_000, 1_700), risk=stream)
    run_command("check", "g.json", "traffic.csv", "-o", "decisions.jsonl")
    shown = run_command("monitor", "g.json", "decisions.jsonl", "-o", "watch")
    status = json.loads((tmp_path / "watch" / "status.json").read_bytes())
    found = status["traffic"]["calibration"]
    assert found["alarm"]["feature"] == status["traffic"]["feature"] == "score"
    promise = found["promise"]
    assert promise["most"] == promise["flag_rate"]["upper"] / 0.9 < 0.5
    page = (tmp_path / "watch" / "watch.html").read_text()
    for text in (shown.stdout.replace("\n", " "), page):
        assert "this traffic differs from what the guardrail was calibrated on" in text.lower()
    assert "traffic differs from the calibration data" in page and str(tmp_path) not in page
    assert "can be kept only where at most" in page and "--base-rate" in page
    # Another base rate is another watch; the first one goes on as it was begun.
    run_command("monitor", "g.json", "decisions.jsonl", "-o", "watch")
    again = run_command("monitor", "g.json", "decisions.jsonl", "-o", "watch", "--base-rate", "0.1")
    assert "was begun with --base-rate null" in again.stderr


def test_a_watch_of_a_file_without_a_sketch_goes_on_without_it(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    old = unsketched(guardrail)
    log = tmp_path / "log"
    with DecisionLog(log) as chain:
        chain.write(entries(old, [float(x) for x in np.linspace(0, 1, 200)]))
    watch = calibrail.monitor(old, log, tmp_path / "w")
    assert watch.to_dict()["traffic"]["calibration"] is None
    with pytest.raises(DataError):
        calibrail.monitor(guardrail, log)


def test_a_sketch_of_millions_is_drawn_without_a_copy_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "_MANY", 5_000)
    labels, risks = answers(np.random.default_rng(10), 6_000, 0.3)
    sketch = calibrated(labels, risks).config.traffic
    assert sketch is not None and 400 < len(sketch.score) <= 500
    assert abs(np.mean(sketch.hallucinated) - 0.3) < 0.1
    assert abs(np.mean(np.array(sketch.score, float)) - risks.mean()) < 0.3
