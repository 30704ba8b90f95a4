"""Files as people have them: what nobody said is asked or said, and never guessed in silence."""

import csv
import json
import pickle
import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import calibrail
from calibrail.cli import app
from calibrail.data.columns import likely_labels
from calibrail.errors import DataError, GuardrailError, InputError
from calibrail.formatting import Scale
from calibrail.report.documents.calibrate_sections import to_try
from tests.workbooks import write_workbook


def _rows(n: int = 80) -> list[dict[str, Any]]:
    lot = random.Random(3)
    bad = [i % 3 == 0 for i in range(n)]
    return [
        {"score": round(lot.gauss(0.6 if wrong else 0.4, 0.15), 3), "wrong": int(wrong)}
        for wrong in bad
    ]


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def _called(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def test_a_judges_labels_do_not_stand_for_peoples(tmp_path: Path) -> None:
    rows = [
        {
            "hallucination": int(r["score"] > 0.5),
            "judge_score": r["score"],
            "human_label": r["wrong"],
        }
        for r in _rows()
    ]
    with pytest.raises(DataError, match=r"contradict each other.*human_label"):
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5, higher="hallucinated")
    for row in rows:
        row["hallucination"] = row["human_label"]
    done = calibrail.test(
        _write(tmp_path / "b.csv", rows),
        threshold=0.5,
        score_column="judge_score",
        higher="hallucinated",
    )
    assert done.report.test.n_hallucinated == 27


def test_a_column_of_people_goes_against_a_programs_label(tmp_path: Path) -> None:
    words = ("factual", "hallucinated")
    rows = [
        {"output": f"a{n}", "label": words[r["score"] > 0.5], "score": r["score"]}
        | {"human": words[r["wrong"]]}
        for n, r in enumerate(_rows())
    ]
    with pytest.raises(DataError, match=r"contradict each other.*human"):
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5, higher="hallucinated")


def test_labels_that_are_unread_and_a_direction_are_asked_for_at_once(tmp_path: Path) -> None:
    rows = [{"human_label": ("good", "bad")[r["wrong"]], "Score": r["score"]} for r in _rows()]
    with pytest.raises(DataError, match=r"positive='bad'.*And: does a higher value of Score"):
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)


def test_doctor_names_a_score_within_an_object_and_no_number_of_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"item_id": n, "scores": {"Faithfulness": r["score"]}, "label": r["wrong"]}
        for n, r in enumerate(_rows())
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    commands = [x for x in _called("doctor", path).stdout.splitlines() if x.startswith("  cal")]
    assert "--score-column scores.Faithfulness --higher faithful" in commands[0]
    assert "item_id" not in " ".join(commands)


def test_a_score_that_has_the_name_of_a_label_is_none(tmp_path: Path) -> None:
    rows = [
        {"hallucination": r["score"], "human-annotation": ("correct", "hallucinated")[r["wrong"]]}
        for r in _rows()
    ]
    run = calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)
    assert run.report.score["params"]["column"] == "hallucination"
    assert run.report.test.n_hallucinated == 27


@pytest.mark.parametrize(
    ("of_program", "of_people", "option"),
    [
        ({"scores": {"Scorer": {"has_hallucination": 1}}}, ("supported", "unsupported"), ""),
        ({"metrics": {"hallucination": 0.3}}, ("thumbs up", "thumbs down"), "'thumbs down'"),
    ],
)
def test_what_stands_among_scores_is_no_label(
    tmp_path: Path, of_program: Any, of_people: tuple[str, str], option: str
) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"id": n, **of_program, "verdict": of_people[r["wrong"]]} for n, r in enumerate(_rows())
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    asked = f"(?i)labels may stand in 'verdict'; add --label-column verdict.*{option}"
    assert re.search(asked, str(_called("test", path, "--threshold", 0.5).exception))


@pytest.mark.parametrize(
    ("place", "column", "cell", "said"),
    [
        (4, "hallucination_score", "error", "1 test answer has no score"),
        (
            slice(0, 24, 2),
            "hallucination_score",
            "NA",
            "12 test answers (4 hallucinated) have no score",
        ),
        # One answer of each class counts, and a score is no verdict of yes and no for that.
        (slice(None), "id", "same", "At 0.5 it catches"),
    ],
)
def test_a_score_is_one_whatever_else_is_odd(
    tmp_path: Path, place: Any, column: str, cell: str, said: str
) -> None:
    rows = [
        {"id": n, "hallucination_score": r["score"], "label": r["wrong"]}
        for n, r in enumerate(_rows())
    ]
    for row in [rows[place]] if isinstance(place, int) else rows[place]:
        row[column] = cell
    done = _called("test", _write(tmp_path / "a.csv", rows), "--threshold", 0.5)
    assert said in " ".join(done.stdout.split()) and "This judge" not in done.stdout


def test_samples_of_an_evaluation_harness_are_read() -> None:
    row = {"doc": {"question": "q"}, "arguments": {"gen_args_0": {"arg_0": "q"}}, "label": 1}
    (made,) = calibrail.read(
        [{**row, "resps": [["In Rome."]], "filtered_resps": ["In Rome."]}], require=()
    )
    assert (made.question, made.response) == ("q", "In Rome.")


@pytest.mark.parametrize(("number", "said"), [(-1, True), (999, True), (0.4, False)])
def test_a_number_that_stands_for_no_score_is_told(
    tmp_path: Path, number: float, said: bool
) -> None:
    rows = [
        {"judge_score": number if i % 10 == 0 else abs(r["score"]), "label": r["wrong"]}
        for i, r in enumerate(_rows())
    ]
    done = _called(
        "test", _write(tmp_path / "a.csv", rows), "--threshold", 0.5, "--higher", "hallucinated"
    )
    assert (f"8 answers have {number:g} in judge_score" in " ".join(done.stdout.split())) is said


