"""The first commands on a stranger's file: what they understand, and what they say instead."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from calibrail.data.labels import is_unsaid
from calibrail.data.reading import read
from calibrail.data.traces._spans import contexts_in
from tests.command_line import calibrail

Cells = Callable[[int, int], Mapping[str, object]]


def answers(path: Path, cells: Cells, n: int = 120) -> str:
    """Write answers of which every third is hallucinated; return the file's name."""
    rows = []
    for i in range(n):
        bad = int(i % 3 == 0)
        about = {"id": f"a{i}", "question": f"Who won match {i}?", "context": f"Team {i} won it."}
        rows.append(about | {"answer": f"Team {i + bad} did win."} | cells(i, bad))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path.name


def run(tmp_path: Path, *words: object) -> str:
    done = calibrail(*words, cwd=tmp_path)
    return " ".join((done.stdout + done.stderr).split())


def chance(i: int, bad: int) -> float:
    """Return a score in (0, 1), higher where hallucinated, but not always."""
    return round(0.05 + (i * 37 % 60) / 100 + 0.3 * bad, 2)


@pytest.mark.parametrize(
    ("factor", "odd", "threshold", "meant"),
    [(100, (0,), 0.7, "70"), (100, (0,) * 30, 0.65, "65"), (1, (95, 80), 70, "0.7")],
)
def test_a_threshold_in_another_unit_than_the_scores_is_told(
    tmp_path: Path, factor: int, odd: tuple[int, ...], threshold: float, meant: str
) -> None:
    """A single score on its side of the threshold, or many zeros, do not hide it."""

    def cells(i: int, bad: int) -> dict[str, object]:
        score = odd[i] if i < len(odd) else chance(i, bad) * factor
        return {"hallucination_score": score, "hallucinated": bad}

    file = answers(tmp_path / "a.jsonl", cells)
    said = run(tmp_path, "test", file, "--threshold", threshold)
    assert "nine of ten scores lie from" in said
    assert f"calibrail test a.jsonl --threshold {meant}" in said


@pytest.mark.parametrize(("factor", "threshold"), [(1, 0.7), (100, 60), (10, 0.5), (60, 1.0)])
def test_a_threshold_among_the_scores_is_not_said_to_be_far(
    tmp_path: Path, factor: int, threshold: float
) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        score = chance(i, bad) * factor if factor != 60 else i % 4
        return {"hallucination_score": score if i % 5 else 0.0, "hallucinated": bad}

    file = answers(tmp_path / "a.jsonl", cells)
    assert "another unit" not in run(tmp_path, "test", file, "--threshold", threshold)


@pytest.mark.parametrize(
    ("column", "words"),
    [("judge_verdict", ("PASS", "FAIL")), ("judge_hallucinated", (False, True))],
)
def test_where_labels_are_turned_the_advice_turns_the_result(
    tmp_path: Path, column: str, words: tuple[object, object]
) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {column: words[int(chance(i, bad) > 0.45)], "label": 1 - bad}

    said = run(tmp_path, "test", answers(tmp_path / "a.jsonl", cells))
    before, _, command = said.partition("; the other way round: ")
    assert "the judge runs the other way" in before and "--higher" not in command
    again = run(tmp_path, *shlex.split(command.partition(" Caught ")[0])[1:])
    assert "catches" in again and "the other way" not in again


def test_where_a_score_is_turned_both_commands_turn_the_result(tmp_path: Path) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {"faithfulness": chance(i, bad), "label": bad}

    said = run(tmp_path, "test", answers(tmp_path / "a.jsonl", cells), "--threshold", 0.4)
    labels, _, score = said.partition("; the other way round: ")[2].partition(" or, if labels")
    for command in (labels, score.partition(": ")[2]):
        assert "the other way" not in run(tmp_path, *shlex.split(command)[1:])


@pytest.mark.parametrize(
    ("words", "option"),
    [(("no", "yes"), "--positive 0"), ((0, 1), "--judge-higher faithful")],
)
def test_the_option_said_turns_a_judge_that_contradicts_people(
    tmp_path: Path, words: tuple[object, object], option: str
) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {"judge_hallucinated": words[int(chance(i, bad) > 0.45)], "human": 1 - bad}

    asked = ("agree", answers(tmp_path / "a.jsonl", cells), "--judge-column", "judge_hallucinated")
    said = run(tmp_path, *asked)
    assert "less often than by chance" in said and f"add {option}" in said
    assert "less often than by chance" not in run(tmp_path, *asked, *option.split())


