"""Does ``calibrail agree`` print verdict, exit code, estimates, and why?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import calibrail
from calibrail import cli
from calibrail.cli import evidence as command
from calibrail.cli.output import OF_VERDICT
from calibrail.cli.parameters import command as as_command
from calibrail.errors import DataError, InputError
from calibrail.pipelines.agree import agree
from calibrail.report.text import interval
from calibrail.scores.registry import build_column
from tests.answers import rows, write
from tests.pipelines.test_agree import COLUMNS, SCORES, judged, standing_in

APP = as_command(command.agree_command, panel=None, name="agree")
LABELS = ("--label-column", "human", "--judge-column", "judge")
LIMITS = ("--min-caught", 0.8, "--max-false-alarms", 0.2)
FLAGS = ("--score-column", "detector", "--higher", "hallucinated", "--threshold", "0.75")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, [*map(str, arguments)], env={"COLUMNS": "80"})


def words(result: Result) -> str:
    return " ".join(result.stdout.split())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return write(tmp_path / "answers.jsonl", judged())


def test_the_verdict_comes_first_then_agreement_then_both_estimates(answers: Path) -> None:
    done = run(answers, *LABELS, *FLAGS, *LIMITS)
    result = agree(answers, **COLUMNS, **SCORES, min_caught=0.8, max_false_alarms=0.2)
    assert done.exit_code == OF_VERDICT[str(result.verdict)], done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    text, (judge,) = words(done), result.judges
    parts = (str(result.verdict).upper(), "of what people call hallucinated, and flags")
    parts += (
        "each interval alone",
        "Finds hallucinated (sensitivity)",
        "Cohen's kappa",
        # Other ranges than those that decide have a name.
        "Both ranges of judge together have 95% confidence: ",
        "McNemar",
        "Rates from labels of people",
    )
    parts += ("each alone with a 95% interval", "Assumptions", "Next:")
    order = [text.index(part) for part in parts]
    assert order == sorted(order)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Caught ")]
    known = judge["rates"]["coverage"]["prediction_powered"]["estimate"]
    assert f"{100 * known:.1f}".removesuffix(".0") + "%" in line
    assert "checked by simulation, not proven" in text
    # The sentence has the ends of the tiles, to the same digits; others are in the details.
    lead, last = text.partition("each interval alone")[0], text.rpartition("Next:")[2]
    for name in ("caught", "false_alarms"):
        assert interval(judge[name]) not in lead and interval(judge[name]) in text
    ends = re.findall(r"\((at (?:least|most) [\d.]+%) shown\)", lead)
    assert ends and all(f" {end} (measured " in last for end in ends)
    # The verdict is what is left on a small screen: with what is shown and required of both.
    (last,) = re.findall(rf"(?m)^{str(result.verdict).upper()}: [^\n]*\n?[^\n]*", done.stdout)
    assert last.count("required") == 2 and ">= 80%" in last and "<= 20%" in last


@pytest.mark.parametrize(
    ("share", "code", "says"),
    [
        (0.02, 0, "judge may stand in for people"),
        (0.4, 3, "judge may not stand in for people"),
        (0.1, 4, "Have people label about"),
    ],
)
def test_the_exit_code_is_the_verdict(tmp_path: Path, share: float, code: int, says: str) -> None:
    source, _ = standing_in(tmp_path, {"judge": (share, share)}, n=100 if code == 4 else 600)
    done = run(source, *LABELS, *LIMITS)
    assert done.exit_code == code and says in words(done)


def test_errors_are_listed_by_segment_on_request_alone(tmp_path: Path) -> None:
    source, _ = standing_in(tmp_path, {"judge": (0.3, 0.1)}, n=100)
    without, page = run(source, *LABELS, "--by", "lang"), tmp_path / "page.html"
    assert "Answer " not in without.stdout and "By lang" in without.stdout
    listed = run(source, *LABELS, "--by", "lang", "--errors", "--page", page)
    content, shown = page.read_text(), re.findall(r"\d+ disagreements", listed.stdout)
    assert len(shown) == 2 and "Answer " in content
    # The page says how many there are, too, and of which the first are left out.
    assert re.search(rf"<p[^>]*>\s*{shown[-1]}\b", content)
    assert json.loads(run(source, *LABELS, "--json").stdout)["errors"] == []


def test_json_is_the_result(answers: Path) -> None:
    done = run(answers, *LABELS, *FLAGS, "--confidence", 0.9, "--json")
    assert done.exit_code == 0
    expected = agree(answers, **COLUMNS, **SCORES, confidence=0.9).to_dict()
    assert json.loads(done.stdout) == json.loads(json.dumps({**expected, "errors": []}))


def test_labels_alone_name_what_is_next(answers: Path) -> None:
    text = words(run(answers, *LABELS))
    assert "Hallucinated" in text and "Ask whether it may stand in for people" in text


def test_a_guardrail_flags(answers: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "calibration.jsonl", rows(200))
    column = build_column("detector", higher="hallucinated")
    frozen = calibrail.calibrate(source, column, alpha=0.2).freeze()
    frozen.save(tmp_path / "guardrail.json")
    done = run(answers, *LABELS, "--guardrail", tmp_path / "guardrail.json", "--json")
    expected = agree(answers, **COLUMNS, guardrail=frozen).to_dict()
    assert json.loads(done.stdout) == json.loads(json.dumps({**expected, "errors": []}))


def test_what_is_missing_is_explained(tmp_path: Path) -> None:
    items = judged(100)
    for item in items:
        item["human"] = 0 if item["human"] == 0 else None
    text = words(run(write(tmp_path / "one.jsonl", items), *LABELS, *FLAGS))
    assert "Missing" in text
    assert "Caught, Pred.-powered: no row with both labels is of the class." in text


def test_what_holds_for_several_judges_is_said_once(tmp_path: Path) -> None:
    items = judged(400)
    for n, item in enumerate(items):
        item |= {"second": item["judge"] ^ (n % 9 == 0)}
        # People labelled what the judge called hallucinated.
        item["human"] = int(n % 3 == 0) if item["judge"] or n % 5 == 0 else None
    source = write(tmp_path / "some.jsonl", items)
    done = run(source, *LABELS, "--judge-column", "second", *LIMITS)
    text = words(done)
    assert text.count("There is no verdict, since the human labels are no random sample") == 1
    assert "judge and second, each: There is no verdict" in text
    assert "hallucinated answers and" not in text and " faithful answers" not in text
    assert text.count("Assumptions") == text.count("Rogan-Gladen: the judge errs") == 1
    alone = words(run(source, *LABELS, *LIMITS))
    assert "are no random sample: 100% of them" in alone or "no random sample: " in alone


def test_rows_that_cannot_be_used_are_noted(tmp_path: Path) -> None:
    items = judged(50)
    items[0]["human"] = "maybe"
    source = write(tmp_path / "answers.jsonl", items)
    done = run(source, *LABELS)
    assert done.exit_code == 0 and "1 unusable row: see quarantine.jsonl" in done.stderr
    assert json.loads((tmp_path / "quarantine.jsonl").read_text())["value"] == "'maybe'"
    strict = run(source, *LABELS, "--strict")
    assert isinstance(strict.exception, DataError) and "field human" in str(strict.exception)


def test_options_that_belong_together(answers: Path) -> None:
    done = run(answers, *LABELS, "--threshold", 1)
    assert isinstance(done.exception, InputError)
    nobody = run(answers, "--label-column", "human").exception
    assert isinstance(nobody, InputError) and "--judge-column COL must name" in str(nobody)


def test_the_former_options_still_do(answers: Path) -> None:
    former = ("--human", "human", "--judge=judge", *FLAGS, "--json")
    done = CliRunner().invoke(cli.app, ["agree", str(answers), *former])
    assert json.loads(done.stdout) == json.loads(run(answers, *LABELS, *FLAGS, "--json").stdout)


def test_a_class_that_people_never_saw_is_unknown_and_judges_are_called_so(answers: Path) -> None:
    path = write(
        answers,
        [{**row, "human": 0 if row["human"] in (0, 1) else None, "judge2": 0} for row in judged()],
    )
    text = words(run(path, *LABELS, "--judge-column", "judge2", *LIMITS))
    assert "Finds hallucinated unknown people call none of the" in text
    assert "the share caught lies between 0% and 100%, and 80% is required" in text
    assert "both ranges" not in text
    assert "Corrected for 2 judges (Holm)" in text


def test_looks_stand_beside_the_data_and_a_second_one_is_one(tmp_path: Path) -> None:
    source, _ = standing_in(tmp_path, {"judge": (0.06, 0.06)})
    first = run(source, *LABELS, *LIMITS)
    assert first.exit_code == 0 and "no looks" not in first.stderr
    assert (tmp_path / "judged.looks.json").is_file()
    assert run(source, *LABELS, *LIMITS).stdout == first.stdout
    again = run(source, *LABELS, "--min-caught", 0.85, "--max-false-alarms", 0.2)
    assert again.exit_code == OF_VERDICT["inconclusive"] and "looked at before" in words(again)


def test_judges_in_other_files_are_looks_at_the_same_labels(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"gpt": (0.06, 0.06), "claude": (0.05, 0.05)})
    rows = ({"id": row["id"], "human": row["human"]} for row in made if row["human"] is not None)
    people, codes = write(tmp_path / "people.jsonl", rows), []
    for name in ("gpt", "claude", "gpt"):
        mine = ({**row, "human": None, "judge": row[name]} for row in made)
        mine = ({k: v for k, v in row.items() if k not in ("gpt", "claude")} for row in mine)
        (tmp_path / name).mkdir(exist_ok=True)
        source = write(tmp_path / name / "judged.jsonl", mine)
        codes.append(run(source, *LABELS, "--labels", people, *LIMITS).exit_code)
    assert codes == [0, OF_VERDICT["inconclusive"], 0]
    assert (tmp_path / "people.looks.json").is_file()


def test_where_no_looks_can_be_kept_that_is_said(tmp_path: Path) -> None:
    source, made = standing_in(tmp_path, {"judge": (0.06, 0.06)})
    write(tmp_path / "more.jsonl", [{**row, "id": f"b{row['id']}"} for row in made])
    done = run(source, tmp_path / "more.jsonl", *LABELS, *LIMITS)
    assert "This test is not recorded" in done.stderr and not [*tmp_path.glob("*.looks.json")]


def test_two_labels_of_one_answer_are_refused_with_both_rows_and_equal_ones_are_one(
    tmp_path: Path,
) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.06, 0.06)})
    at = next(k for k, row in enumerate(made) if row["human"] == 1)
    once = write(tmp_path / "once.jsonl", made)
    twice = write(tmp_path / "twice.jsonl", [*made, made[at]])
    first, second = (json.loads(run(name, *LABELS, "--json").stdout) for name in (once, twice))
    assert first["judges"] == second["judges"]
    unlike = write(tmp_path / "unlike.jsonl", [*made, {**made[at], "human": 0}])
    refused = run(unlike, *LABELS, *LIMITS).exception
    where = f"id {made[at]['id']} two labels, 0 and 1, in rows {at + 1} and {len(made) + 1}"
    assert isinstance(refused, DataError) and where in str(refused)
    # Another answer of the same id is one of its own.
    other = {**made[at], "human": 0, "response": "Another one."}
    assert run(write(tmp_path / "other.jsonl", [*made, other]), *LABELS).exit_code == 0


def test_ratings_are_said_to_be_calibrated_on_labels_that_test_nothing() -> None:
    result = run("example:judge", "--judge-column", "hallucination_score")
    assert result.exit_code == 0, result.output
    assert "that test nothing" in words(result)
    assert "must name the column of a judge" in str(run("example:judge").exception)