@pytest.mark.parametrize("mixed", [True, False])
def test_per_cents_beside_shares_are_told(tmp_path: Path, mixed: bool) -> None:
    # Odds spread over both sides of 1, as numbers of one unit do.
    odds = [abs(r["score"]) / (1 - r["score"]) ** 3 for r in _rows()]
    rows = [
        {"hallucination_score": (round(100 * s) if n % 4 == 0 else s) if mixed else odds[n]}
        | {"label": r["wrong"]}
        for n, r in enumerate(_rows())
        for s in [min(0.99, max(0.05, r["score"]))]
    ]
    path = _write(tmp_path / "a.csv", rows)
    for words in (("test", path, "--threshold", 0.5), ("doctor", path)):
        said = " ".join(_called(*words).stdout.split())
        asked = "or more in hallucination_score, and 60 less than 1: per cents beside shares?"
        assert (asked in said) is mixed


def test_every_first_command_tells_of_a_number_that_stands_for_no_score(tmp_path: Path) -> None:
    rows = [
        {"groundedness": -1 if i % 10 == 0 else round(abs(r["score"]), 3), "label": r["wrong"]}
        for i, r in enumerate(_rows(240))
    ]
    path = _write(tmp_path / "a.csv", rows)
    new = _write(tmp_path / "b.csv", [{**row, "id": n} for n, row in enumerate(rows)])
    turned = ("--score-column", "groundedness", "--higher", "hallucinated")
    run, guardrail = tmp_path / "run", tmp_path / "g.json"
    for n, words in (
        (24, ("doctor", path)),
        (24, ("calibrate", path, *turned, "--alpha", 0.3, "-o", run)),
        (24, ("compare", path, *turned, "--alpha", 0.3, "-o", tmp_path / "compared")),
        (0, ("export", run, "-o", guardrail)),
        (24, ("certify", guardrail, new, "--max-false-alarms", 0.5, "--fresh")),
    ):
        done = _called(*words)
        said = " ".join(done.stdout.split())
        assert not n or f"{n} answers have -1 in groundedness, far from all others" in said, words


def _table(tmp_path: Path, *scores: str) -> Path:
    rows = [
        {"question": f"q{n}", "context": f"It is {n}.", "response": f"So it is {n + r['wrong']}."}
        | {"label": r["wrong"], "half": "ab"[n % 2], **dict.fromkeys(scores, r["score"])}
        for n, r in enumerate(_rows(160))
    ]
    for n, row in enumerate(rows):
        row |= {name: round(row[name] + 0.01 * (n % (2 + k)), 3) for k, name in enumerate(scores)}
    return _write(tmp_path / "table.csv", rows)


@pytest.mark.parametrize(
    ("scores", "one", "several", "said"),
    [
        (("groundedness",), ["groundedness"], ["groundedness"], "is the detector, the data's own"),
        (("my_score",), None, None, "the data has scores of its own: my_score"),
        (
            ("groundedness", "p_hallucinated"),
            None,
            ["groundedness", "p_hallucinated"],
            "groundedness",
        ),
        (("latency",), ["rouge_l"], ["rouge_l"], ""),
    ],
)
def test_a_column_of_the_users_goes_first_and_what_is_taken_is_said(
    tmp_path: Path, scores: tuple[str, ...], one: list[str] | None, several: Any, said: str
) -> None:
    path, alpha = _table(tmp_path, *scores), ("--alpha", 0.3)
    for name, expected, how, words in (
        ("calibrate", one, {"alpha": 0.3, "baselines": False}, (*alpha, "--no-baselines")),
        ("shift", one, {"alpha": 0.3, "by": "half"}, (*alpha, "--by", "half")),
        ("repeat", one, {"alpha": 0.3}, alpha),
        ("audit", several, {"geometry": False}, ("--no-geometry",)),
        ("compare", several, {"alpha": 0.3, "baselines": False}, (*alpha, "--no-baselines")),
    ):
        done = _called(name, path, *words, "-o", tmp_path / name)
        command: Any = getattr(calibrail, name)
        if expected is None:
            assert said in str(done.exception) and "--score-column" in str(done.exception)
            with pytest.raises(InputError, match=r"nobody named a detector.*score="):
                command(path, **how)
            continue
        assert said in done.stderr and ("detector" in done.stderr) is bool(said), done.output
        run = command(path, **how)
        content = (run.report if name == "calibrate" else run).to_dict()
        taken = content["detectors"] if expected is several else [content["score"]]
        assert {d.get("params", d).get("column", d["name"]) for d in taken} == {*expected}
        content = content["detectors"][0] if name == "compare" else content
        noted = content.get("notes", content["data"].get("notes"))
        assert any(said in note for note in noted) or not said


def test_a_detector_that_is_named_goes_before_a_column(tmp_path: Path) -> None:
    path = _table(tmp_path, "groundedness")
    run = calibrail.calibrate(path, "rouge_l", threshold=0.5)
    assert run.report.score["name"] == "rouge_l"


def test_doctor_names_the_users_score_whose_direction_nobody_says(tmp_path: Path) -> None:
    lines = _called("doctor", _table(tmp_path, "my_score", "latency")).stdout.splitlines()
    commands = [line for line in lines if line.startswith("  calibrail")]
    for side, line in zip(("hallucinated", "faithful"), commands, strict=True):
        assert f"--score-column my_score --higher {side}" in line
    assert "latency" not in " ".join(commands)


