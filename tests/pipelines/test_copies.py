"""Is an answer that the data holds several times one answer, for the split and for the verdict?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import calibrail
from calibrail import Requirement, SplitOptions, calibrate, certify, compare
from calibrail.data.example import Example
from calibrail.data.splits import CONFIRMING, FIT
from calibrail.options import Promise
from calibrail.pipelines.independence import independent
from calibrail.pipelines.scoring import score_source
from calibrail.report.documents.decisions import select_document
from calibrail.report.messages import say, spell
from tests.answers import write
from tests.command_line import calibrail as command

SPEC = "column:column=detector,higher=hallucinated"
WORDS = np.array([f"{a}{b}" for a in "bdfgklmnprstvz" for b in ("ora", "iton", "uval", "emy")])


def copied(
    n: int, times: int, near: bool, seed: int, *, stamped: bool = False
) -> list[dict[str, Any]]:
    """Return n answers, each several times under another id; half of them hallucinated."""
    rng, names = np.random.default_rng(seed), np.random.default_rng(seed)
    found = []
    for index in range(n):
        label = index % 2
        question, response = rng.choice(WORDS, 10), rng.choice(WORDS, 30)
        value = float(rng.normal(2.0 * label))
        context = " ".join(rng.choice(WORDS, 40)) if stamped else f"What is known of {index}."
        for copy in range(times):
            words = response.copy()
            if near and copy:
                words[int(names.integers(1, 29))] = f"changed{copy}"
            found.append(
                {
                    "id": f"{names.integers(2**62)}",
                    "question": " ".join(question),
                    "contexts": [context + f" [retrieved {copy}]" * stamped],
                    "response": " ".join(words),
                    "label": label,
                    # A detector sees what its text is.
                    "detector": value + 1e-6 * copy,
                }
            )
    return [found[i] for i in names.permutation(len(found))]


def examples(items: list[dict[str, Any]]) -> list[Example]:
    """Return rows as they are in memory."""
    return [
        Example(
            id=item["id"],
            question=item["question"],
            contexts=tuple(item["contexts"]),
            response=item["response"],
            label=item["label"],
            columns={"detector": item["detector"]},
        )
        for item in items
    ]


@pytest.mark.parametrize("options", [(), ("--guarantee", "pac")])
def test_copies_change_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Four copies of each answer give the threshold, the rates and the verdict of one of each."""
    seen = []
    for times in (1, 4):
        items = copied(120, times, near=False, seed=3)
        for item in items:
            item["detector"] = round(item["detector"], 4)
        path = write(tmp_path / f"{times}.jsonl", items)
        run = tmp_path / f"run{times}"
        words = ("--score-column", "detector", "--higher", "hallucinated", "--alpha", "0.1")
        done = command("calibrate", path, *words, "--max-fpr", "0.6", *options, "-o", run)
        assert done.returncode in (0, 3, 4), done.stderr
        report = json.loads((run / "report.json").read_text())
        seen.append([report[key] for key in ("threshold", "n_calibration", "verdict")])
        seen[-1] += [report["test"][key] for key in ("coverage", "fpr")]
    assert seen[0] == seen[1]
    assert report["data"]["copies"] == {
        **{"n": 480, "n_groups": 120, "largest": 4, "n_across": 0},
        "n_by_scores": 0,
    }
    assert report["data"]["near_duplicates"]["count"] == 0
    assert any("in 120 groups of up to 4" in note for note in report["notes"])


@pytest.mark.parametrize(("near", "stamped"), [(False, False), (True, False), (False, True)])
def test_a_threshold_fails_as_seldom_as_promised(near: bool, stamped: bool) -> None:
    """Six copies of each, under ids of their own and without a group."""
    runs, delta, failed = 12, 0.1, 0
    promise = Promise(0.1, "pac", delta)
    for seed in range(runs):
        items = examples(copied(100, 6, near=near, seed=seed, stamped=stamped))
        scored = score_source(items, SPEC, splitting=SplitOptions(), beside=lambda *_: ())
        (sample,), kept = independent(scored, promise, Requirement())
        calibration = sample.calibrated(kept)
        failed += norm.cdf(float(calibration.threshold) - 2.0) > 0.1
        # Twenty-five answers, and hardly a copy that is not recognised.
        assert 25 <= calibration.n < 29
    assert failed <= binom.ppf(1 - 1e-3, runs, delta)


