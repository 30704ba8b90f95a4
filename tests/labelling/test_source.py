"""Are labels read as labelled answers, with what they mean, and refused where they mislead?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calibrail
from calibrail.data.reading import read_all
from calibrail.errors import DataError
from calibrail.options import Drawing, Promise
from tests.command_line import calibrail as command
from tests.labelling.rows import frozen, label_some, lines, traces, truth

SCORE = "column:column=suspicion,higher=hallucinated"


def labelled(folder: Path, n: int = 60) -> Path:
    """Return a folder with labels of n traces."""
    with calibrail.label(traces(200), folder, promise=Promise(0.2)) as session:
        label_some(session, "ada", n)
    return folder


def test_labels_are_answers_with_their_texts_groups_and_columns(tmp_path: Path) -> None:
    rows = {row["id"]: row for row in traces(40, groups=30)}
    with calibrail.label(list(rows.values()), tmp_path, promise=Promise(0.2)) as session:
        ids = label_some(session, "ada", 30)
    examples, reading = read_all(tmp_path, keep=("suspicion",))
    assert [example.id for example in examples] == ids
    assert (reading.format, reading.n_filtered) == ("labels", 0)
    for example in examples:
        row = rows[example.id]
        assert example.label == truth(example.id)
        assert (example.question, example.response) == (row["question"], row["response"])
        assert list(example.contexts) == row["contexts"]
        assert example.group == row["group"]
        assert example.columns["suspicion"] == row["suspicion"]


def test_what_people_marked_while_they_labelled_are_marks(tmp_path: Path) -> None:
    rows = traces(40)
    with calibrail.label(rows, tmp_path, promise=Promise(0.2), shared=1.0) as session:
        for annotator, (start, end) in (("ada", (0, 6)), ("bob", (3, 11))):
            for _ in range(20):
                task = session.next(annotator)
                assert task is not None
                label = truth(task.id)
                # Of some answers people say that they are wrong, and not where.
                mark = label == 1 and int(task.id[1:]) % 2 == 0
                span = (start, end, task.response[start:end])
                session.put(annotator, task.order, label, spans=[span] if mark else [])
    examples, reading = read_all(tmp_path, by_sentence=True)
    marked = {example.id: example.spans for example in examples}
    assert set(marked.values()) == {(), ((0, 11),)}
    assert all((marked[e.id] != ()) == (e.label == 1) for e in examples)
    unmarked = reading.reasons["spans", "hallucinated, and nobody marked what"]
    assert unmarked > 0 and unmarked + len(examples) == 20


def test_what_takes_no_part_is_counted_by_its_reason(tmp_path: Path) -> None:
    with calibrail.label(traces(60), tmp_path, promise=Promise(0.2), shared=1.0) as session:
        for annotator in ("ada", "bob"):
            for number in range(12):
                task = session.next(annotator)
                assert task is not None
                label: int | None = truth(task.id)
                if number == 2:
                    label = None
                if number == 6 and annotator == "bob":
                    label = 1 - truth(task.id)
                session.put(annotator, task.order, label)
        # What is on a screen when labelling stops is nothing left out.
        assert session.next("ada") is not None
    examples, reading = read_all(tmp_path)
    assert len(examples) == 5
    assert dict(reading.filtered) == {
        "nobody could tell": 1,
        "annotators disagree, and nobody has settled it": 1,
        "labelled, but behind an answer that is not settled yet": 5,
    }
    with calibrail.label(None, tmp_path, settle=True) as session:
        task = session.next("cleo")
        assert task is not None and task.settles
        session.put("cleo", task.order, 1)
    examples, reading = read_all(tmp_path)
    assert len(examples) == 11 and examples[5].label == 1
    assert dict(reading.filtered) == {"nobody could tell": 1}


def test_commands_read_them_and_the_report_says_what_was_left_out(tmp_path: Path) -> None:
    folder = labelled(tmp_path / "labels")
    with calibrail.label(None, folder) as session:
        task = session.next("ada")
        assert task is not None
        session.put("ada", task.order, None)
    out = tmp_path / "run"
    done = command("calibrate", folder, "--score", SCORE, "--alpha", "0.2", "-o", out)
    assert done.returncode == 0, done.stderr
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["data"]["format"] == "labels"
    assert report["data"]["filtered"] == {"nobody could tell": 1}
    origin = {"purpose": "calibrate", "design": "uniform", "seed": 0, "guardrail": None}
    origin |= {"judge": None, "n_changed": 0}
    assert report["data"]["reading"]["origin"] == origin
    assert any("nobody could tell (1)" in note for note in report["notes"])
    diagnosis = json.loads(command("doctor", folder, "--json").stdout)
    assert (diagnosis["format"], diagnosis["usable"], diagnosis["filtered"]) == ("labels", 60, 1)
    scores, out = ("--score", SCORE, "--score", "length"), tmp_path / "compared"
    compared = command("compare", folder, *scores, "--alpha", "0.2", "--json", "-o", out)
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout)["data"]["format"] == "labels"


def test_answers_that_do_not_count_alike_are_refused_with_the_way_out(tmp_path: Path) -> None:
    drawing = Drawing("active")
    with calibrail.label(
        traces(60), tmp_path, guardrail=frozen(), max_fpr=0.3, drawing=drawing
    ) as session:
        label_some(session, "ada", 15)
    if len({line["probability"] for line in lines(tmp_path / "draws.jsonl")}) == 1:
        path = tmp_path / "draws.jsonl"
        first, rest = path.read_text(encoding="utf-8").split("\n", 1)
        path.write_text(first.replace('"probability": 1.0', '"probability": 0.9') + "\n" + rest)
    for call in (calibrail.calibrate, calibrail.diagnose):
        with pytest.raises(DataError, match=r"different probabilities.*certify GUARDRAIL --labels"):
            call(tmp_path)


def test_labels_for_a_verdict_calibrate_with_a_warning_and_certify_nothing_else(
    tmp_path: Path,
) -> None:
    guardrail = frozen()
    with calibrail.label(traces(120), tmp_path, guardrail=guardrail, max_fpr=0.3) as session:
        label_some(session, "ada", 100)
    run = calibrail.calibrate(tmp_path, SCORE, Promise(0.2))
    assert any("labelled for the verdict on a guardrail" in note for note in run.report.notes)
    with pytest.raises(DataError, match=r"labelling stops when that is reached.*labels=\.\.\."):
        calibrail.certify(guardrail, tmp_path, max_fpr=0.3)
    with pytest.raises(DataError, match="another guardrail: label new answers for this one"):
        calibrail.certify(run.freeze(), tmp_path, max_fpr=0.3)


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    folder = labelled(tmp_path, 10)
    pool = folder / "pool.jsonl"
    kept = pool.read_text(encoding="utf-8").splitlines(keepends=True)
    pool.write_text("".join([kept[1], kept[0], *kept[2:]]), encoding="utf-8")
    with pytest.raises(DataError, match=r"pool\.jsonl does not hold the answer .* as number 1"):
        read_all(folder)
    pool.unlink()
    with pytest.raises(DataError, match=r"cannot read .*pool\.jsonl"):
        read_all(folder)