def test_check_repeats_the_limit_that_the_guardrail_states(tmp_path: Path) -> None:
    path, run, file = _table(tmp_path, "groundedness"), tmp_path / "run", tmp_path / "g.json"
    limit = ("--alpha", 0.3, "--max-false-alarms", 0.925)
    _called("calibrate", path, "--guarantee", "marginal", *limit, "-o", run)
    assert _called("export", run, "-o", file).exit_code == 0
    done = _called("check", file, path, "-o", tmp_path / "d.jsonl")
    assert "LABELLED --max-false-alarms 0.925" in done.stdout, done.output


def test_a_threshold_to_try_is_short_and_flags_the_same(tmp_path: Path) -> None:
    rows = _rows(400)
    for row in rows:
        row["score"] = 1 - 0.1 * 7 * row["score"]
    path = _write(tmp_path / "a.csv", rows)
    for higher, sign in (("hallucinated", 1), ("faithful", -1)):
        told = calibrail.test(path, threshold=0.55, higher=higher, label_column="wrong").report
        curve, scale = told.curve, Scale.of(told.score)
        assert len(curve["thresholds"]) in (120, 121)
        for place, edge in enumerate(curve["thresholds"][1:], 1):
            short = to_try(scale, curve, place)
            assert len(short) <= 8 or curve["thresholds"][place - 1] is None
            flags = [
                sum(sign * row["score"] >= x for row in rows) for x in (edge, sign * float(short))
            ]
            assert flags[0] == flags[1]
        # What was made before has no such list.
        before = {name: value for name, value in curve.items() if name != "below"}
        assert to_try(scale, before, 5) == scale.edge(curve["thresholds"][5])


def test_a_score_made_from_its_labels_is_told(tmp_path: Path) -> None:
    rows = [
        {"score": r["wrong"], "label": ("factual", "hallucinated")[r["wrong"]]} for r in _rows()
    ]
    done = _called("test", _write(tmp_path / "a.csv", rows), "--higher", "hallucinated")
    assert "score separates the labels without a single mistake" in " ".join(done.stdout.split())


