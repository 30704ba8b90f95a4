"""Does `calibrail doctor` say what is marked, and does the command that it prints run?"""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import calibrail

N = 60


def answers() -> list[dict[str, Any]]:
    """Return answers of two sentences; in every other one the second is made up."""
    made = []
    for i in range(N):
        bad = i % 2
        first = f"Dam {i} was opened in {1900 + i}."
        second = f"A whale {i} lives below." if bad else f"It holds lake {i}."
        made.append(
            {
                "id": f"a{i}",
                "question": f"What of dam {i}?",
                "contexts": [f"Dam {i} was opened in {1900 + i} and holds lake {i}. It is high."],
                "response": f"1. {first} {second}",
                "label": bad,
                "spans": [[len(first) + 4, len(first) + 11]] if bad else [],
            }
        )
    return made


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def looked_at(path: Path, *options: object) -> tuple[dict[str, Any], str]:
    """Return the marks in JSON, and what the terminal shows, on one line."""
    found = json.loads(calibrail("doctor", path, "--json", *options).stdout)
    shown = calibrail("doctor", path, *options)
    assert shown.returncode == 0 and not shown.stderr
    return found, " ".join(shown.stdout.split())


def test_spans_are_told_and_the_command_runs(tmp_path: Path) -> None:
    rows = answers()
    # In the mark of a list, where nothing can remove it; and two that nobody can use.
    rows[1]["spans"].append([0, 2])
    rows[3]["spans"], rows[4]["spans"] = None, [[3, 6]]
    path = lines(tmp_path / "answers.jsonl", rows)
    found, shown = looked_at(path)
    marks = found["marks"]
    assert {
        key: marks[key] for key in ("kind", "n", "hallucinated", "sentences", "unsupported")
    } == {
        "kind": "spans",
        "n": N - 2,
        "hallucinated": N // 2 - 1,
        "sentences": 2 * (N - 2),
        "unsupported": N // 2 - 1,
    }
    assert (marks["median_sentences"], marks["outside_chars"]) == (2.0, 2)
    assert sorted(marks["set_aside"]) == [
        ["spans", "faithful, and something is marked", 1],
        ["spans", "hallucinated, and nobody marked what", 1],
    ]
    # Answers taken whole need no marks.
    assert (found["usable"], found["n_hallucinated"]) == (N, N // 2)
    codes = [item["code"] for item in found["warnings"]]
    assert {"marks_unclear", "marked_outside"} <= set(codes)
    for part in (
        "Answers 58: 29 hold an unsupported sentence",
        "Sentences 116: 29 unsupported (25%)",
        "2 of them in no sentence",
        "Cannot be used 1 x spans: hallucinated, and nobody marked what",
    ):
        assert part in shown
    added = "--unit sentence --guarantee marginal --min-kept 0.7"
    assert f"from --alpha 0.1 on: add {added} to calibrail calibrate" in shown
    assert shown.count("calibrail calibrate ") == 3 and "or, sentence by sentence:" in shown
    assert run_as_printed(shown, tmp_path)["data"]["n_examples"] == N - 2
    # The other one is about whole answers.
    whole, _, _ = shown.rpartition("or, sentence by sentence:")
    assert "--unit" not in command_in(whole)


def test_a_share_of_the_sentence_is_told(tmp_path: Path) -> None:
    path = lines(tmp_path / "answers.jsonl", answers())
    found, shown = looked_at(path, "--span-share", "0.5")
    assert (found["marks"]["unsupported"], found["marks"]["hallucinated"]) == (0, 0)
    assert "spans cover 50% of it or more" in shown
    assert "not yet: there are too few answers of either class" in shown


def command_in(shown: str) -> list[str]:
    """Return the words of the last command, without the name of the program and the folder."""
    words = shlex.split(shown[shown.rindex("calibrail calibrate ") :])
    assert words[-2:] == ["-o", "run"]
    return words[1:-2]


def run_as_printed(shown: str, folder: Path) -> dict[str, Any]:
    """Run the last command, and return its report, which is by sentence."""
    done = calibrail(*command_in(shown), "-o", folder / "run")
    assert done.returncode in (0, 3, 4), done.stderr
    report: dict[str, Any] = json.loads((folder / "run" / "report.json").read_text("utf-8"))
    assert report["unit"] == "sentence"
    return report


@pytest.mark.parametrize("known", [True, False])
def test_rows_that_are_sentences_are_told(tmp_path: Path, known: bool) -> None:
    path = tmp_path / "sentences.csv"
    names = ("id", "group", "response", "label", "grade" if known else "kind", "nli")
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(names)
        for i in range(N):
            for j in range(3):
                bad = int(i % 2 and j == 1)
                table.writerow(
                    [
                        f"{i}-{j}",
                        f"p{i}",
                        f"Sentence {i} of {j}.",
                        bad,
                        "x",
                        0.1234567890123 * (bad + j),
                    ]
                )
    found, shown = looked_at(path, *([] if known else ["--map", "answer_id=group"]))
    assert (found["marks"]["kind"], found["marks"]["n"], found["marks"]["sentences"]) == (
        "rows",
        N,
        3 * N,
    )
    assert "a row for each sentence, gathered to answers" in shown
    assert "--map contexts" not in shown
    assert run_as_printed(shown, tmp_path)["data"]["n_examples"] == N
    # Taken whole a row is an answer, unless it is said which answer it belongs to.
    assert found["usable"] == (3 * N if known else N)


def test_without_marks_nothing_is_said_of_them(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "spans"} for row in answers()]
    found, shown = looked_at(lines(tmp_path / "answers.jsonl", rows))
    assert found["marks"] is None
    assert "Marks" not in shown
