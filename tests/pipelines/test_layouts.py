"""Does doctor say how to read a file that it does not understand, or that looks turned around?"""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import calibrail
from calibrail import calibrate, diagnose
from calibrail.cli import app
from calibrail.data.profile import Diagnosis
from calibrail.errors import DataError
from calibrail.options.fields import cli_spelling
from calibrail.report.document import Document
from calibrail.report.documents.doctor import document
from tests.rows import Write

WORDS = [f"word{i}" for i in range(2000)]


def rows(n: int = 240, seed: int = 0) -> list[tuple[str, str, bool]]:
    """Return contexts, answers of their words, and whether a word was made up."""
    rng, made = random.Random(seed), []
    for i in range(n):
        context = rng.sample(WORDS, 30)
        answer, bad = context[: 8 + i % 3], bool(i % 2)
        for place in range(bad + rng.randrange(2)):
            answer[place] = rng.choice(WORDS)
        made.append((" ".join(context), " ".join(answer), bad))
    return made


def shown(diagnosis: Diagnosis | dict[str, Any]) -> Document:
    """Return a diagnosis as the command line shows it."""
    content = diagnosis if isinstance(diagnosis, dict) else diagnosis.to_dict()
    with cli_spelling():
        return document(content)


def next_step(diagnosis: Diagnosis | dict[str, Any]) -> str:
    found = (
        "Find what the detector catches, and its price (of 100 good answers, how many are flagged "
        "by mistake): "
    )
    return (shown(diagnosis).next_step or "").removeprefix(found)