def test_scores_that_learn_see_the_same_split(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", copied(90, 3, near=True, seed=1))
    scored = score_source(path, 'fused:scores="novelty,length"', splitting=SplitOptions())
    assert scored.table.copies is not None
    for group in range(int(scored.table.copies.max()) + 1):
        assert len(set(scored.codes[scored.table.copies == group].tolist())) == 1
    assert 0.2 < (scored.codes == FIT).mean() < 0.4


def test_copies_on_two_sides_of_a_split_column_count_on_the_first(tmp_path: Path) -> None:
    items = copied(200, 1, near=False, seed=2)
    for index, item in enumerate(items):
        item["part"] = ("calibration", "test")[index % 2]
    again = [
        item | {"id": f"again {item['id']}", "part": "test"}
        for item in items
        if item["part"] == "calibration"
    ][:40]
    options: dict[str, Any] = {"alpha": 0.1, "splitting": SplitOptions(column="part")}
    alone = calibrate(write(tmp_path / "a.jsonl", items), SPEC, **options)
    both = calibrate(write(tmp_path / "b.jsonl", items + again), SPEC, **options)
    assert both.report.test == alone.report.test and both.calibration.n == alone.calibration.n
    assert both.data["copies"]["n_across"] == 40 and both.data["near_duplicates"]["count"] == 0
    assert any("'part' puts copies on several sides: 40" in note for note in both.report.notes)


def test_copies_with_both_labels_count_once_in_each_class(tmp_path: Path) -> None:
    items = copied(160, 2, near=False, seed=5)
    for item in items[:20]:
        item["label"] = 1 - item["label"]
    run = calibrate(write(tmp_path / "a.jsonl", items), SPEC, alpha=0.1)
    kinds = {(item["question"], item["label"]) for item in items}
    warnings = run.report.to_dict()["warnings"]
    clustered = next(item for item in map(str, warnings) if "copies of an answer" in item)
    assert f": {len(kinds)} of 320" in clustered


def test_that_answers_are_independent_is_an_assumption_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", copied(160, 2, near=False, seed=5))
    requirement = Requirement(assume_independent=True)
    run = calibrate(path, SPEC, requirement=requirement, alpha=0.1)
    assert any("share a group" in str(item) for item in run.report.to_dict()["warnings"])
    # Nothing stands on both sides all the same.
    assert run.data["near_duplicates"]["count"] == 0


@pytest.mark.parametrize("digits", [1, 9])
def test_what_cannot_be_told_is_said(tmp_path: Path, digits: int) -> None:
    values = np.random.default_rng(0).normal(size=400).round(digits)
    items = [
        {"id": str(i), "label": i % 2, "detector": float(value)} for i, value in enumerate(values)
    ]
    run = calibrate(write(tmp_path / "a.jsonl", items), SPEC, alpha=0.1)
    assert run.data["copies"] is None
    said = [note for note in run.report.notes if note.startswith("Copies cannot be told")]
    assert len(said) == (digits == 1) and (run.data["n_untold"] > 4) == (digits == 1)


def test_which_of_several_scores_of_one_text_counts_has_nothing_to_do_with_the_order(
    tmp_path: Path,
) -> None:
    """A noisy judge scored each answer eight times; sorted, the highest must not be the one."""
    rng = np.random.default_rng(4)
    rows = [
        {
            "question": f"q{i}",
            "contexts": [f"context {i}"],
            "response": f"answer {i} in some words",
            "label": i % 2,
            "s": float(score),
        }
        for i in range(120)
        for score in rng.normal(2.0 * (i % 2), 1.0, 8)
    ]
    first = [{**row, "s": row["s"] + 1e-3, "question": f"other {row['question']}"} for row in rows]
    column = "column:column=s,higher=hallucinated"
    guardrail = calibrate(first, column, alpha=0.2).freeze()
    orders = [sorted(rows, key=lambda row: sign * row["s"]) for sign in (1, -1)]
    counted = [certify(guardrail, order, max_fpr=0.5, fresh=True).certificate for order in orders]
    assert counted[0] == counted[1] and counted[0].fpr.n == counted[0].coverage.n == 60


@pytest.mark.parametrize("near", [False, True])
def test_certify_counts_copies_once(tmp_path: Path, near: bool) -> None:
    run = calibrate(
        write(tmp_path / "a.jsonl", copied(160, 1, near=False, seed=5)), SPEC, alpha=0.1
    )
    guardrail, found = run.freeze(), []
    for times in (1, 3):
        fresh = write(tmp_path / f"{times}.jsonl", copied(60, times, near=near, seed=6))
        found.append(certify(guardrail, fresh, max_fpr=0.6, looks=False))
    once, thrice = (item.certificate for item in found)
    assert once.fpr.n == once.coverage.n == 30
    if near:
        # How alike two texts are is estimated, so that a copy may pass for another answer.
        assert 60 <= thrice.fpr.n + thrice.coverage.n <= 66
    else:
        assert (once.fpr, once.coverage) == (thrice.fpr, thrice.coverage)
        assert (found[0].n_set_aside, found[1].n_set_aside) == (0, 120)


def test_certify_counts_rows_of_the_same_scores_once(tmp_path: Path) -> None:
    def rows(n: int, times: int, seed: int) -> list[dict[str, Any]]:
        rng = np.random.default_rng(seed)
        scores = rng.normal(2.0 * (np.arange(n) % 2)).tolist()
        return [
            {"id": f"{seed}/{i}/{copy}", "label": i % 2, "detector": score}
            for i, score in enumerate(scores)
            for copy in range(times)
        ]

    words = ("--score-column", "detector", "--higher", "hallucinated", "--alpha", "0.2")
    path = write(tmp_path / "a.jsonl", rows(160, 1, 0))
    assert command("calibrate", path, *words, "-o", tmp_path / "run").returncode in (0, 3, 4)
    found = []
    for times in (1, 4):
        # Each guardrail is looked at for the first time.
        guardrail = tmp_path / f"looked at {times}" / "guardrail.json"
        guardrail.parent.mkdir()
        assert command("export", tmp_path / "run", "-o", guardrail).returncode == 0
        path = write(tmp_path / f"{times}.jsonl", rows(100, times, 1))
        done = command("certify", guardrail, path, "--max-fpr", "0.6", "--json")
        found.append(json.loads(done.stdout))
    assert found[0]["verdict"] == found[1]["verdict"]
    for rate in ("fpr", "coverage"):
        once, every = found[0][rate], found[1][rate]
        assert (once["count"], once["n"]) == (every["count"], every["n"])
        # Shown are the bounds that all ways to count leave.
        assert every["lower"] <= once["lower"] < once["upper"] <= every["upper"]
    none = {"n": 0, "n_groups": 0, "largest": 0, "n_by_scores": 0}
    assert found[0]["copies"] == none
    assert found[1]["copies"] == {"n": 400, "n_groups": 100, "largest": 4, "n_by_scores": 400}
    said = command("certify", guardrail, path, "--max-fpr", "0.6")
    assert "400 answers were taken for copies" in " ".join(said.stdout.split())


@pytest.mark.parametrize("known", ["not at all", "by group", "to the last digit", "with ids"])
def test_rows_of_scores_that_are_alike_give_no_verdict_unless_something_tells_them_apart(
    tmp_path: Path, known: str
) -> None:
    """Six copies of each score, taken for answers, certify broken thresholds far too often."""
    verdicts, broken = [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        labels = np.arange(160) % 2
        scores = rng.normal(2.0 * labels).round(2 if known == "not at all" else 15)
        items = [
            {"detector": float(score), "label": int(label)}
            for score, label in zip(np.repeat(scores, 6), np.repeat(labels, 6), strict=True)
        ]
        for i, item in enumerate(items):
            item |= {"group": i // 6} if known == "by group" else {}
            item |= {"id": f"row {i}"} if known == "with ids" else {}
        run = calibrate(items, SPEC, guarantee="pac", alpha=0.1, max_fpr=0.97)
        verdicts.append(run.verdict)
        broken.append(norm.cdf(float(run.calibration.threshold) - 2.0) > 0.1)
    wrong = sum(b and v == "certified" for b, v in zip(broken, verdicts, strict=True))
    if known == "not at all":
        assert set(verdicts) == {"inconclusive"} and "960 rows are the same" in run.report.reason
        compared = compare(items, [SPEC], alpha=0.1, max_fpr=0.85, baselines=False)
        reports = compared.to_dict()["detectors"]
        assert [item["verdict"] for item in reports] == ["inconclusive"]
    else:
        if known != "by group":
            assert run.data["copies"]["n_by_scores"] == 960
            assert any("to the last digit" in note for note in run.report.notes)
        # The error that pac states, by fixed seeds; copies that count each break 6 of these.
        assert "certified" in verdicts and wrong <= binom.ppf(0.98, 16, 0.1 + 0.025) < 6


def templated(n: int, seed: int, change: str) -> list[dict[str, Any]]:
    """Return answers of which the hallucinated ones fill one template, and are hard to catch."""
    rng, rows = np.random.default_rng(seed), []
    for index in range(n):
        label, place = index % 2, index + n * seed
        number = 10_000 + 7 * place
        digits = [int(digit) for digit in np.base_repr(place, 5).zfill(4)]
        colours = " ".join(("red", "blue", "green", "grey", "pink")[digit] for digit in digits)
        core = {
            "number": f"order {number}",
            "name": f"order of {WORDS[place % 52].title()} {WORDS[place // 52].title()}",
            "chinese": f"订单{number}",
            "numerals": "订单" + "".join("一二三四五"[digit] for digit in digits),
            "word": f"{colours} order",
            "context": "order",
        }[change]
        said = f"Yes, the {core} was packed in our warehouse and leaves it by parcel service today."
        note = f"Note {number} of the service team about an order: {' '.join(WORDS[:30])}."
        rows.append(
            {
                "id": f"{index}",
                "question": "Was it sent?",
                "contexts": [note if change == "context" else "A note."],
                "response": said if label else " ".join(rng.choice(WORDS, 20)),
                "label": label,
                "detector": float(rng.normal(-1.0 if label and index % 5 == 1 else 2.0 * label)),
            }
        )
    return rows


@pytest.mark.parametrize("change", ["number", "name", "chinese", "numerals"])
def test_other_numbers_and_names_make_other_answers(change: str) -> None:
    run = calibrate(templated(200, 0, change), SPEC, alpha=0.3, max_fpr=0.9, baselines=False)
    assert run.data["copies"]["n"] == run.data["n_near_copies"] == 0
    assert run.report.test.n_hallucinated + run.calibration.n == 100


@pytest.mark.parametrize("change", ["word", "context"])
def test_what_may_be_copies_counts_both_ways_and_the_worse_decides(change: str) -> None:
    rows = templated(400, 0, change)
    asked: dict[str, Any] = {"alpha": 0.1, "guarantee": "pac", "baselines": False}
    asked["splitting"] = SplitOptions(calibration_share=0.5)
    run = calibrate(rows, SPEC, max_fpr=0.97, **asked)
    figures = run.report.certificate["near_copies"]
    assert figures["n"] > 100 and run.verdict == "inconclusive"
    assert figures["once"] is None or figures["once"]["coverage"][1] < 20
    assert 90 < figures["each"]["coverage"][1] < 110
    assert run.report.reason_code == "near_copies" and "may be copies" in run.report.reason
    told = calibrate(rows, SPEC, max_fpr=0.97, assume_independent=True, **asked)
    assert run.calibration.threshold <= told.calibration.threshold


@pytest.mark.parametrize("values", [(math.log(0.5),), (-1 / 3.1,), (0.1234567, -0.7654321)])
def test_a_score_that_many_share_makes_no_copies(values: tuple[float, ...]) -> None:
    """A fifth of the hallucinations has a fallback score, which the threshold must not miss."""
    rng, rows = np.random.default_rng(0), []
    for index in range(400):
        score = float(rng.normal(2.0 * (index % 2)))
        score = float(rng.choice(values)) if index % 2 and rng.random() < 0.2 else score
        rows.append({"id": f"{index}", "label": index % 2, "detector": score})
    run = calibrate(rows, SPEC, alpha=0.1, guarantee="pac", max_fpr=0.95)
    assert run.calibration.threshold <= max(values)
    said = [run.report.reason, *run.report.notes, *(it.message for it in run.report.warnings)]
    assert any("may be copies" in text or "Copies cannot be told" in text for text in said)
    high = [row | {"detector": row["detector"] + 9.0 * row["label"]} for row in rows]
    assert calibrate(high, SPEC, alpha=0.1, guarantee="pac", max_fpr=0.5).verdict == "certified"
    unnamed = [{name: row[name] for name in ("label", "detector")} for row in rows]
    untold = calibrate(unnamed, SPEC, alpha=0.1, max_fpr=0.95)
    assert untold.verdict == "inconclusive" and untold.data["n_alike"] > 20


def test_true_copies_are_one_answer_however_they_are_spelt() -> None:
    """Wrapped anew, with other quotes; with a closing phrase they are near copies."""
    rows = copied(60, 1, near=False, seed=1)
    for row in rows:
        row["response"] = f'He said "{row["response"]}" at last.'
    spelt: list[Any] = [
        lambda text: text.replace(" ", "\n", 3),
        lambda text: text.replace('"', "\u201c", 1).replace('"', "\u201d"),
        lambda text: f"  {text}\u00a0\r\n",
    ]
    same = [
        row | {"id": f"{row['id']}/{place}", "response": change(row["response"])}
        for place, change in enumerate(spelt)
        for row in rows
    ]
    run = calibrate(rows + same, SPEC, alpha=0.2, max_fpr=0.9, baselines=False)
    assert run.data["copies"]["n_groups"] == 60 and run.data["n_near_copies"] == 0
    assert run.calibration.n + run.report.test.n_hallucinated == 30
    closing = " Let me know if there is anything else."
    near = [row | {"id": f"{row['id']}/+", "response": row["response"] + closing} for row in rows]
    closed = calibrate(rows + near, SPEC, alpha=0.2, max_fpr=0.9, baselines=False)
    assert closed.data["n_near_copies"] > 90


@pytest.mark.parametrize("change", ["number", "word"])
def test_certify_leaves_out_no_other_answer_of_a_template(change: str) -> None:
    seen, fresh = templated(200, 0, change), templated(200, 1, change)
    easy = [row for row in seen if row["detector"] > 0.0 or not row["label"]]
    guardrail = calibrate(easy, SPEC, alpha=0.05, baselines=False).freeze()
    made = certify(guardrail, fresh, max_fpr=0.97, min_coverage=0.9)
    assert made.verdict != "certified"
    if change == "number":
        assert made.n_near_copies == 0 and made.certificate.coverage.n == 100
    else:
        assert made.near_copies is not None and made.near_copies["each"]["coverage"][1] == 100


@pytest.mark.parametrize("texts", [True, False])
def test_select_releases_copies_together_and_bounds_all_of_them(texts: bool) -> None:
    rows = copied(120, 1, near=False, seed=1)
    batch = copied(40, 5, near=False, seed=2)
    scores: dict[str, float] = {}
    for row in batch:
        row["detector"] = scores.setdefault(row["response"], row["detector"])
        row.pop("label")
    if not texts:
        for row in batch + rows:
            row |= dict.fromkeys(("question", "contexts", "response"))
    guardrail = calibrate(rows, SPEC, alpha=0.1, baselines=False).freeze()
    made = calibrail.select(guardrail, batch, fdr=0.3)
    assert made.n_copies == 160 and made.to_dict()["n_copies"] == 160
    assert made.selection.n_released % 5 == 0 and made.bounds.most_hallucinated % 5 == 0
    assert all(most % 5 == 0 for _, most in map(made.at, (0.05, 0.2, 0.5)))
    notes = select_document(made.to_dict()).notes
    assert any("160 answers may be copies of others of the batch" in note for note in notes)


def hard_fifth(change: str, *, reworded: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Return answers of which a fifth of the hallucinated ones is hard, and differs in one thing.

    ``reworded`` copies with another word stand beside each hallucinated answer that is easy.
    """
    rng, rows = np.random.default_rng(seed), list[dict[str, Any]]()
    hard: dict[str, Any] = {"question": "Was it sent?", "contexts": ["A note."]}
    bare: dict[str, Any] = {"question": "Was it sent?"} if change == "question" else {}
    for index in range(400):
        label, words = index % 2, rng.choice(WORDS, 2)
        row: dict[str, Any] = hard if change in ("case", "spaces", "word") else bare
        row = row | {"id": f"{index}", "label": label, "kind": "ab"[index // 2 % 2]}
        if label and index % 10 == 1:
            response = "I am sorry, but I could not find anything about that in our documents."
            if change == "case":
                capital = rng.random(len(response)) < 0.5
                pairs = zip(response, capital, strict=True)
                response = "".join(letter.upper() if is_up else letter for letter, is_up in pairs)
            elif change == "spaces":
                response = response.replace(" ", "\n" + " " * int(rng.integers(1, 99)))
            elif change == "word":
                response = f"{' '.join(words)} {response} {response.replace('I am', 'We are')}"
            rows.append(row | {"response": response, "detector": float(rng.normal(-3.0, 0.3))})
            continue
        said, value = rng.choice(WORDS, 25), float(rng.normal(2.0 * label))
        for copy in range(1 + reworded * label):
            other = said.copy()
            other[7] = WORDS[copy]
            name, text = f"{index}-{copy}", " ".join(other)
            rows.append(row | {"id": name, "response": text, "detector": value})
    return rows


@pytest.mark.parametrize("change", ["apology", "question", "case", "spaces"])
def test_the_same_words_with_scores_of_their_own_may_be_different_answers(change: str) -> None:
    rows = hard_fifth(change)
    asked: dict[str, Any] = {"alpha": 0.1, "guarantee": "pac", "max_fpr": 0.9, "baselines": False}
    run = calibrate(rows, SPEC, **asked)
    assert run.data["n_near_copies"] == 40 and run.calibration.threshold < -2.0
    assert any("40 of these may be no copies: they count both" in it for it in run.report.notes)
    assert run.verdict != "certified"
    for row in rows:
        row["detector"] = max(row["detector"], -3.0)
    same = calibrate(rows, SPEC, **asked).data
    assert same["copies"]["n"] > 15 and same["n_near_copies"] <= same["copies"]["n"]


@pytest.mark.parametrize("n", [12, 13])
@pytest.mark.parametrize("change", ["none", "question", "contexts", "case"])
def test_more_than_a_dozen_answers_of_one_text_and_score_may_be_different_ones(
    n: int, change: str
) -> None:
    sorry = "I am sorry, but I could not find any information about this in our documents."
    rows = [{"id": f"{i}", "response": sorry, "label": 1, "detector": -3.0} for i in range(n)]
    for index, row in enumerate(rows if change != "none" else ()):
        row["contexts" if change == "contexts" else "question"] = "Where is my order?"
        if change == "case":
            cut = 2 + 3 * index
            row |= {"contexts": ["Notes."], "response": sorry[:cut] + sorry[cut:].upper()}
    for index in range(80):
        text = " ".join(np.random.default_rng(index).choice(WORDS, 12))
        score = index / 7.0 + index % 2 * 20.0
        rows.append({"id": f"x{index}", "response": text, "label": index % 2, "detector": score})
    data = calibrate(rows, SPEC, alpha=0.1, baselines=False).data
    assert (data["copies"]["n"], data["n_near_copies"]) == (n, n * (n > 12 or change == "case"))


@pytest.mark.parametrize("verb", ["calibrate", "by", "certify", "compare"])
def test_some_near_copies_may_be_copies_and_others_not(verb: str) -> None:
    """A template that is missed, and rewordings of what is caught: both readings look well."""
    rows = hard_fifth("word", reworded=4)
    asked: dict[str, Any] = {"alpha": 0.1, "guarantee": "pac", "baselines": False}
    if verb == "certify":
        easy = [row for row in hard_fifth("word", seed=1) if row["detector"] > -1.0]
        guardrail = calibrate(easy, SPEC, alpha=0.03, baselines=False).freeze()
        made = certify(guardrail, rows, max_fpr=0.97, min_coverage=0.85, by="kind")
        figures = made.near_copies
        assert made.groups is not None and made.verdict == "inconclusive"
        assert {item.certificate.verdict for item in made.groups.values()} == {"inconclusive"}
        assert figures is not None and figures["worst"]["verdict"] != "certified"
        assert figures["once"]["verdict"] == figures["each"]["verdict"] == "certified"
        assert figures["worst"]["coverage"][1] - figures["worst"]["coverage"][0] >= 40
        assert "look worst" in made.certificate.reason
    elif verb == "compare":
        ((_, report),) = compare(rows, [SPEC], max_fpr=0.9, **asked).comparison.detectors
        assert report.threshold is not None and report.threshold < -2.0
    else:
        by = "kind" if verb == "by" else None
        run = calibrate(rows, SPEC, max_fpr=0.9, by=by, **asked)
        assert run.verdict != "certified"
        thresholds = (
            [run.calibration.threshold]
            if run.rule.groups is None
            else [run.rule.groups.of(name).threshold for name in "ab"]
        )
        assert max(thresholds) < -2.0


def missed_copies() -> list[dict[str, Any]]:
    """Return 240 answers and nine near copies of each; 48 of 120 hallucinated ones are missed."""
    rows = copied(240, 10, near=True, seed=0)
    missed = sorted({row["question"] for row in rows if row["label"]})[:48]
    seen = np.random.default_rng(1).normal(2.0, 0.1, len(rows)).tolist()
    for row, value in zip(rows, seen, strict=True):
        sign = 1.0 if row["label"] and row["question"] not in missed else -1.0
        row |= {"detector": sign * value, "kind": "a", "part": "test"}
    return rows


@pytest.mark.parametrize("verb", ["test", "calibrate", "certify", "compare", "agree"])
def test_near_copies_that_may_speak_for_a_detector_refute_nothing(verb: str) -> None:
    """At best those that are caught are answers, and those that are missed copies of a few."""
    rows, easy, figures = missed_copies(), copied(200, 1, near=False, seed=7), None
    for place, row in enumerate(easy):
        value = 1.0 + place / 1000.0
        row |= {"detector": value if row["label"] else -value, "part": "calibration"}
    limits: dict[str, Any] = {"min_caught": 0.9, "max_false_alarms": 0.5}
    asked: dict[str, Any] = {"max_fpr": 0.5, "min_coverage": 0.9, "baselines": False}
    asked |= {"alpha": 0.05, "splitting": SplitOptions(column="part")}
    if verb == "test":
        run = calibrail.test(rows, SPEC, threshold=0.0, **limits)
        figures, reason = run.report.certificate["near_copies"], run.report.reason
    elif verb == "calibrate":
        run = calibrate([*easy, *rows], SPEC, **asked)
        figures, reason = run.report.certificate["near_copies"], run.report.reason
    elif verb == "certify":
        guardrail = calibrate(easy, SPEC, alpha=0.05, baselines=False).freeze()
        made = certify(guardrail, rows, max_fpr=0.5, min_coverage=0.9, by="kind")
        figures, reason = made.near_copies, made.certificate.reason
        assert made.groups is not None and made.groups["a"].certificate.verdict == "inconclusive"
    elif verb == "compare":
        ((_, report),) = compare([*easy, *rows], [SPEC], **asked).comparison.detectors
        figures, reason = report.certificate["near_copies"], report.reason
    else:
        for row in rows:
            row["judge"] = int(row["detector"] > 0.0)
        (judge,) = calibrail.agree(rows, judge_column="judge", **limits).judges
        figures, reason = judge["certificate"]["near_copies"], judge["reason"]
    assert figures is not None
    assert figures["once"]["verdict"] == figures["each"]["verdict"] == "rejected"
    assert figures["best"]["verdict"] != "rejected" and reason.startswith("There is no verdict")
    caught, n = figures["best"]["coverage"]
    assert caught > 4 * (n - caught) and "look best" in reason
    # What decides is told alone: both ways that agree, and the one that does not.
    assert reason.count("hallucinations caught") == 2 and "look worst" not in reason


@pytest.mark.parametrize("verdict", ["certified", "rejected"])
def test_figures_of_earlier_files_are_shown_without_how_copies_count_at_best(verdict: str) -> None:
    way = {"verdict": verdict, "coverage": [7, 10], "fpr": [1, 10]}
    kept: dict[str, Any] = {
        "n": 40,
        "once": way,
        "each": way,
        "worst": {**way, "coverage": [7, 30]},
    }
    told = [say("warning.near_copies", values=kept), say("certify.near_copies", near_copies=kept)]
    for text in map(spell, [*told, say("verdict.near_copies", kept)]):
        assert "7 of 10" in text and " best" not in text
    at_best = {**kept, "best": {**way, "coverage": [70, 73]}}
    shown = spell(say("warning.near_copies", values=at_best))
    assert ("at best" in shown, "70 of 73" in shown) == (verdict == "rejected",) * 2
    assert ("at worst" in shown, "7 of 30" in shown) == (verdict == "certified",) * 2


@pytest.mark.parametrize(("coverage", "fpr"), [([0, 0], [1, 10]), ([7, 10], [0, 0])])
def test_a_class_of_which_none_is_left_is_not_counted(coverage: list[int], fpr: list[int]) -> None:
    way = {"verdict": "certified", "coverage": coverage, "fpr": fpr}
    kept: dict[str, Any] = {"n": 40, "once": way, "each": way, "worst": way, "best": way}
    told = [say("warning.near_copies", values=kept), say("certify.near_copies", near_copies=kept)]
    for text in [*told, say("verdict.near_copies", kept)]:
        assert "of 0" not in text and ("7 of 10" in text) == (coverage == [7, 10])


def test_an_apology_of_the_calibration_is_no_fresh_one() -> None:
    seen, fresh = hard_fifth("apology"), hard_fifth("apology", seed=1)
    guardrail = calibrate(seen, SPEC, alpha=0.1, baselines=False).freeze()
    made = certify(guardrail, fresh, max_fpr=0.97)
    assert made.n_near_copies == 40 and made.near_copies is not None
    assert made.near_copies["each"]["coverage"][1] == 200


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_what_a_comparison_shows_is_not_of_the_half_that_confirms(
    near: bool, guarantee: str
) -> None:
    items = copied(110, 3, near=near, seed=4)
    noise = np.random.default_rng(8)
    for item in items:
        item["other"] = item["detector"] + float(noise.normal())
        item["detector"] += float(noise.normal())
    scores = [SPEC, SPEC.replace("detector", "other")]
    asked: dict[str, Any] = {"alpha": 0.2, "max_fpr": 0.9, "guarantee": guarantee}
    run = compare(items, scores, **asked, baselines=False)
    assert run.comparison.winner.name is None and bool(run.data["n_near_copies"]) == near
    kept = np.flatnonzero(run.codes == CONFIRMING)
    assert len(kept) > 20
    for row in kept.tolist():
        items[row] |= {"detector": float(noise.normal()), "other": float(noise.normal())}
    again = compare(items, scores, **asked, baselines=False)
    first, second = run.to_dict(), again.to_dict()
    for row in first["detectors"] + second["detectors"]:
        assert row.pop("data")["sha256"]
    for name in ("detectors", "winner", "paired", "matched_coverage", "alpha_sweep"):
        assert first[name] == second[name], name


def test_what_flags_everything_is_not_comparable_however_near_copies_count() -> None:
    rng, rows = np.random.default_rng(1), hard_fifth("apology")
    for row in rows:
        row["j"] = int(rng.random() < (0.7 if row["label"] else 0.1))
    judge = "column:column=j,higher=hallucinated"
    asked: dict[str, Any] = {"alpha": 0.1, "reference": "detector", "margin": 0.03}
    run = compare(rows, [SPEC, judge], **asked, baselines=False)
    reference = run.to_dict()["reference"]
    assert run.to_dict()["data"]["n_near_copies"] == 40 and reference["apart"] == {"j": True}
    assert [row["verdict"] for row in reference["detectors"]] == ["not comparable"]