def _arrow(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pylist(rows)


def _reader(rows: list[dict[str, Any]]) -> Any:
    return _arrow(rows).to_reader()


def _pandas(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows)


def _arrays(rows: list[dict[str, Any]]) -> Any:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("held", [list, iter, _arrow, _reader, _pandas, _arrays])
def test_the_datas_own_score_is_taken_from_whatever_holds_it(held: Any) -> None:
    rows = [{"hallucination_score": r["score"], "label": r["wrong"]} for r in _rows()]
    run = calibrail.calibrate(held(rows), alpha=0.3)
    assert "Threshold found, no verdict yet (hallucination_score)" in str(run)
    assert "hallucination_score" in str(calibrail.compare(held(rows), alpha=0.3, baselines=False))
    assert "hallucination_score" in str(calibrail.test(held(rows), threshold=0.5))


@pytest.fixture
def guardrail(tmp_path: Path) -> Path:
    rows = [{"judge_score": r["score"], "label": r["wrong"]} for r in _rows()]
    run = calibrail.test(
        _write(tmp_path / "labelled.csv", rows), threshold=0.5, higher="hallucinated"
    )
    run.freeze().save(tmp_path / "g.json")
    return tmp_path / "g.json"


def test_scores_in_another_unit_are_told(tmp_path: Path, guardrail: Path) -> None:
    for factor, n in ((1, None), (100, 20)):
        rows = [{"judge_score": factor * r["score"]} for r in _rows(20)]
        data = _write(tmp_path / f"{factor}.csv", rows)
        done = _called("check", guardrail, data, "-o", tmp_path / f"{factor}.jsonl")
        assert ("lie beyond all scores" in " ".join(done.stdout.split())) is (n is not None)
        counted = _called("check", guardrail, data, "-o", tmp_path / f"{factor}.jsonl", "--json")
        assert json.loads(counted.stdout).get("beyond") == n


def test_lines_are_not_written_as_a_table(tmp_path: Path, guardrail: Path) -> None:
    done = _called("check", guardrail, tmp_path / "labelled.csv", "-o", tmp_path / "out.csv")
    assert "name it" in str(done.exception) and not (tmp_path / "out.csv").exists()
    words = ("--score", "length", "-o", tmp_path / "out.csv")
    done = _called("score", tmp_path / "labelled.csv", *words)
    assert "name it .parquet" in str(done.exception) and not (tmp_path / "out.csv").exists()


def test_what_is_no_guardrail_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    for path in (tmp_path, tmp_path / "a.csv"):
        with pytest.raises(GuardrailError, match=r"calibrail export RUN -o guardrail\.json"):
            calibrail.Guardrail.load(path)


def test_a_suggested_command_stands_alone_on_its_line(tmp_path: Path) -> None:
    rows = [
        {"score": r["score"], "state": ("Fine", "Odd", "Bad")[i % 3]} for i, r in enumerate(_rows())
    ]
    lines = _called("doctor", _write(tmp_path / "a.csv", rows)).stdout.splitlines()
    assert lines[-1].startswith("  calibrail doctor ") and "(" not in lines[-1]
    assert _called("plan").stdout.splitlines()[-1].endswith("--guarantee pac")


def test_what_is_piped_in_is_called_standard_input() -> None:
    done = CliRunner().invoke(app, ["doctor", "-"], input="\n")
    assert "/tmp" not in done.stderr


_SHEET = [[n, f"Answer {n}.", str(0.01 * n), ("yes", "no")[n % 3 > 0]] for n in range(60)]
_NAMES = ["id", "answer", "hallucination_score", "hallucinated"]


@pytest.mark.parametrize(
    ("above", "below", "row"),
    [
        ([["Report, 2026"]], [], 3),
        ([["Report"], [], ["As of", "1 May"], []], [], 6),
        ([["Chatbot", "", "Judge", ""]], [], 3),
        (
            [],
            [["What", "was", "it?", "Is it?"], ['{"ImportId":"a"}', *['{"ImportId":"b"}'] * 3]],
            4,
        ),
        ([], [], 2),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_heading_of_several_rows_holds_no_answer(
    tmp_path: Path, above: list[Any], below: list[Any], row: int, suffix: str
) -> None:
    path, rows = tmp_path / f"a{suffix}", [*above, _NAMES, *below, *_SHEET]
    if suffix == ".xlsx":
        write_workbook(path, {"Sheet": rows})
    else:
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter=";").writerows(rows)
    opened = calibrail.read(path, require=())
    answers = list(opened)
    assert len(answers) == len(_SHEET) and opened.place[1] == row + len(_SHEET) - 1
    n_told = sum(any(cells) for cells in (*above, *below))
    assert dict(opened.reasons) == ({("row", "part of the heading"): n_told} if n_told else {})
    done = _called("test", path, "--threshold", 0.3)
    assert ("unusable" in done.stderr) is bool(n_told) and "hallucinated = yes" in done.stdout


@pytest.mark.parametrize(
    ("heading", "first", "said"),
    [
        # A row of numbers names no column, nor does one whose cells come again below it.
        (["Report", "", "", ""], None, "its first row holds 'Report' alone"),
        (["", "", "", "hallucinated"], "column_1", ""),
        (["answer", "hallucinated"], "answer", ""),
    ],
)
def test_a_row_of_answers_is_no_heading(
    tmp_path: Path, heading: list[str], first: str | None, said: str
) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([heading, *([*row[-len(heading) :]] for row in _SHEET)])
    if said:
        with pytest.raises(DataError, match=said):
            calibrail.read(path, require=())
        return
    opened = calibrail.read(path, require=(), labelled=False)
    assert opened.fields[0] == first and len(list(opened)) == len(_SHEET)


@pytest.mark.parametrize(
    ("of_program", "of_people"),
    [
        ({"status": "pass"}, {"item.human": ("ok", "made up")}),
        (
            {"Faithfulness": "FAITHFUL", "Faithfulness reasoning": "since"},
            {"seen": ("fine", "wrong")},
        ),
        ({"correctness": "True", "correctness_reason": "since"}, {"vérifié": ("oui", "non")}),
        ({"scores.judge": "pass"}, {"scores.Revisión humana": ("correcto", "alucinado")}),
    ],
)
def test_peoples_labels_are_named_before_a_judges(of_program: Any, of_people: Any) -> None:
    ((name, words),) = of_people.items()
    rows = [
        {**of_program, name: words[n % 2], next(iter(of_program)): ("pass", "fail")[n % 3 > 0]}
        for n in range(40)
    ]
    assert likely_labels(rows)[0] == name


def test_labels_of_words_that_say_nothing_are_asked_for_with_their_meaning(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"label": [("ok", "bad")[r["wrong"]]], "score": r["score"]} for r in _rows()]
    path.write_text("\n".join(map(json.dumps, rows)))
    said = str(_called("test", path, "--threshold", 0.5).exception)
    assert "--positive bad" in said and "And: does a higher value of score" in said


def test_dates_are_proposed_as_no_text(tmp_path: Path) -> None:
    rows = [
        {
            "created": f"2026-09-{n + 1:02}T10:00:00.000Z",
            "output": f"Answer {n}.",
            "label": r["wrong"],
        }
        for n, r in enumerate(_rows(28))
    ]
    done = _called("doctor", _write(tmp_path / "a.csv", rows))
    assert "contexts=created" not in done.stdout


def test_what_never_happened_is_no_score(tmp_path: Path) -> None:
    rows = [
        {"groundedness/score": int(r["score"] < 0.5), "failure": 0, "label": r["wrong"]}
        for r in _rows()
    ]
    run = calibrail.test(_write(tmp_path / "a.csv", rows), label_column="label")
    assert run.report.score["params"]["column"] == "groundedness/score"


def test_what_prodigy_exports_is_read_by_what_doctor_says(tmp_path: Path) -> None:
    """Its label is what was proposed, and its answer what people made of that."""
    path, answers = tmp_path / "a.jsonl", ("reject", "accept")
    rows = [
        {"text": f"Text {n}.", "meta": {"score": r["score"]}, "label": "HALLUCINATED"}
        | {"_input_hash": n, "_task_hash": -n, "answer": answers[r["wrong"]] if n else "ignore"}
        for n, r in enumerate(_rows())
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    done = _called("doctor", path)
    assert "people accept or reject" in " ".join(done.stdout.split())
    words = shlex.split(done.stdout.splitlines()[-1])[3:]
    run = _called("test", path, *words, "--threshold", 0.5, "--higher", "hallucinated", "--json")
    assert json.loads(run.stdout)["test"]["n_hallucinated"] == 26


@pytest.mark.parametrize(
    ("header", "row", "names"),
    [
        # A decimal comma in two columns parts no cells, nor do marks within a text.
        (
            "answer;score;other;label",
            "Well {0};0,{0};0,4;{1}",
            ["answer", "score", "other", "label"],
        ),
        ("answer", "First {0}; second; third", ["answer"]),
        ("answer,label,link", "Well {0},{1},http://x/?a={0};b=2;c=3", ["answer", "label", "link"]),
        # Columns without a name make no title of the header.
        (",label", "Well {0},{1}", ["column_1", "label"]),
        ("answer,label,,,", "Well {0},{1},a{0},b{0},c{0}", ["answer", "label"]),
    ],
)
def test_a_header_is_no_title(tmp_path: Path, header: str, row: str, names: list[str]) -> None:
    lines = [row.format(number, ["bad", "good"][number > 0]) for number in range(40)]
    (tmp_path / "a.csv").write_text("\n".join([header, *lines]))
    opened = calibrail.read(tmp_path / "a.csv", require=(), labelled=False)
    assert len(list(opened)) == 40 and not opened.reasons
    assert [*opened.head[0]][: len(names)] == names


@pytest.mark.parametrize("name", ["hallucination", "label", "hallucinated"])
def test_a_false_beside_a_word_for_what_it_would_mean_is_asked_about(
    tmp_path: Path, name: str
) -> None:
    # Who writes accurate may mean by false that the answer is.
    words = ("accurate", "hallucinated")
    rows = [{name: words[r["wrong"]], "hallucination_score": r["score"]} for r in _rows()]
    rows[0][name] = "false"
    # One of them is a slip, as is a word among many of these.
    calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)
    for row in rows[1:8]:
        row[name] = "false"
    path = _write(tmp_path / "a.csv", rows)
    with pytest.raises(DataError, match=r"in 8 of 80 labelled rows it holds false.*'false': '\?'"):
        calibrail.test(path, threshold=0.5)
    meant = dict(zip((*words, "false"), (0, 1, 1), strict=True))
    run = calibrail.test(path, threshold=0.5, label_map=meant)
    n_hallucinated = sum(row[name] != "accurate" for row in rows)
    assert run.report.test.n_hallucinated == n_hallucinated


def test_a_judge_who_says_false_beside_such_words_is_asked_about(tmp_path: Path) -> None:
    said = ("accurate", "inaccurate", "false")
    rows = [
        {"id": n, "human": r["wrong"], "hallucination": said[n % 3]} for n, r in enumerate(_rows())
    ]
    path = _write(tmp_path / "a.csv", rows)
    asked = "in 26 of 80 labelled rows it holds false"
    human = calibrail.ReadOptions(label_column="human")
    calls: list[Callable[..., Any]] = [calibrail.test, calibrail.compare]
    for call in calls:
        with pytest.raises(DataError, match=f"{asked}.*says what the answer is, add higher='faith"):
            call(path, score_column=["hallucination"], reading=human)
    with pytest.raises(DataError, match=rf"{asked}.*'false': '\?'.*means faithful$"):
        calibrail.agree(path, judge_column="hallucination", reading=human)
    # What it asks for is what reads it.
    run = calibrail.test(path, score_column="hallucination", higher="faithful", reading=human)
    n_flagged = sum(row["hallucination"] != "accurate" for row in rows)
    counts = run.report.test.coverage.count, run.report.test.fpr.count
    assert sum(counts) == n_flagged
    meant = {"accurate": 0, "inaccurate": 1, "false": 1, "0": 0, "1": 1}
    judged = calibrail.agree(
        path, judge_column="hallucination", label_column="human", label_map=meant
    )
    rates = [judged.judges[0][name]["count"] for name in ("caught", "false_alarms")]
    assert tuple(rates) == counts


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx", "index.csv"])
def test_a_line_of_names_within_a_table_is_no_answer(tmp_path: Path, name: str) -> None:
    """As files that were put together have it; its name is a word for a class."""
    header = ["question", "hallucinated", "hallucination_score"]
    rows: list[list[Any]] = [[f"q{n}", r["wrong"], r["score"]] for n, r in enumerate(_rows())]
    rows[20:20] = rows[50:50] = [["\ufeffquestion", *header[1:]]]
    if name == "index.csv":
        # Pandas gives its index no name.
        header, rows = ["", *header], [["" if row[1:] == header[1:] else 1, *row] for row in rows]
    if name == "a.xlsx":
        path = write_workbook(tmp_path / name, {"Sheet": [header, *rows]})
    else:
        path = tmp_path / name
        path.write_text("\n".join(",".join(map(str, row)) for row in (header, *rows)))
    run = calibrail.test(path, threshold=0.5)
    assert (run.report.test.n_hallucinated, run.data["n_examples"]) == (27, 80)
    assert run.data["problems"] == ["row: part of the heading (2)"]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        # What a machine said is no label, and nobody knows what a grade of people means.
        ({"Hallucinated? (AI)": "yes,no", "Human score": "0,100"}, "score' label_map='0=?,100=?'"),
        ({"KI-Urteil": "falsch,richtig", "Gutachten": "falsch,richtig"}, "column='Gutachten' pos"),
        (
            {"judges.faithful.judgment": "good,bad", "judges.human.judgment": "good,bad"},
            "column='judges.human.judgment' positive='bad'",
        ),
    ],
)
def test_advice_names_people_and_nothing_that_nobody_knows(
    tmp_path: Path, said: dict[str, str], advice: str
) -> None:
    words = {name: both.split(",") for name, both in said.items()}
    rows = [{"answer": "a"} | {k: v[n % 3 == 0] for k, v in words.items()} for n in range(60)]
    with pytest.raises(DataError) as told:
        calibrail.test(_write(tmp_path / "a.csv", rows))
    assert advice in str(told.value)