def run(step: str) -> dict[str, Any]:
    """Run a suggested command as it stands."""
    words = shlex.split(step[step.rindex("calibrail ") :])
    result = CliRunner().invoke(app, [*words[1:], "--json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def followed(diagnosis: Diagnosis) -> dict[str, Any]:
    """Run the suggested command, and the suggested call, which reads the same."""
    said = document(diagnosis.to_dict()).next_step or ""
    call = said[said.rindex("calibrail.") :]
    assert call.startswith("calibrail.diagnose(")
    found = run(next_step(diagnosis))
    called = eval(call, {"calibrail": calibrail}).to_dict()
    for name in ("columns", "usable", "n_hallucinated", "n_faithful", "suggested", "supports"):
        assert json.loads(json.dumps(called[name])) == found[name], name
    return found


def test_the_suggested_command_reads_the_file(write: Write) -> None:
    path = write(
        *(
            {"meta": {"verdict": "Bad" if bad else "Consistent"}, "grounds": {"body": c}, "ours": r}
            for c, r, bad in rows(40)
        )
    )
    diagnosis = diagnose(path)
    looks = {look.name: look for look in diagnosis.layout}
    assert list(looks) == ["meta.verdict", "grounds.body", "ours"]
    assert (looks["ours"].kind, looks["ours"].n) == ("text", 40)
    assert looks["meta.verdict"].values == ("Consistent", "Bad")
    assert list(diagnosis.suggested) == shlex.split(
        "--map response=ours,contexts=grounds.body --label-column meta.verdict "
        "--label-map Consistent=0,Bad=1"
    )
    found = followed(diagnosis)
    assert (found["n_hallucinated"], found["n_faithful"], found["suggested"]) == (20, 20, [])
    # What was named stands in the command that comes next.
    path_and_options = shlex.split(next_step(diagnosis).rpartition(": ")[2])[2:]
    calibrated = next_step(found)
    assert shlex.split(calibrated)[2 : 2 + len(path_and_options)] == path_and_options


def test_labels_that_may_mean_either_are_left_to_a_person(write: Write) -> None:
    path = write(
        *({"document": c, "summary": r, "label": "yes" if bad else "no"} for c, r, bad in rows(20))
    )
    diagnosis = diagnose(path)
    assert diagnosis.usable == 0 and dict(diagnosis.columns)["contexts"] == "document"
    assert "If no is what means hallucinated; else name the other label: " in next_step(diagnosis)
    path = write(
        *(
            {"document": c, "summary": r, "label": ["Fine", "Odd", "Unwanted"][i % 3]}
            for i, (c, r, _) in enumerate(rows(20))
        )
    )
    diagnosis = diagnose(path)
    step, call = next_step(diagnosis), document(diagnosis.to_dict()).next_step or ""
    assert "--label-map 'Fine=?,Odd=?,Unwanted=?'" in step and "in place of each ?" in step
    assert (
        call.startswith("Put 1") and "label_map={'Fine': '?', 'Odd': '?', 'Unwanted': '?'})" in call
    )


def test_of_rivals_the_first_is_proposed(write: Write) -> None:
    row = {"context": "c", "answer": "a", "summary": "s"}
    path = write(*(row | {"hallucinated": i % 2, "faithful": 1 - i % 2} for i in range(4)))
    diagnosis = diagnose(path)
    assert next_step(diagnosis).endswith("--map response=answer --label-column hallucinated")
    assert followed(diagnosis)["n_hallucinated"] == 2


@pytest.mark.parametrize(
    ("columns", "read", "other"),
    [
        (lambda bad, odd: {"hallucinated": bad ^ odd, "label": bad}, "label", "hallucinated"),
        (lambda bad, odd: {"label": bad, "is_faithful": bad}, "label", "is_faithful"),
    ],
)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_columns_of_labels_that_contradict_each_other_are_told(
    write: Write, columns: Any, read: str, other: str, name: str
) -> None:
    """What `calibrate` refuses, doctor tells, and its command chooses one."""
    made = [
        {"contexts": c, "response": r} | columns(int(bad), int(i == 39))
        for i, (c, r, bad) in enumerate(rows(40))
    ]
    if name.endswith("csv"):
        lines = [list(made[0]), *(row.values() for row in made)]
        path = write(*(",".join(map(str, line)) for line in lines), name=name)
    else:
        path = write(*made, name=name)
    with pytest.raises(DataError, match="contradict each other"):
        calibrate(path, "novelty", alpha=0.2)
    diagnosis = diagnose(path)
    (finding,) = [f for f in diagnosis.warnings if f.code == "label_columns_contradict"]
    assert f"he columns {read} and {other} contradict each other" in finding.message
    assert "label_column=" in finding.message and "--" not in finding.message
    step = next_step(diagnosis)
    assert f"he columns {read} and {other} contradict" in step.lower()
    assert step.endswith(f"--label-column {read}")
    found = followed(diagnosis)
    assert (found["suggested"], found["n_hallucinated"], found["n_faithful"]) == ([], 20, 20)
    assert "label_columns_contradict" not in [item["code"] for item in found["warnings"]]
    command = shlex.split(next_step(found).replace("-o run", f"-o {path.parent / 'run'}"))
    assert command[3:5] == ["--label-column", read]
    assert CliRunner().invoke(app, command[1:]).exit_code == 0


def test_one_name_in_two_spellings_is_refused_with_an_option_that_reads_it(write: Write) -> None:
    path = write(
        *(
            {"contexts": c, "response": r, "label": int(bad), "Label": int(not bad)}
            for c, r, bad in rows(40)
        )
    )
    result = CliRunner().invoke(app, ["doctor", str(path)])
    assert "choose one with --label-column label" in str(result.exception)
    words = ["doctor", str(path), "--label-column", "label", "--json"]
    found = json.loads(CliRunner().invoke(app, words).stdout)
    assert (found["n_hallucinated"], found["n_faithful"], found["suggested"]) == (20, 20, [])


def test_columns_of_labels_that_agree_are_no_dispute(write: Write) -> None:
    path = write(
        *(
            {"contexts": c, "response": r, "label": int(bad), "is_faithful": not bad}
            for c, r, bad in rows(40)
        )
    )
    diagnosis = diagnose(path)
    assert (diagnosis.suggested, diagnosis.because) == ((), "")
    assert "label_columns_contradict" not in {f.code for f in diagnosis.warnings}


def test_columns_are_listed_where_something_is_not_understood(write: Write) -> None:
    unclear = write(*({"a": "some text of mine", "b": [1.5, 2]} for _ in range(3)))
    result = CliRunner().invoke(app, ["doctor", str(unclear)])
    for part in ("Columns", "list", "some text of mine", "Values seen"):
        assert part in result.stdout
    assert "Values seen" not in CliRunner().invoke(app, ["doctor", "example:facts"]).stdout


@pytest.mark.parametrize("words", [("0", "1"), ("fine", "bad")])
def test_inverted_labels_are_suspected_aloud_and_never_turned(
    write: Write, words: tuple[str, str]
) -> None:
    faithful, hallucinated = words
    path = write(
        *(
            {"doc": c, "summary": r, "label": faithful if bad else hallucinated}
            for c, r, bad in rows()
        )
    )
    how: dict[str, Any] = {}
    if words[0] == "fine":
        how = {"label_map": {"fine": 0, "bad": 1}}
    diagnosis = diagnose(path, **how)
    (finding,) = [f for f in diagnosis.warnings if f.code == "labels_look_inverted"]
    assert f"positive={faithful!r} reads them the other way round" in finding.message
    assert "Nothing was turned around" in finding.message
    # Two ways on, and the documentation of the data chooses: never these scores.
    as_read, turned = shown(diagnosis).steps_and_commands()
    assert "documentation" in as_read[0] and "--positive" not in as_read[1]
    assert as_read[1].startswith("calibrail calibrate")
    found = run(turned[1])
    assert found["inverted"] is None
    assert found["n_hallucinated"] == diagnosis.n_faithful
    (in_python,) = document(diagnosis.to_dict()).alternatives
    _, _, call = in_python.partition(": calibrail.")
    again = eval(f"calibrail.{call}", {"calibrail": calibrail})
    assert (again.inverted, again.n_hallucinated) == (None, diagnosis.n_faithful)

    from calibrail.options import ReadOptions

    report = calibrate(path, "length", alpha=0.2, reading=ReadOptions(**how)).report.to_dict()
    (warning,) = [w for w in report["warnings"] if w["code"] == "labels_look_inverted"]
    assert f"positive={faithful!r} reads them the other way round" in warning["message"]
    with cli_spelling():
        report = calibrate(path, "length", alpha=0.2, reading=ReadOptions(**how)).report.to_dict()
    (warning,) = [w for w in report["warnings"] if w["code"] == "labels_look_inverted"]
    assert f"--positive {faithful} reads them the other way round" in warning["message"]
    right = calibrate(path, "length", alpha=0.2, reading=ReadOptions(positive=faithful))
    codes = [warning["code"] for warning in right.report.to_dict()["warnings"]]
    assert "labels_look_inverted" not in codes


@pytest.mark.parametrize(
    ("faithful", "hallucinated", "advised"),
    [
        (
            {"unsupported_answer": "N"},
            {"unsupported_answer": "Y"},
            "--label-column unsupported_answer",
        ),
        ({"label": "good"}, {"label": "bad"}, "--positive bad"),
        ({"feedback": "thumbs_up"}, {"feedback": "thumbs_down"}, "--positive thumbs_down"),
        ({"label": "\u2705"}, {"label": "\u274c"}, "--positive \u274c"),
        ({"thumbs_up": 1}, {"thumbs_up": 0}, "--label-map 1=?,0=?"),
        ({"success": True}, {"success": False}, "--label-column success"),
        ({"error_type": "none"}, {"error_type": "number"}, "--label-map number=1,none=0"),
        (
            {"judge_label": "FAIL", "human_label": "PASS"},
            {"judge_label": "PASS", "human_label": "FAIL"},
            "--label-column human_label",
        ),
    ],
)
def test_advice_on_labels_never_turns_what_their_words_say(
    write: Write, faithful: dict[str, Any], hallucinated: dict[str, Any], advised: str
) -> None:
    path = write(
        *(
            {"contexts": c, "response": r} | (hallucinated if bad else faithful)
            for c, r, bad in rows(20)
        )
    )
    suggested = " ".join(diagnose(path).suggested)
    assert advised in suggested
    assert ("--positive" in advised) == ("--positive" in suggested)


def test_how_a_file_was_read_stands_in_the_report(write: Write, tmp_path: Path) -> None:
    made = [
        {"doc": c, "summary": r, "votes": ["Unwanted" if bad else "Benign", "Benign", "Unwanted"]}
        for c, r, bad in rows(80)
    ]
    paths = [write(*made[:40], name="a.jsonl"), write(*made[40:], name="b.jsonl")]
    from calibrail.options import ReadOptions

    how = ReadOptions(label_column="votes", label_map={"Unwanted": 1, "Benign": 0})
    report = calibrate(paths, alpha=0.2, reading=how).report.to_dict()
    reading = report["data"]["reading"]
    assert reading["columns"]["contexts"] == "doc" and reading["columns"]["label"] == "votes"
    assert reading["options"] == [
        *("--label-column", "votes"),
        *("--label-map", "Unwanted=1,Benign=0"),
    ]
    assert [item["name"] for item in reading["files"]] == ["a.jsonl", "b.jsonl"]
    assert reading["labels"]["several"] == {"annotators": "majority", "n": 80, "n_divided": 80}
    notes = " ".join(report["notes"])
    assert "How labels in 'votes' were read: hallucinated: Unwanted; faithful: Benign." in notes
    assert "they disagree on 80, which --annotators majority decides" in notes


def test_a_column_named_after_faithfulness_is_said_to_be_read_so(write: Write) -> None:
    path = write(*({"doc": c, "summary": r, "is_faithful": not bad} for c, r, bad in rows(40)))
    diagnosis = diagnose(path)
    assert (diagnosis.n_hallucinated, diagnosis.inverted) == (20, None)
    (finding,) = [f for f in diagnosis.warnings if f.code == "label_by_name"]
    assert "named after faithfulness, so True in it is read as faithful" in finding.message


def test_contexts_that_are_the_answer_are_noticed(write: Write) -> None:
    made = rows(60)
    same = write(
        *({"contexts": [r.upper()], "response": r, "label": int(bad)} for _, r, bad in made)
    )
    assert diagnose(same).context_is_answer == {"faithful": 30, "hallucinated": 30}
    assert "context_is_answer" in {f.code for f in diagnose(same).warnings}
    within = write(
        *({"contexts": f"{c} {r}", "response": r, "label": int(bad)} for c, r, bad in made)
    )
    assert "context_holds_answer" in {f.code for f in diagnose(within).warnings}
    apart = write(*({"contexts": c, "response": r, "label": int(bad)} for c, r, bad in made))
    codes = {f.code for f in diagnose(apart).warnings}
    assert not codes & {"context_holds_answer", "context_is_answer", "labels_look_inverted"}


def test_the_suggestion_for_nested_texts_can_be_pasted(write: Write) -> None:
    path = write(
        *(
            {"inputs": {"context": c}, "turn": {"context": "x y", "ours": r}, "label": int(bad)}
            for c, r, bad in rows(40)
        )
    )
    diagnosis = diagnose(path)
    assert diagnosis.columns["contexts"] == "inputs.context"
    found = followed(diagnosis)
    assert found["columns"]["response"] == "turn.ours" and found["usable"] == 40
    step = next_step(found).replace("-o run", f"-o {path.parent / 'run'}")
    result = CliRunner().invoke(app, shlex.split(step)[1:])
    assert result.exit_code in (0, 3, 4), result.output
