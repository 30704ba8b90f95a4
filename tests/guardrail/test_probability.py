"""Does a decision tell P(hallucinated) as Venn and Abers do, and only where it is asked for?"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from venn_abers import VennAbers

import calibrail
from calibrail import Decision, Guardrail, Run
from calibrail.errors import InputError, MissingExtraError
from calibrail.guardrail.decision import parse_probability
from calibrail.guardrail.decision_rule import HallucinationProbability
from calibrail.guardrail.file import ClassScores
from calibrail.pipelines.check import CheckTask
from tests.command_line import calibrail as command
from tests.pipelines.test_fixed_threshold import answers

SCORE = "column:column=hallucination_score,higher=hallucinated"
Ends = tuple[float, float]


def isotonic(bad: list[float], good: list[float], score: float) -> Ends:
    """Return the ends by their definition: a fit with the new answer faithful, and hallucinated."""
    values, labels = [*bad, *good, score], [1.0] * len(bad) + [0.0] * len(good)
    ends = [
        IsotonicRegression().fit(values, [*labels, said]).predict([score])[0] for said in (0.0, 1.0)
    ]
    return float(ends[0]), float(ends[1])


def told(bad: list[float], good: list[float], score: float, **more: Any) -> dict[str, float]:
    tolerance = more.pop("tolerance", 0.0)
    kept = ClassScores(hallucinated=bad, faithful=good, **more)
    return HallucinationProbability(kept, tolerance).of(score)


SCORES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=12)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7])
def test_no_base_rate_lifts_an_end_above_one(rate: float) -> None:
    ends = told([1.0] * 42, [0.0] * 108, 1.0, base_rate=rate)
    assert ends["upper"] == 1.0 and parse_probability(ends) == ends


@settings(max_examples=150, deadline=None)
@given(SCORES, SCORES, st.integers(-9, 9).map(lambda x: x / 2.0))
def test_it_is_that_of_isotonic_regression_with_ties_and_beyond_all_scores(
    bad: list[float], good: list[float], score: float
) -> None:
    ends = told(bad, good, score)
    assert (ends["lower"], ends["upper"]) == pytest.approx(isotonic(bad, good, score), abs=1e-9)
    assert ends["base_rate"] == len(bad) / (len(bad) + len(good))


def test_it_is_that_of_the_library_itself() -> None:
    rng = np.random.default_rng(1)
    bad, good = np.round(rng.normal(1.5, 1, 80), 1), np.round(rng.normal(0, 1, 220), 1)
    values, new = np.append(bad, good), np.linspace(-4, 5, 41)
    fitted = VennAbers().fit(np.column_stack([1 - values, values]), np.repeat([1, 0], [80, 220]))
    expected = fitted.predict_proba(np.column_stack([1 - new, new]))[1]
    made = [told(bad.tolist(), good.tolist(), score) for score in new.tolist()]
    ends = np.array([(item["lower"], item["upper"]) for item in made])
    assert ends == pytest.approx(np.clip(expected, 0, 1))
    # A higher score never is less likely hallucinated.
    assert np.diff(ends, axis=0).min() >= -1e-12


def test_another_base_rate_multiplies_the_odds_of_both_ends() -> None:
    bad, good = [0.2, 0.6, 0.7, 0.9], [0.1, 0.2, 0.3, 0.5, 0.65, 0.8]
    for score in (0.0, 0.25, 0.66, 1.0):
        own, other = told(bad, good, score), told(bad, good, score, base_rate=0.1)
        for end in ("lower", "upper"):
            odds = own[end] / (1 - own[end]) * (0.1 / 0.9) / (0.4 / 0.6) if own[end] < 1 else np.inf
            assert other[end] == pytest.approx(odds / (1 + odds) if odds < np.inf else 1.0)
        assert other["base_rate"] == 0.1 and own["base_rate"] == 0.4
        assert told(bad, good, score, base_rate=0.4) == own


def test_one_of_both_ends_is_calibrated_on_average() -> None:
    # Of what is told with the end that the label picks, as many are hallucinated as it says.
    rng, said, true = np.random.default_rng(5), [], []
    for _ in range(400):
        n = rng.binomial(60, 0.4)
        bad, good = rng.normal(1, 1, n).tolist(), rng.normal(0, 1, 60 - n).tolist()
        label = int(rng.random() < 0.4)
        ends = told(bad, good, float(rng.normal(label)))
        said.append(ends["upper"] if label else ends["lower"])
        true.append(label)
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01)):
        inside = [(s, t) for s, t in zip(said, true, strict=True) if low <= s < high]
        off = abs(np.mean([s - t for s, t in inside]))
        assert len(inside) > 40 and off < 3.5 * 0.5 / len(inside) ** 0.5


def test_digits_that_a_batch_may_change_play_no_part() -> None:
    bad, good = [0.12341, 0.5], [0.12349, 0.3]
    near = [told(bad, good, score, tolerance=1e-4) for score in (0.1234, 0.12344, 0.1226)]
    assert near[0] == near[1] == near[2]
    assert near[0] == told([0.12, 0.5], [0.12, 0.3], 0.12)


@pytest.fixture(scope="module")
def run() -> Run:
    return calibrail.calibrate(answers(300), SCORE, alpha=0.2)


@pytest.fixture(scope="module")
def guardrail(run: Run) -> Guardrail:
    return run.freeze(probability=True)


def examples(rows: list[dict[str, Any]]) -> list[Any]:
    return list(calibrail.read(rows, keep=("hallucination_score",), require=()))


def test_a_decision_tells_it_where_it_is_asked_and_one_is_told_as_many_are(
    run: Run, guardrail: Guardrail
) -> None:
    rows = [*answers(40, seed=3), {"id": "none", "label": 1, "hallucination_score": None}]
    batch = examples(rows)
    asked = guardrail.with_probability()
    many = asked.decide(batch)
    assert many == [asked.decide([item])[0] for item in batch]
    assert many[-1].score is None and many[-1].probability is None
    part = run.codes == 1
    values, labels = next(iter(run.table.columns.values()))[part], run.table.labels[part]
    bad, good = (values[labels == label].tolist() for label in (1, 0))
    for decision in many[:-1]:
        ends = decision.probability
        assert ends is not None and decision.score is not None
        expected = isotonic(bad, good, decision.score)
        assert (ends["lower"], ends["upper"]) == pytest.approx(expected)
        assert Decision.from_dict(json.loads(decision.line())) == decision
    # All else is the same, and nothing is told unasked.
    for plain in (guardrail.decide(batch), run.freeze().decide(batch)):
        assert [item.outcome for item in plain] == [item.outcome for item in many]
        assert {item.probability for item in plain} == {None}
        assert "probability" not in plain[0].to_dict()


def test_a_higher_value_may_mean_faithful(guardrail: Guardrail) -> None:
    def turned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "hallucination_score": -row["hallucination_score"]} for row in rows]

    score = SCORE.replace("=hallucinated", "=faithful")
    other = calibrail.calibrate(turned(answers(300)), score, alpha=0.2).freeze(probability=True)
    rows = answers(30, seed=4)
    one, two = (
        [item.probability for item in made.with_probability(0.2).decide(examples(batch))]
        for made, batch in ((guardrail, rows), (other, turned(rows)))
    )
    assert one == two


def test_it_travels_and_is_part_of_what_shards_are_known_by(guardrail: Guardrail) -> None:
    asked, batch = guardrail.with_probability(0.1), examples(answers(5))
    sent = pickle.loads(pickle.dumps(asked))
    assert sent.decide(batch) == asked.decide(batch)
    keys = {
        CheckTask(made.config.to_bytes(), False, "{}").key
        for made in (guardrail, asked, guardrail.with_probability(0.2))
    }
    assert len(keys) == 3


def test_the_commands_freeze_it_and_write_it_for_a_base_rate(tmp_path: Path) -> None:
    data, folder = tmp_path / "answers.jsonl", tmp_path / "run"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in answers(300)), encoding="utf-8")
    words = ("--score-column", "hallucination_score", "--higher", "hallucinated", "-o", folder)
    assert command("calibrate", data, *words).returncode == 0
    for name, more in (("plain", ()), ("asked", ("--probability",))):
        done = command("export", folder, "-o", tmp_path / f"{name}.json", *more)
        assert done.returncode == 0, done.stderr

    def lines(name: str, *words: object) -> list[dict[str, Any]]:
        out = tmp_path / "decisions.jsonl"
        done = command("check", tmp_path / f"{name}.json", data, "-o", out, *words)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in out.read_text().splitlines()]

    loaded = Guardrail.load(tmp_path / "asked.json")
    for words, rate in (((), None), (("--base-rate", 0.05), 0.05)):
        told = [line["probability"] for line in lines("asked", "--probability", *words)]
        called = loaded.with_probability(rate).decide(examples(answers(300)))
        assert told == [item.probability for item in called]
    assert not any("probability" in line for line in lines("asked"))
    explain = ("explain", tmp_path / "asked.json", "--response", "x", "--column")
    for words, rate in ((("--probability",), None), (("--probability", "--base-rate", 0.05), 0.05)):
        done = command(*explain, "hallucination_score=0.9", *words, "--json")
        (told_of,) = loaded.tell(
            loaded.decide(examples([{"label": 1, "hallucination_score": 0.9}])), rate
        )
        assert json.loads(done.stdout)["probability"] == told_of.probability
        said = command(*explain, "hallucination_score=0.9", *words).stdout
        assert "P(hallucinated) lies between" in " ".join(said.split())
    done = command(*explain, "hallucination_score=0.9", "--base-rate", 0.1)
    assert done.returncode == 2 and "is what --probability is for" in done.stderr
    assert "probability" not in json.loads((tmp_path / "plain.json").read_text())
    for words, says in (
        (("plain.json", "--probability"), "`calibrail export RUN --probability`"),
        (("asked.json", "--base-rate", 0.1), "--base-rate is what --probability is for"),
        (("asked.json", "--probability", "--base-rate", 1.5), "base_rate must lie in (0, 1)"),
    ):
        done = command("check", tmp_path / words[0], data, *words[1:], "-o", tmp_path / "d.jsonl")
        assert done.returncode == 2 and says in " ".join(done.stderr.split())


def test_one_answer_of_each_group_counts_and_whole_runs_keep_their_scores() -> None:
    rows = [{**row, "group": f"g{i // 4}"} for i, row in enumerate(answers(400))]
    grouped = calibrail.calibrate(rows, SCORE, alpha=0.2)
    every = calibrail.calibrate(rows, SCORE, alpha=0.2, assume_independent=True)
    sizes = [sum(map(len, (made.classes or {}).values())) for made in (grouped, every)]
    assert sizes == [50, 200]
    assert grouped.classes == calibrail.calibrate(rows[::-1], SCORE, alpha=0.2).classes
    pac = calibrail.calibrate(answers(300), SCORE, alpha=0.2, guarantee="pac")
    given = calibrail.test(answers(300), threshold=1.0)
    for made in (pac, given):
        assert {name: len(part) for name, part in (made.classes or {}).items()} == {
            "hallucinated": 150,
            "faithful": 150,
        }
        assert made.freeze(probability=True).with_probability().config.probability is not None


def test_what_has_no_scores_of_whole_answers_is_refused() -> None:
    run = calibrail.calibrate("example:facts", "novelty", alpha=0.3, unit="sentence")
    with pytest.raises(InputError, match="whole answers of both classes"):
        run.freeze(probability=True)


@pytest.mark.parametrize("bad", [{}, {"lower": 0.5, "upper": 0.4, "base_rate": 0.1}, [0.1, 0.2]])
def test_a_line_with_another_probability_is_refused(guardrail: Guardrail, bad: Any) -> None:
    line = guardrail.with_probability().decide(examples(answers(2)))[0].to_dict()
    with pytest.raises(InputError, match="probability must hold lower, upper and base_rate"):
        Decision.from_dict({**line, "probability": bad})


def test_the_missing_extra_is_named(guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "venn_abers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'calibrail\[probability\]'"):
        guardrail.with_probability()


def test_the_library_does_not_turn_warnings_off(
    guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "venn_abers", raising=False)
    with np.errstate(divide="raise", invalid="raise"):
        guardrail.with_probability()
        assert np.geterr()["divide"] == np.geterr()["invalid"] == "raise"
