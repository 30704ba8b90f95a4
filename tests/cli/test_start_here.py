"""``calibrail`` alone shows what stands in a folder, and asks only whoever sits before it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from calibrail.pipelines import discover as discovery
from calibrail.pipelines.discover import FoundFile, discover
from tests.command_line import calibrail

TABLE = "question,answer,label,judge_score\nWho?,She.,faithful,0.3\nWho?,He.,hallucinated,0.9\n"
FILES = {
    "answers.csv": TABLE,
    "below/again.csv": TABLE.replace("judge_score", "p_hallucinated"),
    "below/ragas.csv": "user_input,retrieved_contexts,response,faithfulness\nx,y,z,0.5\n",
    "below/promptfoo.json": '{"results": {"results": [{"gradingResult": {"pass": true}, "vars": '
    '{"q": "x"}, "response": {"output": "y"}}]}}',
    "below/deepeval.json": '{"testCases": [{"input": "q", "actualOutput": "", "metricsData": []}]}',
    "scores.jsonl": '{"p_hallucinated": 0.5, "text": "x"}\n',
    "odd.csv": "label_supported,score\n1,high\n",
    # What is none of it, or not to be looked at.
    "package.json": '{"name": "x", "version": 1}',
    "plain.csv": "a,b\n1,2\n",
    "broken.parquet": "PAR1",
    "empty.csv": "",
    "notes.txt": TABLE,
    ".hidden/answers.csv": TABLE,
    "node_modules/answers.csv": TABLE,
    "a/b/c/d/e/f/answers.csv": TABLE,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "below/link.csv").symlink_to(tmp_path / "answers.csv")
    return tmp_path


def test_what_holds_labels_and_scores_stands_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "large.jsonl").write_bytes(b" " * 20_000)
    monkeypatch.setattr(discovery, "LARGE", 20_000)
    found = {str(item.path): (item.tool, item.labels, item.scores) for item in discover(folder)}
    both = ("", ("label",), ("judge_score",))
    assert found == {
        "answers.csv": both,
        "below/again.csv": ("", ("label",), ("p_hallucinated",)),
        "odd.csv": ("", ("label_supported",), ()),
        "below/deepeval.json": ("deepeval", (), ()),
        "below/promptfoo.json": ("promptfoo", (), ()),
        "below/ragas.csv": ("ragas", (), ("faithfulness",)),
        # Its name alone is told.
        "large.jsonl": ("", (), ()),
        "scores.jsonl": ("", (), ("p_hallucinated",)),
    }
    assert list(found)[:3] == ["answers.csv", "below/again.csv", "odd.csv"]
    assert list(found)[-1] in ("scores.jsonl", "large.jsonl")


def test_a_sheet_of_a_country_is_found_and_its_command_runs(tmp_path: Path) -> None:
    """As Excel saves it: semicolons, decimal commas, the encoding of the country."""
    rows = [f"{i};{i % 2};{i % 2},{i:03d};Größe {i} in Öl" for i in range(60)]
    sheet = "\n".join(["id;label;judge_score;answer", *rows])
    (tmp_path / "sheet.csv").write_text(sheet, encoding="cp1252")
    (found,) = discover(tmp_path)
    assert found.is_testable and found.encoding == "cp1252"
    said = calibrail(cwd=tmp_path).stdout
    words = ["test", "sheet.csv", "--reader-option", "encoding=cp1252"]
    assert " ".join(words[1:]) in said
    run = calibrail(*words, "--threshold", 0.5, "--higher", "hallucinated", cwd=tmp_path)
    assert run.returncode == 0 and "60 answers of sheet.csv, 30 hallucinated" in run.stdout


def test_the_search_has_an_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "ENTRIES", 3)
    assert len(discover(folder)) <= 3
    monkeypatch.setattr(discovery, "ENTRIES", 5_000)
    monkeypatch.setattr(discovery, "OPENED", 1)
    assert [str(item.path) for item in discover(folder)] == ["answers.csv"]


def test_in_a_pipe_nobody_is_asked(folder: Path, tmp_path: Path) -> None:
    run = calibrail(cwd=folder)
    assert run.returncode == 0 and not run.stderr
    first, *listed, following, choice = run.stdout.splitlines()
    assert choice == "  --higher: hallucinated or faithful, which a higher judge_score means"
    assert first == "In this folder:" and len(listed) == 7
    assert listed[0].split() == [
        *("1", "answers.csv", "table;", "labels:", "label;", "scores:", "judge_score")
    ]
    assert "results of ragas; scores: faithfulness" in run.stdout
    assert following.endswith("doctor answers.csv") and "test answers.csv" in following
    (tmp_path / "nothing").mkdir()
    run = calibrail(cwd=tmp_path / "nothing")
    assert run.returncode == 0 and len(run.stdout.splitlines()) == 3
    assert "calibrail calibrate example:facts" in run.stdout


@pytest.mark.parametrize(
    ("typed", "shows", "code"),
    [
        ("2\n0.5\n", "calibrail test below/again.csv --threshold 0.5", None),
        ("2\n\n", "calibrail doctor below/again.csv", 0),
        # Nobody but its owner knows what a higher score means.
        ("1\n", "--higher YOURS --threshold YOURS", 0),
        ("\n", "Which one?", 0),
        ("99\n", "Which one?", 0),
        # Whoever types the end of a text has had enough.
        ("\x04", "Enter for none: \r\n", 0),
        ("2\n\x04", "(Enter: look first): \r\n", 0),
    ],
)
def test_before_a_terminal_the_chosen_file_is_looked_at(
    folder: Path, typed: str, shows: str, code: int | None
) -> None:
    above, below = pty.openpty()
    command = [sys.executable, "-m", "calibrail"]
    process = subprocess.Popen(command, cwd=folder, stdin=below, stdout=below, stderr=below)
    os.close(below)
    os.write(above, typed.encode())
    printed = b""
    while True:
        try:
            piece = os.read(above, 65_536)
        except OSError:
            break
        if not piece:
            break
        printed += piece
    os.close(above)
    process.wait(60)
    assert shows in printed.decode()
    assert code is None or process.returncode == code


def test_a_large_file_says_that_it_was_not_opened() -> None:
    item = FoundFile(Path("x y.csv"), "", (), (), False, 81_000_000)
    _, listed, following = discovery.shown([item])
    assert "81 MB, not opened" in listed and following.endswith("doctor 'x y.csv'")


@pytest.mark.parametrize(
    ("labels", "named"), [("label", ""), ("human_verdict", ""), ("gold", "--label-column gold ")]
)
def test_the_command_that_is_suggested_runs(tmp_path: Path, labels: str, named: str) -> None:
    words = ["unsupported,UNSUPPORTED", "supported,SUPPORTED", "supported,UNSUPPORTED"] * 40
    rows = "".join(f"Question {n}?,answer {n},{word}\n" for n, word in enumerate(words))
    (tmp_path / "judged.csv").write_text(f"prompt,completion,{labels},judge_output\n{rows}")
    said = calibrail(cwd=tmp_path).stdout
    assert f"calibrail test judged.csv {named}".rstrip() in " ".join(said.split())
    done = calibrail("test", "judged.csv", *named.split(), cwd=tmp_path)
    assert done.returncode == 0 and "judge_output says hallucinated" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "names", ["reference,hallucinated", "correct,hallucinated", "answer,edited", "chosen,rejected"]
)
def test_two_answers_of_a_row_are_found_and_read_as_is_said(tmp_path: Path, names: str) -> None:
    # Short answers, of which one column goes by the name of a label.
    rows = "".join(f"Who was no. {n}?,Ann {n % 9}{n},Bo {n}\n" for n in range(40))
    (tmp_path / "edits.csv").write_text(f"question,{names}\n{rows}")
    said = calibrail(cwd=tmp_path).stdout
    assert "a right and a wrong answer in each row" in said and said.endswith("doctor edits.csv\n")
    right, wrong = names.split(",")
    pair = f"faithful={right},hallucinated={wrong}"
    advised = calibrail("doctor", "edits.csv", cwd=tmp_path).stdout
    assert f"doctor edits.csv --pair {pair}" in advised
    read = calibrail("doctor", "edits.csv", "--pair", pair, cwd=tmp_path).stdout
    assert "80: 40 hallucinated, 40 faithful" in read


def test_labels_beside_a_reference_and_an_edit_are_labels(tmp_path: Path) -> None:
    rows = "".join(f"Ann {n},Bo {n},{n % 2},0.{n % 9}\n" for n in range(40))
    (tmp_path / "edits.csv").write_text(f"reference,edited,label,score\n{rows}")
    said = calibrail(cwd=tmp_path).stdout
    assert "labels: label; scores: score" in said and "a wrong answer" not in said


@pytest.mark.parametrize("said", ["No hallucination,Hallucination", "no: it is there,yes: made up"])
def test_labels_that_say_more_than_a_word_are_no_wrong_answers(tmp_path: Path, said: str) -> None:
    words = said.split(",")
    ends = ("", "") if "No " in said else (" in passage %d", " in line %d")
    rows = [
        f"an answer {n} of some words,{words[n % 2]}{ends[n % 2] and ends[n % 2] % n},0.{n % 9}"
        for n in range(60)
    ]
    (tmp_path / "a.csv").write_text("answer,hallucination,score\n" + "\n".join(rows))
    assert "a wrong answer" not in calibrail(cwd=tmp_path).stdout
    assert "--pair" not in calibrail("doctor", "a.csv", cwd=tmp_path).stdout


def test_short_right_answers_stay_what_they_were(tmp_path: Path) -> None:
    rows = "".join(f"q{n},out {n},ref {n % 7}{n},{n % 2}\n" for n in range(60))
    (tmp_path / "qa.csv").write_text(f"input,output,reference,label\n{rows}")
    advised = calibrail("doctor", "qa.csv", cwd=tmp_path).stdout
    assert "Ready" in advised and "--map" not in advised


def test_what_calibrail_wrote_is_not_offered_as_data(tmp_path: Path) -> None:
    rows = "".join(f"q{n},{n % 2},{(n % 2) + (n % 7) / 9}\n" for n in range(60))
    (tmp_path / "mine.csv").write_text(f"question,label,score\n{rows}")
    words = ("mine.csv", "--higher", "hallucinated", "--threshold", 0.9, "-o", "RUN")
    assert calibrail("test", *words, cwd=tmp_path).returncode == 0
    calibrail("export", "RUN", "-o", "g.json", cwd=tmp_path)
    calibrail("check", "g.json", "mine.csv", "-o", "decided.jsonl", cwd=tmp_path)
    assert (tmp_path / "decided.jsonl").stat().st_size
    said = calibrail(cwd=tmp_path).stdout
    assert "mine.csv" in said and not {"RUN", "g.json", "decided.jsonl"} & {*said.split()}
    assert "  2 " not in said


def test_a_persons_words_go_before_the_grades_of_a_judge(tmp_path: Path) -> None:
    rows = "".join(f"{n};Antwort {n};{1 + n % 5};{('ja', 'nein')[n % 2]}\n" for n in range(60))
    head = "Nr;Antwort;Bewertung Prüfmodell (1-5);Antwort korrekt?"
    (tmp_path / "a.csv").write_text(f"{head}\n{rows}")
    advised = " ".join(calibrail("doctor", "a.csv", cwd=tmp_path).stdout.split())
    assert "--label-column 'Antwort korrekt?' --positive nein" in advised


def test_a_judge_is_tested_by_its_words_and_not_by_how_sure_it_is(tmp_path: Path) -> None:
    said = [("hallucinated", "FAIL"), ("faithful", "PASS"), ("faithful", "FAIL")] * 30
    rows = "".join(f"answer number {n},{a},{b},0.{60 + n % 39}\n" for n, (a, b) in enumerate(said))
    (tmp_path / "a.csv").write_text(f"answer,human_label,judge,judge_confidence\n{rows}")
    assert "Next: calibrail test a.csv, or calibrail doctor" in calibrail(cwd=tmp_path).stdout
    advised = calibrail("doctor", "a.csv", cwd=tmp_path).stdout
    assert "test a.csv --score-column judge --higher hallucinated -o run" in advised
    # Without words it is all that there is.
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text().replace("judge,", "kind,"))
    rest = (tmp_path / "b.csv").read_text().replace("PASS", "short").replace("FAIL", "long")
    (tmp_path / "b.csv").write_text(rest)
    assert "--score-column judge_confidence" in calibrail("doctor", "b.csv", cwd=tmp_path).stdout


def test_columns_of_several_annotators_are_named_together(tmp_path: Path) -> None:
    words = ("faithful", "hallucinated")
    rows = [f"q{n},a,{words[n % 2]},{words[n // 2 % 2]},0.{n % 9}" for n in range(60)]
    table = ["question,answer,rater1,rater2,p_hallucinated", *rows]
    (tmp_path / "a.csv").write_text("\n".join(table))
    said = calibrail(cwd=tmp_path).stdout
    assert "--label-column: rater1, rater2, whichever holds the label; rater1,rater2, where" in said
    both = ["--label-column", "rater1,rater2", "--annotators", "any"]
    done = calibrail("test", "a.csv", *both, "--threshold", 0.5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_scores_within_objects_are_shown(tmp_path: Path) -> None:
    row = {"label": 1, "scores": {"faithfulness": 0.5}, "metrics": {"grounded": {"value": 0.25}}}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n" * 2)
    (found,) = discover(tmp_path)
    assert found.scores == ("scores.faithfulness", "metrics.grounded.value")


def test_a_label_whose_other_word_nobody_knows_is_shown_with_what_reads_it(tmp_path: Path) -> None:
    rows = "".join(f"q{n},a,{('ok', 'hallucinated')[n % 3 == 0]},0.{n % 9}\n" for n in range(60))
    (tmp_path / "a.csv").write_text(f"question,answer,label,judge_score\n{rows}")
    done = calibrail(cwd=tmp_path)
    assert "--label-map ok=0,hallucinated=1" in done.stdout, done.stderr
    assert "check that this is so" in done.stdout and "Traceback" not in done.stderr
    advice = calibrail("doctor", "a.csv", cwd=tmp_path).stdout
    assert "--label-map hallucinated=1,ok=0" in advice and "in place of each ?" not in advice


def test_a_first_test_loads_what_it_needs() -> None:
    """Half of what a first command takes is what it imports."""
    script = (
        "import sys; from calibrail.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    words = ["test", "example:judge", "--threshold", "0.7"]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    loaded = set(done.stderr.split())
    assert "calibrail.pipelines.fixed_threshold" in loaded, done.stderr
    unneeded = ("labelling.ledger", "evaluation.compare", "evaluation.winner", "data.profile")
    own = {f"calibrail.{name}" for name in (*unneeded, "guardrail.file")}
    assert loaded.isdisjoint(
        own | {"typer", "pydantic", "pandas", "pyarrow.compute", "scipy.stats"}
    )
