"""How near copies count at worst and at best, through the commands, from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail.formatting import floor_percent, lower_percent, upper_percent
from tests.answers import write
from tests.command_line import calibrail as command

WORDS = np.array([f"{a}{b}" for a in "bdfgklmnprstvz" for b in ("ora", "iton", "uval", "emy")])
COLUMN = ("--score-column", "detector", "--higher", "hallucinated")

Rows = list[dict[str, Any]]


def reworded(n: int, times: int, label: int, **more: Any) -> Rows:
    """Return n answers of a class, each in so many wordings, group by group."""
    rng, found = np.random.default_rng([n, times, label]), Rows()
    for index in range(n):
        question, response = rng.choice(WORDS, 10), rng.choice(WORDS, 30)
        for copy in range(times):
            words = response.copy()
            words[7] = WORDS[copy]
            row = {"question": " ".join(question), "response": " ".join(words), "label": label}
            found.append(row | {"contexts": [f"What {label} {index} is about."], **more})
    return found


def named(rows: Rows) -> Rows:
    """Return rows with ids and scores that no two of them share."""
    for place, row in enumerate(rows):
        row |= {"id": f"{place}", "detector": row["detector"] * (1.0 + place / 1e5)}
    return rows


def run_of(tmp_path: Path, rows: Rows, *words: object) -> dict[str, Any]:
    """Run a command that writes a run folder, and return its report."""
    verb, *options = words
    options += [] if verb == "test" else ["--no-baselines"]
    path, run = write(tmp_path / "answers.jsonl", named(rows)), tmp_path / "run"
    done = command(verb, path, *COLUMN, *options, "-o", run)
    assert done.returncode in (0, 3, 4), done.stderr
    name = "compare.json" if verb == "compare" else "report.json"
    report: dict[str, Any] = json.loads((run / name).read_text())
    return report


def elsewhere(n: int = 60) -> Rows:
    """Return answers about other things, which any detector tells apart."""
    rows = reworded(n, 1, 1, detector=0.7) + reworded(n, 1, 0, detector=-0.7)
    for place, row in enumerate(rows):
        row |= {"question": f"Is it {place}?", "contexts": [f"Elsewhere {place}."]}
    return rows


def frozen(tmp_path: Path, *words: object) -> Path:
    """Return the file of a guardrail that flags from about 1 on."""
    run_of(tmp_path, elsewhere(200), "calibrate", *(words or ("--alpha", 0.05)))
    file = tmp_path / "g.json"
    assert command("export", tmp_path / "run", "-o", file).returncode == 0
    return file


def pairs() -> Rows:
    """Return 240 hallucinated answers, caught in one of two wordings, and faithful ones."""
    rows = reworded(240, 2, 1)
    for place, row in enumerate(rows):
        row["detector"] = -1.0 if place % 2 else 1.0
    return rows + reworded(100, 1, 0, detector=-2.0)


@pytest.mark.parametrize(("least", "end"), [(0.4, "worst"), (0.6, "best")])
@pytest.mark.parametrize("verb", ["test", "certify"])
def test_a_wrong_answer_may_be_what_a_right_one_is_a_copy_of(
    tmp_path: Path, verb: str, least: float, end: str
) -> None:
    """Where the lot draws the missed one of a pair, the caught one may count nowhere."""
    limits = ("--min-caught", least, "--max-false-alarms", 0.5)
    if verb == "test":
        report = run_of(tmp_path, pairs(), "test", "--threshold", 0.0, *limits)
        made = report["certificate"]
    else:
        path = write(tmp_path / "fresh.jsonl", named(pairs()))
        made = json.loads(command("certify", frozen(tmp_path), path, *limits, "--json").stdout)
    figures = made["near_copies"]
    decided = {"worst": "certified", "best": "rejected"}[end]
    assert figures["once"]["verdict"] == figures["each"]["verdict"] == decided
    caught, n = figures["once"]["coverage"]
    assert n == 240 and figures["each"]["coverage"] == [240, 480]
    ends = {"worst": [caught, caught + 240], "best": [240, 480 - caught]}
    assert figures[end]["coverage"] == ends[end] and figures[end]["verdict"] != decided
    assert made["verdict"] == "inconclusive" and made["reason_code"] == "near_copies"


@pytest.mark.parametrize(("n_caught", "alpha"), [(75, 0.85), (30, 0.985)])
def test_without_a_test_half_what_may_speak_for_a_threshold_refutes_nothing(
    tmp_path: Path, n_caught: int, alpha: float
) -> None:
    """At best 750 of 775 calibration hallucinations lie above the threshold, where 90 % must."""
    rows = reworded(n_caught, 10, 1, detector=2.0) + reworded(100 - n_caught, 10, 1, detector=-2.0)
    for place, row in enumerate(rows):
        row["contexts"] = [f"What {place // 10} is about."]
    rows += reworded(100, 1, 0, detector=-3.0)
    pac = ("--guarantee", "pac", "--alpha", alpha, "--calibration-share", 1)
    limits = ("--min-caught", 0.9, "--max-false-alarms", 0.5)
    report = run_of(tmp_path, rows, "calibrate", *pac, *limits)
    figures = report["certificate"]["near_copies"]
    assert report["threshold"] > 0.0
    assert figures["once"]["verdict"] == figures["each"]["verdict"] == "rejected"
    assert (figures["best"]["verdict"] == "rejected") == (n_caught == 30)
    assert report["verdict"] == ("rejected" if n_caught == 30 else "inconclusive")


@pytest.mark.parametrize("verb", ["calibrate", "certify"])
def test_what_is_withheld_has_ends_of_its_own(tmp_path: Path, verb: str) -> None:
    """All decisions are right: of those caught there may be ten times as many as of the others."""
    rows = reworded(120, 10, 1, detector=1.0) + reworded(120, 10, 0, detector=-1.0)
    seen = elsewhere(200)
    for part, items in (("calibration", seen), ("test", rows)):
        for row in items:
            row["part"] = part
    risks = ("--risk", "abstention<=0.65", "--risk", "recall>=0.8", "--risk", "fpr<=0.2")
    if verb == "calibrate":
        report = run_of(tmp_path, seen + rows, "calibrate", *risks, "--split-column", "part")
        figures, verdict = report["certificate"]["near_copies"], report["verdict"]
    else:
        path = write(tmp_path / "fresh.jsonl", named(rows))
        done = command("certify", frozen(tmp_path, *risks), path, "--json")
        made = json.loads(done.stdout)
        figures, verdict = made["near_copies"], made["verdict"]
    assert figures["once"]["verdict"] == figures["each"]["verdict"] == "certified"
    assert figures["worst"]["verdict"] == "rejected" and verdict == "inconclusive"


def kept_or_emptied() -> Rows:
    """Return answers that are freed, with copies; of an eighth nothing supported is kept."""
    calibrating, tested = Rows(), Rows()
    for place in range(420):
        part = "calibration" if place < 300 else "test"
        label, low = place % 2, place % 8 == 1 and part == "test"
        for copy in range(10 if part == "test" and label else 1):
            rng = np.random.default_rng(place)
            words = [" ".join(rng.choice(WORDS, 12)) for _ in range(3)]
            said = [words[0], words[1].rsplit(" ", 1)[0] + f" {WORDS[copy]}", words[2]]
            said = [text.capitalize() + "." for text in said[: 2 + label]]
            response = " ".join(said)
            row = {
                "id": f"{place}-{copy}",
                "question": f"What about {words[0][:20]}?",
                "contexts": [f"What {place} is about."],
                "response": response,
                "label": label,
                "spans": [[len(response) - 9, len(response)]] if label else [],
                "scores": [5.0 if low else -1.0] * 2 + [4.0 + place / 1e4] * label,
                "part": part,
            }
            (tested if part == "test" else calibrating).append(row)
    return calibrating + tested


@pytest.mark.parametrize("verb", ["calibrate", "certify"])
def test_what_is_kept_has_ends_of_its_own(tmp_path: Path, verb: str) -> None:
    """Every decision is right, and those that keep nothing may be ten times as many."""
    rows = kept_or_emptied()
    score = ("--unit", "sentence", "--score", "column:column=scores,higher=hallucinated")
    asked = ("--alpha", 0.2, "--guarantee", "marginal", "--no-baselines")
    if verb == "calibrate":
        path = write(tmp_path / "answers.jsonl", rows)
        words = (*score, *asked, "--split-column", "part", "--min-kept", 0.6)
        done = command("calibrate", path, *words, "-o", tmp_path / "run")
        assert done.returncode == 4, done.stderr
        report = json.loads((tmp_path / "run" / "report.json").read_text())
        figures = report["certificate"]["near_copies"]
    else:
        path = write(tmp_path / "answers.jsonl", [row for row in rows if row["part"] != "test"])
        done = command("calibrate", path, *score, *asked, "-o", tmp_path / "run")
        assert "REJECTED" in done.stdout and done.returncode == 3, done.stderr
        assert command("export", tmp_path / "run", "-o", tmp_path / "g.json").returncode == 0
        path = write(tmp_path / "fresh.jsonl", [row for row in rows if row["part"] == "test"])
        limits = ("--min-kept", 0.6, "--min-caught", 0.8)
        done = command("certify", tmp_path / "g.json", path, *limits, "--json")
        made = json.loads(done.stdout)
        figures = made["near_copies"]
        assert made["verdict"] == "inconclusive"
    assert figures["once"]["verdict"] == figures["each"]["verdict"] == "certified"
    assert figures["worst"]["verdict"] == "rejected"


@pytest.mark.parametrize(
    ("least", "verdict"), [(0.3, "certified"), (0.8, "inconclusive"), (0.99, "rejected")]
)
@pytest.mark.parametrize("verb", ["test", "certify", "agree", "compare"])
def test_the_reason_names_the_bounds_that_are_shown(
    tmp_path: Path, verb: str, least: float, verdict: str
) -> None:
    """Of 60 hallucinated answers in five wordings each, 48 are caught in all of them."""
    more = 4 if verb == "compare" else 1
    rows = reworded(48 * more, 5, 1, detector=1.0) + reworded(12 * more, 5, 1, detector=-1.0)
    for place, row in enumerate(rows):
        row["contexts"] = [f"What {place // 5} is about."]
    rows = named(rows + reworded(100, 1, 0, detector=-2.0))
    limits = ("--min-caught", least, "--max-false-alarms", 0.5)
    path = write(tmp_path / "fresh.jsonl", rows)
    if verb == "test":
        report = run_of(tmp_path, rows, "test", "--threshold", 0.0, *limits)
        made, reason = report["certificate"], report["reason"]
    elif verb == "certify":
        guardrail = frozen(tmp_path)
        made = json.loads(command("certify", guardrail, path, *limits, "--json").stdout)
        reason = made["reason"]
    elif verb == "agree":
        for row in rows:
            row["judge"] = int(row["detector"] > 0.0)
        path = write(path, rows)
        done = command("agree", path, "--judge-column", "judge", *limits, "--json")
        (judge,) = json.loads(done.stdout)["judges"]
        made, reason = judge["certificate"], judge["reason"]
    else:
        halves = [{**row, "part": "test"} for row in rows]
        halves += [{**row, "part": "calibration"} for row in elsewhere()]
        how = (*limits, "--alpha", 0.05, "--split-column", "part", "--guarantee", "marginal")
        (report,) = run_of(tmp_path, halves, "compare", *how)["detectors"]
        made, reason = report["certificate"], report["reason"]
    assert made["verdict"] == verdict
    shown = {
        "certified": [f"at least {floor_percent(least)} of hallucinations"],
        "rejected": [f"at most {upper_percent(made['coverage']['upper'])}"],
        "inconclusive": [
            f"between {lower_percent(made['region']['coverage']['lower'])} and "
            f"{upper_percent(made['region']['coverage']['upper'])}"
        ],
    }
    assert all(text in reason for text in shown[verdict]), reason


@pytest.mark.parametrize("verb", ["test", "calibrate", "certify"])
def test_what_is_possible_holds_however_near_copies_count(tmp_path: Path, verb: str) -> None:
    """At worst one of ten wordings counts of what is caught, and of what is missed each."""
    rows = reworded(80, 10, 1, detector=1.0) + reworded(20, 10, 1, detector=-1.0)
    for place, row in enumerate(rows):
        row["contexts"] = [f"What {place // 10} is about."]
    rows += reworded(60, 1, 0, detector=-0.5) + reworded(40, 1, 0, detector=-2.0)
    limits = ("--min-caught", 0.75, "--max-false-alarms", 0.5)
    if verb == "certify":
        path = write(tmp_path / "fresh.jsonl", named(rows))
        done = command("certify", frozen(tmp_path), path, *limits, "--json")
        possible = json.loads(done.stdout)["possible"]
        bound = possible["caught"]["bound"], possible["alarms"]["bound"]
    else:
        parts = [{**row, "part": "test"} for row in rows]
        how: tuple[object, ...] = ("--threshold", 0.0)
        if verb == "calibrate":
            parts += [{**row, "part": "calibration"} for row in elsewhere()]
            how = ("--alpha", 0.05, "--guarantee", "marginal", "--split-column", "part")
        curve = run_of(tmp_path, parts, verb, *how, *limits)["curve"]
        place = next(i for i, at in enumerate(curve["thresholds"]) if at > 0.0)
        bound = curve["fpr"]["upper"][place], curve["coverage"]["lower"][place]
        assert curve["coverage"]["upper"][place] > 0.97
    # Of 80 and 200 at worst, of 100 and 100 that count once.
    assert bound[0] < 0.2 and 0.15 < bound[1] < 80 / 280


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("verb", ["calibrate", "test"])
def test_the_base_rate_counts_copies_as_the_verdict_does(
    tmp_path: Path, verb: str, near: bool
) -> None:
    rows = reworded(60, 10, 1, detector=1.0) + reworded(240, 1, 0, detector=-1.0)
    for place, row in enumerate(rows):
        row["contexts"] = [f"What {place // 10 if row['label'] else place} is about."]
        if not near and row["label"]:
            row["response"] = rows[place - place % 10]["response"]
    for place, row in enumerate(named(rows) if near else rows):
        row["id"] = f"{place}"
    words = ("--threshold", 0.0) if verb == "test" else ()
    path = write(tmp_path / "answers.jsonl", rows)
    how = (*COLUMN, *words, "--cost-miss", 5, "--cost-alarm", 1, "-o", tmp_path / "run")
    done = command(verb, path, *how)
    assert done.returncode in (0, 3, 4), done.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    rate = report["cost"]["costs"]["base_rate"]
    assert report["cost"]["base_rate_is"] == "of the data"
    # Where near copies count each there are 600 of 840, and missing them costs more.
    assert rate == pytest.approx(60 / 300 if not near else rate) and 0.19 < rate < 0.72


@pytest.mark.parametrize("times", [1, 6])
def test_versus_counts_near_copies_as_one_group(tmp_path: Path, times: int) -> None:
    """Of 30 questions in six wordings each B is wrong about 5, and A about none."""
    answers = reworded(30, times, 0)
    for place, row in enumerate(answers):
        row |= {"id": f"{place}", "contexts": [f"What {place // times} is about."]}
    first = write(tmp_path / "a.jsonl", [{**row, "label": 0} for row in answers])
    wrong = [{**row, "label": int(place // times < 5)} for place, row in enumerate(answers)]
    second = write(tmp_path / "b.jsonl", wrong)
    done = command("versus", first, second, "--label-column", "label", "-o", tmp_path / "run")
    assert done.returncode == 4, done.stdout + done.stderr
    made = json.loads((tmp_path / "run" / "versus.json").read_text())
    assert made["data"]["n_groups"] == 30 and made["data"]["n_near"] == 30 * times * (times > 1)
    assert ("near copies" in " ".join(done.stdout.split())) == (times > 1)
