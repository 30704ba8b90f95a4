"""`calibrail label`, from the command line to what it prints at the end."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrail.labelling.session import Session
from tests.answers import rows, write
from tests.command_line import calibrail

COLUMN = ("--score-column", "detector", "--higher", "hallucinated")


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    kept = [
        {k: v for k, v in row.items() if k != "label"} for row in rows(60, seed=5, prefix="New ")
    ]
    return write(tmp_path / "traces.jsonl", kept)


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    data = write(folder / "answers.jsonl", rows())
    made = calibrail("calibrate", data, *COLUMN, "--alpha", 0.4, "-o", folder / "run")
    assert made.returncode == 0, made.stderr
    calibrail("export", folder / "run", "-o", folder / "guardrail.json")
    return folder / "guardrail.json"


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(keys: str, *arguments: object, **options: Any) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(keys) + "\n"))
        return calibrail("label", *arguments, "--terminal", **options)

    return run


def test_labels_for_a_threshold_end_with_what_is_next(
    traces: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    begun = ("-o", tmp_path / "labels", "--until", "calibrated", "--alpha", 0.4)
    done = piped("fhuq", traces, *begun, "--annotator", "ada")
    assert done.returncode == 0, done.stderr
    assert "3 answers labelled, 3 by you" in done.stdout
    assert "2 more hallucinated answers" in done.stdout
    # What is pasted goes on as the same person, here, without the traces being named.
    last = shlex.split(done.stdout.splitlines()[-1])
    assert last == ["calibrail", "label", "-o", str(tmp_path / "labels"), *last[4:]]
    assert last[4:] == ["--annotator", "ada", "--terminal"]
    done = piped("hhfhh", *last[2:-1], "--json")
    content = json.loads(done.stdout)
    assert content["counts"]["by_you"] == content["counts"]["labelled"]
    assert content["schema"] == "calibrail.label/1" and content["annotator"] == "ada"
    assert content["counts"]["decided"] and content["counts"]["hallucinated"] == 3
    spans = content["coverage_to_expect"]
    assert [item["hallucinated"] for item in spans] == [3, 6, 12]
    done = piped("q", "-o", tmp_path / "labels", "--annotator", "ada")
    said = " ".join(done.stdout.split())
    assert "These are the fewest that the promise allows. With 3 of them, nine of ten" in said
    # Two of the three calibrate: the lower one of their scores is the threshold.
    assert spans[0]["lower"] == pytest.approx(0.05**0.5)
    assert "thresholds catch 22.3% to 97.5% of hallucinations" in said
    assert "with --max-false-alarms and the false alarms that you accept" in said
    last = done.stdout.splitlines()[-1]
    assert last == f"  calibrail calibrate {tmp_path / 'labels'} --alpha 0.4 -o runs/labelled"


def test_an_answer_skipped_before_enough_comes_back_and_then_they_count(
    traces: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    begun = ("-o", tmp_path / "labels", "--until", "calibrated", "--alpha", 0.4)
    done = piped("s" + "f" * 2 + "h" * 3 + "q", traces, *begun, "--annotator", "ada")
    said = " ".join(done.stdout.split())
    assert "There are enough hallucinated answers, but not all of them count." in said
    assert "5 labels behind an open answer will count once that is settled" in said
    assert "hallucinated: 2 (goal: 3)" in done.stderr and "needed" not in done.stderr
    assert "1 skipped · 4 labels wait" in done.stderr and "(goal: 3) · 5 labels wait" in done.stderr
    # No new answer is drawn before the one that all others wait for.
    assert len((tmp_path / "labels" / "draws.jsonl").read_text().splitlines()) == 6
    done = piped("u", "-o", tmp_path / "labels", "--annotator", "ada", "--json")
    counts = json.loads(done.stdout)["counts"]
    assert counts["decided"] and counts["skipped"] == 0


def test_labels_for_a_verdict_end_with_its_code(
    traces: Path, guardrail: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    """Where every flagged answer is faithful, the guardrail is rejected."""
    options = (traces, "--guardrail", guardrail, "--max-false-alarms", 0.02)
    done = piped("fhq", *options, "-o", tmp_path / "few")
    assert done.returncode == 4, done.stderr
    assert "do not decide yet" in done.stdout
    assert done.stdout.splitlines()[-1] == f"  calibrail label -o {tmp_path / 'few'} --terminal"
    done = piped("f" * 200, *options, "-o", tmp_path / "all-faithful")
    assert done.returncode == 3, done.stdout
    assert "rejected" in done.stdout
    # Enough is enough: what followed the verdict was not read.
    assert "The labels are enough" in done.stderr


def test_a_certificate_ends_with_the_command_that_recomputes_it(
    guardrail: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = rows(300, seed=5, prefix="Fresh ")
    traces, truth = write(tmp_path / "new.jsonl", new), {row["id"]: row["label"] for row in new}

    def knows(opened: Session, annotator: str, *_: Any, **__: Any) -> None:
        while not opened.counts(annotator).decided:
            task = opened.next(annotator)
            assert task is not None
            opened.put(annotator, task.order, truth[task.id])

    monkeypatch.setattr("calibrail.ui.server.serve", knows)
    limits = ("--guardrail", guardrail, "--max-false-alarms", 0.95, "--min-caught", 0.2)
    done = calibrail("label", traces, "-o", "labels", *limits, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "The guardrail is certified" in done.stdout
    last = done.stdout.splitlines()[-1].split()
    assert last == ["calibrail", "certify", str(guardrail), "--labels", "labels"]
    again = calibrail(*last[1:], cwd=tmp_path)
    assert again.returncode == 0 and "CERTIFIED" in again.stdout, again.stderr


def test_what_is_left_out_of_the_traces_is_told(
    traces: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    kept = [json.loads(line) for line in traces.read_text(encoding="utf-8").splitlines()]
    for row in kept:
        del row["group"]
    copy = dict(kept[4], id="copy", response=kept[4]["response"] + " !")
    write(traces, [*kept, copy, dict(kept[0], id="empty", response=" ")])
    done = piped("f" * 200, traces, "-o", tmp_path / "labels")
    assert done.returncode == 0, done.stderr
    assert f"1 row cannot be labelled; {tmp_path / 'labels'}/quarantine.jsonl" in done.stderr
    assert "cannot be labelled: 1; quarantine.jsonl" in done.stdout
    assert "Near copies of answers drawn before, which are passed over: 1." in done.stdout


def test_several_people_and_what_they_disagree_about(
    traces: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    begun = (traces, "-o", tmp_path / "labels", "--shared", 1, "--annotator")
    piped("ffq", *begun, "ada")
    done = piped("hfq", *begun, "bob")
    assert "calibrail label -o" in done.stdout and "--settle" in done.stdout
    done = piped("hhh", "-o", tmp_path / "labels", "--settle", "--annotator", "eve")
    assert "Two annotators disagree" in done.stderr and "ada" not in done.stderr
    assert "hallucinated  1" in done.stdout


def test_a_name_that_differs_by_case_or_spaces_is_told(
    traces: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    begun = (traces, "-o", tmp_path / "labels", "--annotator")
    done = piped("fq", *begun, "Ada L")
    assert "already in this folder" not in done.stderr and "Ada L · 1 labelled" in done.stderr
    assert "already in this folder" not in piped("q", *begun, "Ada L ").stderr
    done = piped("q", *begun, "ada l")
    said = " ".join(done.stderr.split())
    assert "Labels of 'Ada L' are already in this folder" in said
    assert "--annotator 'Ada L'" in said


MISTAKES = [
    (("--until", "some"), 2, "--until must be one of calibrated"),
    (("--alpha", 0.2), 2, "--until calibrated"),
    (("--max-false-alarms", 0.2), 2, "guardrail"),
    (("--annotator", " "), 2, "annotator"),
    (("--shared", 7), 2, "shared"),
    (("--guardrail", "nowhere.json", "--max-false-alarms", 0.2), 1, "nowhere.json"),
]


@pytest.mark.parametrize(("options", "code", "said"), MISTAKES, ids=str)
def test_mistakes_are_explained(
    traces: Path,
    tmp_path: Path,
    piped: Callable[..., Any],
    options: tuple[object, ...],
    code: int,
    said: str,
) -> None:
    done = piped("f", traces, "-o", tmp_path / "labels", *options)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


def test_without_its_packages_the_page_says_how_to_get_them(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "calibrail.ui.server", raising=False)
    done = calibrail("label", traces, "-o", tmp_path / "labels")
    assert done.returncode == 1
    assert "pip install 'calibrail[serve]'" in done.stderr and "--terminal" in done.stderr
    assert not (tmp_path / "labels").exists()


def test_the_address_is_told_and_the_browser_only_where_it_is_wanted(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrail.ui import server

    opened: list[bool] = []

    def stand_in(
        session: Session, annotator: str, tell: Any, progress: Any, *, browser: bool
    ) -> None:
        opened.append(browser)
        tell("http://127.0.0.1:1/?token=x")
        task = session.next(annotator)
        assert task is not None
        session.put(annotator, task.order, 0)
        progress(session.counts(annotator))

    monkeypatch.setattr(server, "serve", stand_in)
    for options in ((), ("--no-browser",)):
        done = calibrail("label", traces, "-o", tmp_path / "labels", *options, "--annotator", "ada")
        assert done.returncode == 0
        assert "labelling as ada at http://127.0.0.1:1/?token=x" in done.stderr
    assert opened == [True, False]
    assert "2 answers labelled" in done.stdout


def test_a_judge_has_one_name_whatever_its_word_is_for(
    traces: Path, guardrail: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    kept = [json.loads(line) for line in traces.read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "judge": i % 2, "other": i % 3 % 2} for i, row in enumerate(kept)]
    asked = ("--guardrail", guardrail, "--max-false-alarms", 0.5, "--json")
    begun = (write(tmp_path / "judged.jsonl", rows), *asked, "--judge-column", "judge")
    for queue, design, word in (
        ((), "active", {"judge": "judge", "judges": []}),
        (("--queue", "disagreements"), "disagreements", {"judge": None, "judges": ["judge"]}),
    ):
        folder = ("-o", tmp_path / design)
        for goes_on in (begun, begun, ()):
            done = piped("fq", *goes_on, *folder, *(queue if goes_on else ("--json",)))
            plan = json.loads(done.stdout)["plan"]
            assert plan["drawing"]["design"] == design
            assert {name: plan.get(name, []) for name in word} == word
    another = calibrail("label", *folder, "--judge-column", "other", "--terminal")
    said = " ".join(another.stderr.split())
    assert another.returncode == 2 and "--judge-column was judge and is now other" in said
    several = calibrail("label", *begun, "--judge-column", "other", "-o", "x", "--terminal")
    assert "judge, other are several" in " ".join(several.stderr.split())
    former = piped("q", *begun[:-2], "--judge", "judge", "-o", tmp_path / "former")
    assert json.loads(former.stdout)["plan"]["judge"] == "judge"


def test_a_queue_and_a_review_in_the_terminal(
    traces: Path, guardrail: Path, tmp_path: Path, piped: Callable[..., Any]
) -> None:
    kept = [json.loads(line) for line in traces.read_text(encoding="utf-8").splitlines()]
    judged = write(tmp_path / "judged.jsonl", [{**row, "judge": "hallucinated"} for row in kept])
    folder = tmp_path / "labels"
    queue = ("--queue", "disagreements", "--annotator", "ada")
    begun = (judged, "-o", folder, "--guardrail", guardrail, "--max-false-alarms", 0.5)
    done = piped("ffffq", *begun, *queue, "--judge-column", "judge", "--json")
    content = json.loads(done.stdout)
    assert done.returncode == 4 and content["plan"]["drawing"]["design"] == "disagreements"
    assert content["counts"]["by_you"] == 4
    nobody = calibrail("label", "-o", folder, *queue[:2], "--annotator", "eve", "--terminal")
    assert nobody.returncode == 2 and "--annotator ada" in " ".join(nobody.stderr.split())
    shown = piped("hzhfq", "-o", folder, *queue)
    assert "You said faithful; judge says hallucinated" in " ".join(shown.stderr.split())
    assert "changed after a review  1" in " ".join(shown.stdout.split("  ")) or "1" in shown.stdout
    found = calibrail("certify", guardrail, "--labels", folder)
    text = " ".join(found.stdout.split())
    assert "1 label was changed after its annotator saw what judges" in text
    assert "by the labels as they were before, the verdict is inconclusive" in text
    assert len((folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()) == 6