def test_two_words_of_a_risk_are_asked_about(tmp_path: Path) -> None:
    rows = [
        {"label": r["wrong"], "hallucination_risk": ("Low", "High")[r["score"] > 0.5]}
        for r in _rows()
    ]
    path = _write(tmp_path / "a.csv", rows)
    with pytest.raises(InputError, match=r"holds 'high' and 'low'.*positive=high\""):
        calibrail.test(path)
    run = calibrail.test(path, "column:column=hallucination_risk,higher=hallucinated,positive=high")
    assert run.report.test.n_hallucinated == 27


def test_a_label_within_an_object_is_named(tmp_path: Path) -> None:
    rows = [{"label": {"by": "ann", "value": r["wrong"]}, "p_wrong": r["score"]} for r in _rows()]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"name the part.*label_column='label\.value'"):
        calibrail.test(path, threshold=0.5, higher="hallucinated")
    how: dict[str, Any] = {"higher": "hallucinated", "label_column": "label.value"}
    assert calibrail.test(path, threshold=0.5, **how).report.test.n_hallucinated == 27


def test_labels_of_several_people_are_counted_as_labels(tmp_path: Path) -> None:
    said = ("accurate", "inaccurate", "false")
    rows = [
        {"rater_1": said[n % 3], "rater_2": said[n // 2 % 3], "hallucination_score": 0.5}
        for n in range(60)
    ]
    path = _write(tmp_path / "a.csv", rows)
    counted = "in 40 of 120 labels it holds false (40), beside accurate (40), inaccurate (40)"
    both = calibrail.ReadOptions(label_column="rater_1,rater_2", annotators="any")
    with pytest.raises(DataError, match=re.escape(counted)):
        calibrail.test(path, threshold=0.5, reading=both)
    assert counted in calibrail.diagnose(path, both).warnings[0].message


def test_a_true_of_the_class_that_no_word_names_is_read(tmp_path: Path) -> None:
    words = ("accurate", "true")
    rows = [
        {"hallucination": words[r["wrong"]], "hallucination_score": r["score"]} for r in _rows()
    ]
    run = calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)
    assert run.report.test.n_hallucinated == 27


def test_the_command_shown_names_the_label_that_another_column_contradicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("grounded", "ungrounded")
    rows = [
        {"human_rating": words[r["wrong"]], "grounded": 1, "hallucination_score": r["score"]}
        for r in _rows()
    ]
    _write(tmp_path / "a.csv", rows)
    monkeypatch.chdir(tmp_path)
    shown = re.search(r"Next: calibrail (test .*) YOURS", _called().stdout)
    assert shown is not None
    done = _called(*shlex.split(shown[1]), 0.5)
    assert done.exit_code == 0
    assert "27 hallucinated (human_rating" in " ".join(done.stdout.split())


def test_columns_of_several_annotators_are_named_together(tmp_path: Path) -> None:
    names, words = ("annotator_1", "annotator_2", "annotator_3"), ("faithful", "hallucinated")
    rows = [
        dict.fromkeys(names, words[r["wrong"]]) | {"hallucination_score": r["score"]}
        for r in _rows()
    ]
    path = _write(tmp_path / "a.csv", rows)
    with pytest.raises(DataError, match="name them all: label_column='annotator_1,annotator_2,a"):
        calibrail.test(path, threshold=0.5)
    done = _called("test", path, "--threshold", 0.5, "--label-column", ",".join(names))
    assert "(annotator_1,annotator_2,annotator_3 =" in " ".join(done.stdout.split())


def test_a_pickle_is_no_table_and_a_null_of_a_database_is_no_label(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(_rows()) + b"\0,")
    with pytest.raises(DataError, match="pickle, is to be saved as CSV, JSON or Parquet"):
        calibrail.test(path, threshold=0.5)
    rows = [{"label": r["wrong"], "hallucination_score": r["score"]} for r in _rows()]
    rows[1]["label"] = r"\N"
    done = _called("test", _write(tmp_path / "a.csv", rows), "--threshold", 0.5)
    assert done.exit_code == 0
    assert "79 answers of" in done.stdout


def test_how_sure_a_verdict_is_has_no_direction(tmp_path: Path) -> None:
    rows = [
        {"judge_confidence": round(0.5 + abs(r["score"] - 0.5), 3), "label": r["wrong"]}
        | {"judge_verdict": ("pass", "fail")[r["score"] > 0.5]}
        for r in _rows()
    ]
    path = _write(tmp_path / "a.csv", rows)
    asked = str(_called("test", path, "--threshold", 0.5).exception)
    assert "where it is how sure judge_verdict is, neither" in asked
    (words,) = re.findall("--score-column judge_verdict alone", asked)
    done = _called("test", path, *words.split()[:2])
    assert "judge_verdict says hallucinated" in " ".join(done.stdout.split()), done.output
    for row in rows:
        del row["judge_verdict"]
    path = _write(tmp_path / "b.csv", rows)
    asked = str(_called("test", path, "--threshold", 0.5).exception)
    assert asked.endswith(f"`calibrail doctor {path}` shows with which labels it goes")


def test_what_is_named_as_the_label_is_offered_as_no_score(tmp_path: Path) -> None:
    rows = [{"Label (1=ok, 2=bad)": r["wrong"] + 1, "Risk": r["score"]} for r in _rows()]
    with pytest.raises(DataError) as told:
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)
    assert "does a higher value of Risk" in str(told.value)
    # A score may be of a label.
    rows = [{"label_confidence": row["Risk"], "grade": row["Label (1=ok, 2=bad)"]} for row in rows]
    with pytest.raises(DataError, match="does a higher value of label_confidence"):
        calibrail.test(_write(tmp_path / "b.csv", rows), threshold=0.5)


