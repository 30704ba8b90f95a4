"""Do disagreements come first, with known probabilities, and what does a review leave behind?"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail import Guardrail
from calibrail.errors import DataError, InputError
from calibrail.labelling.replay import replay
from calibrail.labelling.session import Session
from calibrail.options import Drawing
from calibrail.report.documents.data import data_notes
from calibrail.report.documents.label import next_step
from tests.command_line import calibrail as command
from tests.labelling.rows import frozen, lines, traces, truth, write

QUEUE: dict[str, Any] = {"queue": "disagreements", "looks": False}


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


def judged(n: int) -> list[dict[str, Any]]:
    """Return answers of which a judge misjudges one in ten, and another calls all faithful."""
    return [
        {**row, "judge": truth(row["id"]) ^ (i % 10 == 0), "lazy_judge": "faithful"}
        for i, row in enumerate(traces(n))
    ]


def label_all(session: Session, n: int, annotator: str = "ada", wrong: int = 10**9) -> int:
    """Label answers as they are, and every so-manieth otherwise."""
    for k in range(1, n + 1):
        if (task := session.next(annotator)) is None:
            return k - 1
        session.put(annotator, task.order, truth(task.id) ^ (k % wrong == 0))
    return n


def test_a_queue_that_is_through_leads_to_the_judge_and_to_no_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, folder = write(tmp_path / "rows.jsonl", judged(40)), tmp_path / "labels"
    with calibrail.label(rows, folder, judge_column=("judge", "lazy_judge"), **QUEUE) as session:
        label_all(session, 40)
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    shown = command("label", "-o", folder, "--annotator", "ada", "--terminal").stdout
    said = " ".join(shown.split())
    (judges,) = re.findall(
        "calibrail agree .*? (--judge-column judge --judge-column lazy_judge) ", said
    )
    assert calibrail.agree(folder, judge_column=judges.split()[1::2], labels=None).data["n_human"]
    assert "--alpha" not in shown and "--until" not in shown


def test_disagreements_are_all_handed_out_and_others_with_the_floor(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    rows = judged(600)
    asked = dict(
        guardrail=guardrail, max_fpr=0.55, judge_column=("judge",), drawing=Drawing(floor=0.2)
    )
    with calibrail.label(rows, tmp_path, **asked, **QUEUE) as session:
        label_all(session, 60)
    judges = {row["id"]: row["judge"] for row in rows}
    draws = lines(tmp_path / "draws.jsonl")
    for line in draws:
        differ = judges[line["id"]] != line["flagged"]
        least = 0.2 if line["flagged"] else 0.4
        assert line["probability"] == (1.0 if differ else least)
        assert line["handed_out"] or not differ
    handed = [line for line in draws if line["handed_out"]]
    shares = [
        sum(judges[line["id"]] != line["flagged"] for line in some) / len(some)
        for some in (handed, draws)
    ]
    assert shares[0] > 1.5 * shares[1] > 0.0
    # The same command goes on, and the verdict is read off the files.
    with calibrail.label(rows, tmp_path, **asked, **QUEUE) as session:
        label_all(session, 5)
    found = calibrail.certify(guardrail, labels=tmp_path, looks=False)
    assert found.sequential is not None
    assert found.sequential["drawing"]["design"] == "disagreements"
    assert found.sequential["labelled"] == 65
    assert found.sequential["expect"]["unforeseeable"] == "queue"


def test_two_judges_and_an_earlier_label_need_no_guardrail(tmp_path: Path) -> None:
    rows = [{**row, "label": truth(row["id"])} for row in judged(300)]
    with calibrail.label(rows, tmp_path, judge_column=("judge", "label"), **QUEUE) as session:
        label_all(session, 40)
    draws = {line["id"]: line for line in lines(tmp_path / "draws.jsonl")}
    met = [row for row in rows if row["id"] in draws]
    for row in met:
        chance = 1.0 if row["judge"] != row["label"] else 0.1
        assert draws[row["id"]]["probability"] == chance
    with pytest.raises(DataError, match="drawn with different probabilities"):
        calibrail.calibrate(tmp_path, "length", alpha=0.2)


def test_a_rating_beyond_a_cut_that_no_label_sets_is_compared(
    tmp_path: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = judged(300)
    for i, row in enumerate(rows):
        # Half of the answers have 1 to 3 stars; the other judge uses the whole scale.
        row["stars"] = 1 + i % 2 if truth(row["id"]) else 3 if i % 6 == 1 else 4 + i % 2
        row["score"] = i / 300
    alone = {"judge_column": ("stars", "judge"), "judge_higher": "faithful", **QUEUE}
    with calibrail.label(rows, tmp_path / "a", **alone) as session:
        label_all(session, 20)
        assert session.plan.cuts == {"stars": ("faithful", 3.5)}
    draws, stars = lines(tmp_path / "a" / "draws.jsonl"), {row["id"]: row for row in rows}
    for line in draws:
        differ = (stars[line["id"]]["stars"] < 3.5) != stars[line["id"]]["judge"]
        assert line["probability"] == (1.0 if differ else 0.1)
    # The same command goes on, and another meaning is refused.
    with calibrail.label(rows, tmp_path / "a", **alone) as session:
        assert session.plan.to_dict()["cuts"] == {"stars": ["faithful", 3.5]}
        label_all(session, 3)
    with pytest.raises(InputError, match="judge_higher was faithful and is now hallucinated"):
        calibrail.label(rows, tmp_path / "a", **{**alone, "judge_higher": "hallucinated"})
    # With a guardrail as many are hallucinated as it flagged of the answers it was made from.
    guardrail.save(tmp_path / "g.json")
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    shown = command(
        *("label", write(tmp_path / "rows.jsonl", rows), "-o", tmp_path / "b", "--terminal"),
        *("--guardrail", tmp_path / "g.json", "--max-false-alarms", 0.55),
        *("--queue", "disagreements", "--judge-column", "score", "--judge-higher", "faithful"),
    )
    said = re.search(r"A rating of score below (\S+) counts", " ".join(shown.stderr.split()))
    rates = guardrail.config.headline
    share = (rates.coverage["estimate"] + rates.fpr["estimate"]) / 2.0
    assert said and float(said[1]) == pytest.approx(share, abs=0.004) and share > 0.505
    for unclear, why in (
        ({"judge_higher": None}, "does a higher rating of stars speak for"),
        ({"judge_column": ("judge", "lazy_judge")}, "these columns hold labels"),
        ({"queue": None, "judge_column": ()}, "says what ratings mean that queue="),
        ({"judge_column": ("stars", "stars")}, "'stars' is named twice"),
    ):
        with pytest.raises(InputError, match=why):
            calibrail.label(rows, tmp_path / "c", **{**alone, **unclear})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"judge_column": ("judge",)}, "those of two columns"),
        ({"judge_column": ("nobody", "judge")}, "'nobody'"),
        ({"judge_column": ("question", "judge")}, "is no clear label"),
        (
            {"judge_column": ("judge", "lazy_judge"), "promise": calibrail.Promise(0.1)},
            "no random sample",
        ),
        ({"judge_column": "judge", "queue": None}, "to find errors, add queue='disagreements'"),
        ({"judge_column": ("judge", "lazy_judge"), "queue": None}, "judge, lazy_judge are several"),
    ],
)
def test_what_cannot_be_a_queue_is_refused(
    options: Mapping[str, Any], reason: str, tmp_path: Path
) -> None:
    how = {**QUEUE, **options}
    with (
        pytest.raises((InputError, DataError), match=reason),
        calibrail.label(judged(60), tmp_path / "a", **how) as session,
    ):
        label_all(session, 5)


def test_a_cell_that_cannot_be_read_stops_the_queue_before_it_begins(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    rows, file = judged(60), tmp_path / "guardrail.json"
    rows[-1]["judge"] = "perhaps"
    guardrail.save(file)
    asked = dict(guardrail=file, max_fpr=0.55, judge_column=("judge",), queue="disagreements")
    with pytest.raises(DataError, match=f"{rows[-1]['id']}.*'perhaps'"):
        calibrail.label(rows, tmp_path / "labels", **asked)
    assert not (tmp_path / "labels").exists() and [*tmp_path.iterdir()] == [file]


def test_a_judge_may_have_any_name(tmp_path: Path, guardrail: Guardrail) -> None:
    rows = [{**row, "J": int(row["judge"])} for row in judged(60)]
    asked = dict(guardrail=guardrail, max_fpr=0.55, judge_column=("J",))
    with calibrail.label(rows, tmp_path, **asked, **QUEUE) as session:
        assert label_all(session, 5) == 5


def test_a_review_shows_what_contradicts_and_keeps_both_labels(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    rows, folder = judged(400), tmp_path / "labels"
    asked: dict[str, Any] = dict(guardrail=guardrail, max_fpr=0.55, looks=False)
    with calibrail.label(rows, folder, **asked) as session:
        label_all(session, 60, wrong=6)
    before = calibrail.certify(guardrail, labels=folder, looks=False)
    blind = lines(folder / "labels.jsonl")
    judges = write(tmp_path / "judged.jsonl", rows)
    how: dict[str, Any] = dict(judge_column=("judge",), queue="disagreements", looks=False)
    with pytest.raises(InputError, match=r"hold no column judge .*name the file that has it"):
        calibrail.label(None, folder, **how)
    n_against = []
    with calibrail.label(judges, folder, **how) as session:
        while (task := session.next("ada")) is not None:
            own, flag, judge = (task.said[name] for name in ("you", "guardrail", "judge"))
            n_against.append((flag != own) + (judge != own))
            session.put("ada", task.order, truth(task.id))
        assert session.next("bob") is None
        # What was reviewed last is taken back, and the blind label counts again.
        undone = session.undo("ada")
        assert undone is not None and session.next("ada") == undone
        session.put("ada", undone.order, truth(undone.id))
        changed = session.counts("ada").changed
        assert session.counts("ada").by_you == 60
    assert n_against == sorted(n_against, reverse=True) and n_against[0] == 2
    after = lines(folder / "labels.jsonl")
    assert after[:60] == blind and len(after) == 60 + len(n_against)
    seen = {line["id"]: line["seen"] for line in after[60:]}
    assert all(set(said) == {"judge", "guardrail"} for said in seen.values())
    given = {line["id"]: line["label"] for line in after}
    was = {line["id"]: line["label"] for line in blind}
    assert changed == sum(given[id] != was[id] for id in was) >= 8
    found = calibrail.certify(guardrail, labels=folder, looks=False)
    assert found.sequential is not None and found.sequential["n_changed"] == changed
    assert found.sequential["blind_verdict"] == before.verdict
    (warning,) = [text for text in found.warnings if "no longer blind" in text]
    assert f"{changed} labels were changed" in warning
    # A new judge starts a new review; a label that was reviewed is not undone by accident.
    with calibrail.label(judges, folder, **{**how, "judge_column": ("lazy_judge",)}) as session:
        assert session.next("ada") is not None
    with calibrail.label(None, folder, looks=False) as session:
        session.next("ada")
        if blind[-1]["id"] in seen:
            with pytest.raises(InputError, match="was reviewed since"):
                session.undo("ada")


def test_what_two_disagreed_about_before_a_review_stops_the_blind_count(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    asked: dict[str, Any] = dict(guardrail=guardrail, max_fpr=0.6, looks=False, shared=1.0)
    with calibrail.label(traces(400), tmp_path, **asked) as session:
        for place in range(110):
            for name in ("ada", "bob"):
                task = session.next(name)
                assert task is not None
                session.put(name, task.order, truth(task.id) ^ (place == 0 and name == "bob"))
    before = calibrail.certify(guardrail, labels=tmp_path, looks=False)
    assert before.sequential is not None and before.sequential["n_counted"] == 0
    with calibrail.label(None, tmp_path, **QUEUE) as session:
        task = session.next("bob")
        assert task is not None and task.order == 1
        session.put("bob", 1, truth(task.id))
    found = calibrail.certify(guardrail, labels=tmp_path, looks=False)
    assert found.sequential is not None and found.sequential["n_counted"] >= 110
    assert found.sequential["blind_verdict"] == before.verdict == "inconclusive"
    assert found.certificate.reason_code == "reviewed"


def test_a_review_alone_does_not_certify(tmp_path: Path, guardrail: Guardrail) -> None:
    """Labels that wrongly contradict the guardrail are mended, those that wrongly agree are not."""
    asked: dict[str, Any] = dict(guardrail=guardrail, max_fpr=0.6, looks=False)
    with calibrail.label(traces(500), tmp_path, **asked) as session:
        label_all(session, 150, wrong=4)
    before = calibrail.certify(guardrail, labels=tmp_path, looks=False)
    with calibrail.label(None, tmp_path, **QUEUE) as session:
        label_all(session, 150)
    found = calibrail.certify(guardrail, labels=tmp_path, looks=False)
    assert (found.verdict, found.certificate.reason_code) == ("inconclusive", "reviewed")
    assert (
        f"would be certified, by the labels as they were before {before.verdict}"
        in found.certificate.reason
    )
    assert next_step(found.to_dict()).startswith("Label further answers, each before a judge's")
    # Labels that are not reviewed count for the verdict that does without the review.
    with calibrail.label(None, tmp_path, looks=False) as session:
        label_all(session, 350)
    found = calibrail.certify(guardrail, labels=tmp_path, looks=False)
    content = found.to_dict()
    assert found.verdict == "certified"
    blind = {**content["sequential"], "blind_verdict": "rejected"}
    reviewed = {
        **content,
        "verdict": "inconclusive",
        "reason_code": "reviewed",
        "sequential": blind,
    }
    assert next_step(reviewed).startswith("Label more traces in another folder")


def test_a_review_without_a_guardrail_says_beside_a_threshold_that_labels_are_not_blind(
    tmp_path: Path,
) -> None:
    with calibrail.label(judged(300), tmp_path) as session:
        label_all(session, 200, wrong=9)
    with calibrail.label(None, tmp_path, judge_column=("judge",), **QUEUE) as session:
        label_all(session, 300)
        changed = session.counts("ada").changed
    assert changed > 10
    report = calibrail.calibrate(tmp_path, "length", alpha=0.3).report.to_dict()
    assert report["data"]["reading"]["origin"]["n_changed"] == changed
    assert f"{changed} labels were changed after a judge" in " ".join(data_notes(report["data"]))


def test_a_review_of_no_label_is_a_damaged_file(tmp_path: Path, guardrail: Guardrail) -> None:
    with calibrail.label(judged(60), tmp_path, guardrail=guardrail, max_fpr=0.5) as session:
        label_all(session, 5)
    first, *rest = lines(tmp_path / "labels.jsonl")
    told = [{**first, "seen": {"judge": 1}}, *rest]
    write(tmp_path / "labels.jsonl", told)
    with pytest.raises(DataError, match=r"labels\.jsonl, line 1: it reviews a label"):
        replay(tmp_path)


WORDS = ("faithful", "hallucinated")
LIMITS = {"min_caught": 0.7, "max_false_alarms": 0.3}


def test_labels_of_a_queue_test_a_judge_by_their_probabilities(tmp_path: Path) -> None:
    """All labels together misjudge the judge, which errs in each answer that is surely labelled."""
    rows = [{**row, "other_judge": WORDS[truth(row["id"])]} for row in judged(900)]
    with calibrail.label(rows, tmp_path, judge_column=("judge", "other_judge"), **QUEUE) as session:
        label_all(session, 900)
    n = {line["probability"] for line in lines(tmp_path / "draws.jsonl")}
    assert n == {0.1, 1.0}
    found = calibrail.agree(tmp_path, judge_column="judge", **LIMITS)
    (judge,) = found.judges
    handed = sum(line["handed_out"] for line in lines(tmp_path / "draws.jsonl"))
    assert found.data["source"] == str(tmp_path) and found.data["n"] == 900
    assert found.data["n_human"] + found.data["n_thinned"] == handed
    wrong = judge["counts"]["n_both"] - judge["agreement"]["agreement"]["count"]
    assert wrong < 0.2 * judge["counts"]["n_both"]
    # Of all labels half are of its errors.
    assert handed < 2.6 * sum(index % 10 == 0 for index in range(900))
    elsewhere = write(tmp_path.parent / "judged.jsonl", rows)
    joined = calibrail.agree(elsewhere, judge_column="judge", labels=tmp_path, **LIMITS)
    assert joined.judges[0]["counts"] == judge["counts"]
    with pytest.raises(InputError, match=r"says not how its answers were drawn; name its folder"):
        calibrail.agree(elsewhere, judge_column="judge", labels=tmp_path / "labels.jsonl")
    with calibrail.label(rows, tmp_path / "b", guardrail=frozen(), max_fpr=0.5, looks=False) as b:
        label_all(b, 20)
    stopped = calibrail.agree(elsewhere, judge_column="judge", labels=tmp_path / "b")
    assert any("labelling stops when that is reached" in text for text in stopped.warnings)


def test_a_folder_without_labels_and_a_review_say_what_to_do(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    guardrail.save(tmp_path / "g.json")
    folder, file = tmp_path / "labels", write(tmp_path / "judged.jsonl", judged(60))
    (tmp_path / "none").mkdir()
    asked = ("recalibrate", tmp_path / "g.json", file, "--new-judge", "judge", "--labels")

    def refused(*words: object) -> str:
        done = command(*words)
        assert done.returncode in (1, 2) and not done.stdout, done.stdout
        return " ".join(done.stderr.split())

    assert "name a folder that `calibrail label` made" in refused(*asked, tmp_path / "none")
    calibrail.label(file, folder, guardrail=tmp_path / "g.json", max_fpr=0.5).close()
    for words in (asked, (*asked[:2], *asked[3:])):
        assert f"run this again: calibrail label -o {folder}" in refused(*words, folder)
    review = ("label", "-o", folder, "--queue", "disagreements", "--annotator", "ada")
    assert "nobody has: label first, without --queue" in refused(*review, "--terminal")
    with calibrail.label(None, folder) as session:
        label_all(session, 4)
    said = refused(*review, "--export", tmp_path / "out.csv")
    assert "(--export), leave out queue and settle" in said
    assert not (tmp_path / "out.csv").exists()


def test_a_new_judge_is_tested_on_old_labels_which_is_a_look(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    guardrail.save(tmp_path / "g.json")
    rows, folder = judged(500), tmp_path / "labels"
    # Nobody knew of the judge when the labels were drawn.
    known = [{k: v for k, v in row.items() if "judge" not in k} for row in rows]
    with calibrail.label(known, folder, guardrail=tmp_path / "g.json", max_fpr=0.5) as session:
        label_all(session, 200)
    file = write(tmp_path / "judged.jsonl", rows)
    asked = ("recalibrate", tmp_path / "g.json", file, "--labels", folder, "--json")
    limits = ("--min-caught", 0.75, "--max-false-alarms", 0.25)
    done = command(*asked, "--new-judge", "judge", *limits)
    content = json.loads(done.stdout)
    assert (done.returncode, content["verdict"]) == (0, "certified"), done.stderr
    assert content["judges"][0]["counts"]["n_both"] == 200
    lazy = json.loads(command(*asked, "--new-judge", "lazy_judge", *limits).stdout)
    assert lazy["verdict"] == "inconclusive" and "looked at before" in lazy["judges"][0]["reason"]
    fresh = command(*asked[:-1], "--new-judge", "lazy_judge", *limits, "--json")
    assert json.loads(fresh.stdout) == lazy
    asking = calibrail.Requirement(max_fpr=0.25, min_coverage=0.75)
    ours = calibrail.judge_on_labels(tmp_path / "g.json", folder, "lazy_judge", file, asking)
    assert (ours.verdict, ours.judges[0]["caught"]) == (
        lazy["verdict"],
        lazy["judges"][0]["caught"],
    )
    # A detector of our own is tested on the texts that were set aside.
    (tmp_path / "labels.looks.json").unlink()
    own = command("recalibrate", tmp_path / "g.json", *asked[3:], "--new-judge", "length", *limits)
    assert own.returncode in (3, 4) and json.loads(own.stdout)["judges"][0]["threshold"] > 1
    # Without a limit on false alarms here or in the guardrail, one on what is caught is half.
    half = command(
        "recalibrate", tmp_path / "g.json", *asked[3:], "--new-judge", "length", *limits[:2]
    )
    assert half.returncode == 2 and "give --min-caught and --max-false-alarms" in half.stderr
    nobody = command("recalibrate", tmp_path / "g.json", *asked[3:], "--new-judge", "nobody")
    assert nobody.returncode == 2 and "no column of the answers in" in nobody.stderr
    assert command(*asked[:2], *asked[3:5]).returncode == 2