@pytest.mark.parametrize("command", ["calibrate", "compare"])
def test_a_file_with_one_score_of_its_own_is_about_that(tmp_path: Path, command: str) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {"groundedness": 1 - chance(i, bad), "hallucinated": bad}

    file = answers(tmp_path / "a.jsonl", cells)
    said = run(tmp_path, command, file, "-o", "run")
    assert "groundedness is the detector, the data's own column of scores" in said
    assert "higher value means faithful" in said and "rouge_l is the detector" not in said
    assert "--score-column groundedness --higher faithful" in run(tmp_path, "doctor", file)
    named = run(tmp_path, command, file, "-o", "named", "--score-column", "groundedness")
    assert "needs a direction" not in named and "groundedness" in named


def test_scores_that_nobody_can_choose_between_are_named(tmp_path: Path) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {"a_score": chance(i, bad), "b_score": i / 200, "hallucinated": bad}

    said = run(tmp_path, "calibrate", answers(tmp_path / "a.jsonl", cells), "-o", "run")
    assert "the data has scores of its own: a_score, b_score. Name one: --score-column" in said


@pytest.mark.parametrize(
    "cells",
    [
        lambda i, bad: {"hallucinated": bad, "score": chance(i, bad)},
        lambda i, bad: {"human_verdict": "abc"[bad], "a_score": chance(i, bad), "b_score": i / 200},
        lambda i, bad: {"human": bad, "judge": ("ok", "odd")[bad or i % 5 == 1]},
        lambda i, bad: {"hallucinated": bad, "judge_verdict": ("PASS", "FAIL")[bad or i % 5 == 1]},
        lambda i, bad: {"Bewertung": ("richtig", "falsch")[bad], "Punktzahl": chance(i, bad)},
    ],
)
def test_the_first_command_that_is_shown_runs(tmp_path: Path, cells: Cells) -> None:
    """All options are there at once, those to be chosen with what they may be."""
    answers(tmp_path / "a.jsonl", cells)
    said = calibrail(cwd=tmp_path).stdout
    following = said.partition("Next: ")[2].splitlines()
    command, _, _ = following[0].partition(", or calibrail")
    assert (" --threshold YOURS" in command) == ("judge" not in said)
    chosen = command.replace("--higher YOURS", "--higher hallucinated").replace("YOURS", "0.4")
    done = calibrail(*shlex.split(chosen)[1:], cwd=tmp_path)
    assert done.returncode == 0 and "catches" in done.stdout, done.stderr
    for option in ("--score-column", "--higher", "positive"):
        chosen = any(option in choice for choice in following[1:])
        # The column is named where its direction is to be chosen.
        assert chosen == (option in command) or (option, chosen) == ("--score-column", False)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("Frage Kontext Antwort Bewertung Punktzahl", ("richtig", "falsch")),
        ("Question Contexte Réponse Étiquette Score", ("vrai", "faux")),
        ("Pregunta Contexto Respuesta Etiqueta Puntuación", ("exacto", "inventado")),
    ],
)
def test_test_suggests_for_foreign_sheets_what_doctor_does(
    tmp_path: Path, names: str, words: tuple[str, str]
) -> None:
    heads, rows = names.split(), [names.replace(" ", ";")]
    for i in range(60):
        text = f"Wer ist es {i}?;Im Text {i} steht es so.;Es ist die Nummer {i}."
        rows.append(f"{text};{words[i % 3 == 0]};0,{10 + i}")
    (tmp_path / "a.csv").write_text("\n".join(rows), encoding="utf-8")
    options = f"--label-column {shlex.quote(heads[3])} --positive {words[1]}"
    said = run(tmp_path, "test", "a.csv", "--threshold", 0.5)
    assert options in said and f"a higher value of {heads[4]}" in said
    assert options in run(tmp_path, "doctor", "a.csv")
    named = ("test", "a.csv", *shlex.split(options), "--higher", "faithful", "--threshold", "0,5")
    assert "60 answers of a.csv, 20 hallucinated" in run(tmp_path, *named)
    assert dict(read(tmp_path / "a.csv", labelled=False).columns.by_field)["response"] == heads[2]


@pytest.mark.parametrize("column", ["gpt_verdict", "llm_label", "judge"])
def test_without_labels_people_are_to_label(tmp_path: Path, column: str) -> None:
    """What a program said is offered as no truth."""

    def cells(i: int, bad: int) -> dict[str, object]:
        return {column: ("PASS", "FAIL")[bad], "hallucination_score": chance(i, bad)}

    file = answers(tmp_path / "a.jsonl", cells)
    said = run(tmp_path, "test", file, "--threshold", 0.5)
    assert "calibrail label DATA -o labels" in said and "labels may stand in" not in said
    assert ": calibrail label a.jsonl -o labels" in run(tmp_path, "doctor", file)


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ({"question": "q", "context": ["One.", "Two."]}, "a"),
        ({"args": [], "kwargs": {"query": "q", "retrieved_contexts": ["One.", "Two."]}}, "a"),
        ({"question": "q"}, {"answer": "a", "documents": [{"text": "One."}, {"text": "Two."}]}),
    ],
)
def test_documents_beside_a_question_or_an_answer_are_its_contexts(
    tmp_path: Path, inner: object, outer: object
) -> None:
    assert contexts_in(outer, inner) == ["One.", "Two."]
    row = {"id": "t", "timestamp": "2025", "userId": "u", "input": inner, "output": outer}
    (tmp_path / "a.json").write_text(json.dumps([row, row | {"id": "u"}]), encoding="utf-8")
    first, _ = read(tmp_path / "a.json", labelled=False)
    assert first.contexts == ("One.", "Two.") and first.question == "q"