@pytest.mark.parametrize("name", ["hallucinated", "label"])
@pytest.mark.parametrize("first", [0, 1])
def test_ticks_beside_blanks_are_asked_about_with_what_reads_them(
    tmp_path: Path, name: str, first: int
) -> None:
    rows = [{name: "x" if r["wrong"] else "", "p_wrong": r["score"]} for r in _rows()]
    path = _write(tmp_path / "a.csv", rows[first:])
    how = (
        "test",
        path,
        "--threshold",
        0.5,
        "--score-column",
        "p_wrong",
        "--higher",
        "hallucinated",
    )
    asked = re.search(r"(--label-map \S+) reads both", str(_called(*how).exception))
    assert asked is not None
    words = shlex.split(asked[1].replace("x=?,blank=?", "x=1,blank=0"))
    assert ("?" in asked[1]) is (name == "label")
    done = _called(*how, *words)
    assert f"{80 - first} answers" in done.stdout and f"{27 - first} hallucinated" in done.stdout


def test_what_one_judge_of_a_list_said_is_a_score(tmp_path: Path) -> None:
    """As an evaluation job of Bedrock writes it."""
    rows = [
        {"modelResponses": [{"response": f"It is {n}."}], "label": r["wrong"]}
        | {"automatedEvaluationResult": {"scores": [{"metricName": "F", "result": r["score"]}]}}
        for n, r in enumerate(_rows())
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    run = calibrail.test(path, threshold=0.5, higher="hallucinated")
    assert run.report.score["params"]["column"] == "automatedEvaluationResult.scores.0.result"
    for row in rows:
        del row["label"]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(
        DataError, match=r"(?i)where there is none yet, people label: calibrail.label"
    ):
        calibrail.test(path, threshold=0.5, higher="hallucinated")


def test_scores_that_are_no_numbers_alone_are_named(tmp_path: Path) -> None:
    for spelt in ("~{}", "{}/10", "{} stars"):
        rows = [{"judge_score": spelt.format(r["score"]), "label": r["wrong"]} for r in _rows()]
        with pytest.raises(InputError, match=r"judge_score holds .*: write numbers alone"):
            calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)
    rows = [
        {"q": "Q?", "[openai:x] {{q}}": "[PASS] (1.00)\n\nYes.", "label": n % 2} for n in range(9)
    ]
    with pytest.raises(
        InputError, match="a table of promptfoo; its JSON has scores: promptfoo exp"
    ):
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)


@pytest.mark.parametrize("flat", [True, False])
def test_each_of_several_choices_is_asked_about(tmp_path: Path, flat: bool) -> None:
    """As Label Studio exports them."""
    chosen = [(["Made up", "Short"], ["Fine"])[n % 3 > 0] for n in range(60)]
    data = [{"answer": f"It is {n}.", "p_wrong": n % 3 / 3} for n in range(60)]
    if flat:
        about = {"annotator": 1, "annotation_id": 1, "lead_time": 2.5}
        rows = [
            {"id": n, "issues": kinds[0] if len(kinds) < 2 else json.dumps({"choices": kinds})}
            | data[n]
            | about
            for n, kinds in enumerate(chosen)
        ]
        path = _write(tmp_path / "a.csv", rows)
    else:
        path = tmp_path / "a.json"
        results = [[{"from_name": "issues", "value": {"choices": kinds}}] for kinds in chosen]
        tasks = [
            {"id": n, "data": data[n], "annotations": [{"result": result}]}
            for n, result in enumerate(results)
        ]
        path.write_text(json.dumps(tasks))
    column = "issues" if flat else "annotation.issues"
    how: dict[str, Any] = {"threshold": 0.5, "score_column": "p_wrong", "label_column": column}
    with pytest.raises(DataError) as told:
        calibrail.test(path, higher="faithful", **how)
    assert "label_map={'made up': 1}" in str(told.value)
    run = calibrail.test(path, higher="faithful", positive="Made up", **how)
    assert run.report.test.n_hallucinated == 20