def test_what_a_person_said_in_promptfoo_is_no_score(tmp_path: Path) -> None:
    def result(i: int, kinds: Mapping[str, float]) -> dict[str, Any]:
        parts = [
            {"pass": score > 0.5, "score": score, "assertion": {"type": kind}}
            for kind, score in kinds.items()
        ]
        row = {"vars": {"question": f"{i}?"}, "response": {"output": f"It is {i}."}, "id": str(i)}
        return row | {"score": kinds["human"], "gradingResult": {"componentResults": parts}}

    for name, more in (("people.json", False), ("both.json", True)):
        rows = [
            result(i, {"human": float(i % 3 > 0)} | ({"llm-rubric": i / 120} if more else {}))
            for i in range(120)
        ]
        (tmp_path / name).write_text(json.dumps({"results": rows}), encoding="utf-8")
    assert "no column of numbers or verdicts" in run(tmp_path, "test", "people.json")
    said = run(tmp_path, "test", "both.json", "--threshold", 0.5, "--higher", "faithful")
    assert "40 hallucinated" in said and "score.llm-rubric is 0.5 or less" in said


@pytest.mark.parametrize("name", ["human_label", "human_ok", "human"])
def test_doctor_and_test_take_the_same_column_for_peoples(tmp_path: Path, name: str) -> None:
    rows = [
        {
            "input": f"{i}?",
            "actualOutput": f"It is {i}.",
            "metricsData": [
                {"name": name, "score": i % 3 > 0},
                {"name": "faithfulness", "score": i / 120},
            ],
        }
        for i in range(120)
    ]
    (tmp_path / "a.json").write_text(json.dumps({"testCases": rows}), encoding="utf-8")
    said = run(tmp_path, "doctor", "a.json", "--positive", "false")
    assert f"Said by people score.{name} (120)" in said
    assert "Said by programs score.faithfulness (120)" in said
    assert f"(score.{name} =" in run(
        tmp_path, "test", "a.json", "--threshold", 0.5, "--positive", "false"
    )


@pytest.mark.parametrize(
    ("given", "read_as"), [("0,7", "0.7"), (" 0.7", "0.7"), ("0,700", "0.7"), ("7e-1", "0.7")]
)
def test_a_number_is_read_as_people_write_it(tmp_path: Path, given: str, read_as: str) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {"hallucination_score": chance(i, bad), "hallucinated": bad}

    file = answers(tmp_path / "a.jsonl", cells)
    goals = ("--min-caught", "50%", "--max-false-alarms", "99,5 %")
    said = run(tmp_path, "test", file, "--threshold", given, *goals)
    assert f"At {read_as} it caught" in said and "required <= 99.5%" in said


@pytest.mark.parametrize(
    ("given", "remedy"),
    [("70%", "write 0.7 or 70"), ("7/10", "such as 0.7"), ("1,000", "such as 0.7")],
)
def test_a_number_that_may_mean_two_is_refused_with_the_remedy(given: str, remedy: str) -> None:
    done = calibrail("test", "none.jsonl", "--threshold", given)
    assert done.returncode == 2 and f"got {given!r}" in done.stderr
    assert remedy in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("column", "good", "unsaid"),
    [("human_label", True, True), ("annotation", 1, True), ("is_faithful", True, False)],
)
def test_how_a_label_was_read_that_says_nothing_stands_beside_the_result(
    tmp_path: Path, column: str, good: object, unsaid: bool
) -> None:
    def cells(i: int, bad: int) -> dict[str, object]:
        return {column: type(good)(not bad), "hallucination_score": chance(i, bad)}

    said = run(tmp_path, "test", answers(tmp_path / "a.jsonl", cells), "--threshold", 0.4)
    value = str(good).lower() if isinstance(good, bool) else good
    turned = f"--positive {'false' if value == 'true' else 0} reads it the other way round"
    assert (f"which its name does not say; {turned}" in said) == unsaid
    assert is_unsaid(column, [good]) == unsaid