def _added(tool: str, n: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a tool's table with the columns that its user added."""
    label = ("factual", "hallucinated")[row["wrong"]]
    texts = {"q": json.dumps({"question": f"q{n}"}), "a": f"Answer {n}."}
    if tool == "langsmith":
        own = {"outputs.answer": texts["a"], "example_id": n, "execution_time": 1.2, "id": f"r{n}"}
        return {**own, "feedback.faithfulness": 1 - row["score"], "human_label": label}
    if tool == "langfuse":
        own = {"id": f"t{n}", "timestamp": n, "input": texts["q"], "output": texts["a"]}
        own |= {"tags": "[]", "metadata": "{}", "hallucination": f"[{row['score']}]"}
        return {**own, "human_label": label}
    # What evaluate_dataframe of Phoenix returns of a frame of spans.
    scored = {"name": "hallucination", "score": row["score"], "label": "factual", "kind": "llm"}
    own = {"context.trace_id": f"t{n}", "context.span_id": f"s{n}", "span_kind": "CHAIN"}
    own |= {"attributes.input.value": texts["q"], "attributes.output.value": texts["a"]}
    own["hallucination_score"] = json.dumps(scored)
    own["hallucination_execution_details"] = json.dumps({"seconds": n / 7})
    return {**own, "human_label": label}


@pytest.mark.parametrize(
    ("tool", "column"),
    [
        ("langsmith", "score.faithfulness"),
        ("langfuse", "score.hallucination"),
        ("phoenix", "hallucination_score.score"),
    ],
)
def test_columns_that_somebody_added_to_a_tools_table_are_read(
    tmp_path: Path, tool: str, column: str
) -> None:
    rows = [_added(tool, n, row) for n, row in enumerate(_rows())]
    path = _write(tmp_path / "a.csv", rows)
    run = calibrail.test(path, threshold=0.5)
    assert run.report.score["params"]["column"] == column
    assert run.report.test.n_hallucinated == 27
    assert run.report.data["reading"]["labels"]["column"] == "human_label"
    # The seconds that an evaluation took are no score of what it is called after.
    assert "seconds" not in _called("doctor", path).stdout.partition("Next:")[2]


def test_grades_under_the_name_of_a_label_yield_to_words_elsewhere(tmp_path: Path) -> None:
    rows = [
        {"hallucination": r["score"], "my_review": ("faithful", "hallucinated")[r["wrong"]]}
        for r in _rows()
    ]
    for row in rows[:20]:
        # Some of a judge's scores are 0 or 1 exactly.
        row["hallucination"] = round(row["hallucination"])
    path = _write(tmp_path / "a.csv", rows)
    assert calibrail.diagnose(path).suggested == ("--label-column", "my_review")
    with pytest.raises(DataError, match="stand in 'my_review'; add label_column='my_review'"):
        calibrail.test(path, threshold=0.5)
    run = calibrail.test(path, threshold=0.5, label_column="my_review")
    assert run.report.score["params"]["column"] == "hallucination"


def test_a_judges_label_in_an_object_may_differ_from_peoples(tmp_path: Path) -> None:
    words, path = ("faithful", "hallucinated"), tmp_path / "a.jsonl"
    rows = [
        {"judge": {"name": "hallucination", "label": words[n % 3 == 0 or n == 4]}}
        | {"answer": f"a{n}", "human": {"label": words[r["wrong"]]}}
        for n, r in enumerate(_rows())
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    run = calibrail.test(path)
    assert run.report.score["params"]["column"] == "judge.label"
    assert (run.report.test.n_hallucinated, run.report.test.fpr.count) == (27, 1)
    assert calibrail.diagnose(path).columns["label"] == "human.label"
    text = path.read_text().replace("judge", "hallucination_score").replace("human", "human_review")
    path.write_text(text)
    assert calibrail.test(path).report.score["params"]["column"] == "hallucination_score.label"


def test_of_two_words_the_one_that_may_mean_hallucinated_is_proposed(tmp_path: Path) -> None:
    rows = [{"judge": ("faithful", "made_up")[r["wrong"]], "label": r["wrong"]} for r in _rows()]
    with pytest.raises(InputError, match="positive=made_up"):
        calibrail.test(_write(tmp_path / "a.csv", rows))


def test_commands_of_a_test_run_as_they_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"hallucination_score": round(r["score"], 1), "id": n, "label": r["wrong"]}
        for n, r in enumerate(_rows())
    ]
    _write(tmp_path / "my answers.csv", rows)
    goals = ("--min-caught", "0.3", "--max-false-alarms", "0.9")
    words = ("test", "my answers.csv", "--threshold", "0.5", *goals)
    monkeypatch.setattr("sys.argv", ["calibrail", *words])
    done = _called(*words)
    said = " ".join(done.stdout.split())
    tied = re.search(r"such an answer passes: calibrail (test .*? --threshold [\d.]+)\.", said)
    assert tied is not None and _called(*shlex.split(tied[1])).exit_code == 0
    kept = re.search(r"^  calibrail (test .* -o RUN)$", done.stdout, re.MULTILINE)
    assert kept is not None
    again = [*shlex.split(kept[1])[:-2], "--output", "RUN"]
    monkeypatch.setattr("sys.argv", ["calibrail", *again])
    assert "Freeze exactly this threshold:" in _called(*again).stdout
    assert _called("export", "RUN", "-o", "guardrail.json").exit_code == 0


def test_a_risk_goes_before_a_detector_that_reads_texts(tmp_path: Path) -> None:
    rows = [
        {"answer": f"a{n}", "Risiko": r["score"], "label": r["wrong"]}
        for n, r in enumerate(_rows())
    ]
    rows[0]["Risiko"], rows[1]["Risiko"] = "inf", "-inf"
    found = calibrail.diagnose(path := _write(tmp_path / "a.csv", rows))
    assert found.numeric_columns[0].missing == 2
    assert "--score-column Risiko" in _called("doctor", path).stdout


def test_a_file_without_a_row_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("answer,score,label\n")
    with pytest.raises(DataError, match="is empty: it holds no row"):
        calibrail.test(tmp_path / "a.csv", threshold=0.5)


def test_a_threshold_in_per_cent_is_told_how_those_are_read(tmp_path: Path) -> None:
    rows = [{"grounded": f"{100 * r['score']:.0f} %", "label": r["wrong"]} for r in _rows()]
    with pytest.raises(InputError, match=r"threshold=0\.5 \(50 % in the data is read as 0\.5\)"):
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=50)


def test_grades_yield_to_no_words_about_something_else() -> None:
    rows = [
        {
            "id": f"{i}",
            "response": f"Answer {i}.",
            "hallucination": i / 240,
            "toxic": ("yes", "no")[i % 2],
        }
        for i in range(240)
    ]
    with pytest.raises(DataError, match="'hallucination' is no column of 0 and 1"):
        calibrail.test(rows, score="length", threshold=20)
